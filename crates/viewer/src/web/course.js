// The library at any instant of a recording. All times are milliseconds, all places millimetres.
// Shelves are doubled in the recording, so that a shuttle stuck between two of them has a whole
// number.

/**
 * @typedef {{ start: [number, number], legs: number[], work: number[], lost: number[] }} ShuttleTrack
 * @typedef {{ shelves: number, racks: number, storageRacks: number, width: number, port: [number, number],
 *   drives: [number, number][] }} Layout
 * @typedef {{ title: string, until: number, layout: Layout, shuttles: ShuttleTrack[], drives: number[][],
 *   waiting: number[], blocked: [number, number[]][], requests: number[] }} Recording
 * @typedef {{ shelf: number, x: number, does: string, carried: number, isLost: boolean }} ShuttleState
 */

/** Numbers in an entry of legs, work, states of drives, and requests. */
const LEG = 4;
const WORK = 5;
const STATE = 3;
const REQUEST = 3;
/** Where work has a drive. */
const PORT = -2;
/** The outcome of a request whose bytes can't be read. */
const UNAVAILABLE = 2;

/**
 * The index of the last entry whose first number is not after `at`; -1 if there is none.
 *
 * @param {number[]} list
 * @param {number} stride Numbers in an entry.
 * @param {number} at
 */
export function lastBefore(list, stride, at) {
  let low = 0;
  let high = list.length / stride;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle * stride] <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

/**
 * Restores the times of a list, in place: starts count from the entry before, ends from their start.
 *
 * @param {number[]} list
 * @param {number} stride Numbers in an entry.
 * @param {boolean} hasEnd Whether the second number of an entry is an end; -1 if there is none.
 */
function restoreTimes(list, stride, hasEnd) {
  let before = 0;
  for (let at = 0; at < list.length; at += stride) {
    before += list[at];
    list[at] = before;
    if (hasEnd && list[at + 1] >= 0) {
      list[at + 1] += before;
    }
  }
}

/**
 * Unpacks the recording of a page: deflated JSON in Base64.
 *
 * @param {string} text
 * @returns {Promise<Recording>}
 */
export async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  /** @type {Recording} */
  const recording = JSON.parse(await new Response(stream).text());
  for (const { legs, work, lost } of recording.shuttles) {
    restoreTimes(legs, LEG, true);
    restoreTimes(work, WORK, true);
    restoreTimes(lost, 2, true);
  }
  recording.drives.forEach((states) => restoreTimes(states, STATE, false));
  restoreTimes(recording.waiting, 3, false);
  restoreTimes(recording.requests, REQUEST, true);
  return recording;
}

/** The library at any instant of a recording. */
export class Course {
  /** @param {Recording} recording */
  constructor(recording) {
    this.recording = recording;
    const lanes = 2 * recording.layout.shelves;
    /** Time and number of waiting platters, for each lane. @type {number[][]} */
    this.lanes = Array.from({ length: lanes }, () => []);
    /** Time and number of all waiting platters. @type {number[]} */
    this.queue = [];
    const now = new Array(lanes).fill(0);
    let total = 0;
    /** The most platters that ever wait in one lane. */
    this.mostInLane = 1;
    for (let at = 0; at < recording.waiting.length; at += 3) {
      const [time, lane, count] = recording.waiting.slice(at, at + 3);
      this.lanes[lane].push(time, count);
      total += count - now[lane];
      now[lane] = count;
      this.mostInLane = Math.max(this.mostInLane, count);
      this.queue.push(time, total);
    }
    /** The ends of requests in order, each with its arrival. @type {number[]} */
    this.ends = [];
    /** The ends of requests without their bytes. @type {number[]} */
    this.failures = [];
    const ends = [];
    for (let at = 0; at < recording.requests.length; at += REQUEST) {
      if (recording.requests[at + 1] >= 0) {
        ends.push([recording.requests[at + 1], recording.requests[at]]);
        if (recording.requests[at + 2] === UNAVAILABLE) {
          this.failures.push(recording.requests[at + 1]);
        }
      }
    }
    ends.sort((one, other) => one[0] - other[0]);
    this.ends = ends.flat();
    this.failures.sort((one, other) => one - other);
  }

  /** @param {number} number @param {number} at @returns {ShuttleState} */
  shuttle(number, at) {
    const { start, legs, work, lost } = this.recording.shuttles[number];
    let [shelf, x] = start;
    let does = "waits";
    const leg = lastBefore(legs, LEG, at);
    if (leg >= 0) {
      const [from, until, toShelf, toX] = legs.slice(leg * LEG, leg * LEG + LEG);
      const [wasShelf, wasX] = leg > 0 ? legs.slice(leg * LEG - 2, leg * LEG) : start;
      // Without an end, it is not known how far the shuttle came.
      const share = until < 0 ? 0 : until > from ? Math.min(1, (at - from) / (until - from)) : 1;
      // Speed rises and falls smoothly; the recording has only the ends of each leg.
      const eased = share * share * (3 - 2 * share);
      shelf = wasShelf + (toShelf - wasShelf) * eased;
      x = wasX + (toX - wasX) * eased;
      if (at < until || until < 0) {
        does = toShelf === wasShelf ? "moves along a shelf" : toShelf > wasShelf ? "crabs up" : "crabs down";
      }
    }
    let carried = -1;
    const last = lastBefore(work, WORK, at);
    if (last >= 0) {
      const [, until, kind, platter, drive] = work.slice(last * WORK, last * WORK + WORK);
      const isOver = until >= 0 && at >= until;
      if (kind === 0 ? isOver : kind === 1 && !isOver) {
        carried = platter;
      }
      if (!isOver) {
        const place = drive >= 0 ? `drive ${drive}` : drive === PORT ? "the port" : "a slot";
        does = kind === 2 ? "charges" : kind === 0 ? `picks platter ${platter} from ${place}` : `places platter ${platter} into ${place}`;
      }
    }
    const fault = lastBefore(lost, 2, at);
    const isLost = fault >= 0 && (lost[fault * 2 + 1] < 0 || at < lost[fault * 2 + 1]);
    return { shelf: shelf / 2, x, does: isLost ? "is out of order" : does, carried, isLost };
  }

  /** @param {number} number @param {number} at @returns {{ state: number, platter: number }} */
  drive(number, at) {
    const states = this.recording.drives[number];
    const last = lastBefore(states, STATE, at);
    return last < 0 ? { state: 0, platter: -1 } : { state: states[last * STATE + 1], platter: states[last * STATE + 2] };
  }

  /** @param {number[]} series Times and numbers. @param {number} at */
  static value(series, at) {
    const last = lastBefore(series, 2, at);
    return last < 0 ? 0 : series[last * 2 + 1];
  }

  /** Racks and shelves of the unreachable cells. @param {number} at @returns {number[]} */
  blocked(at) {
    let cells = /** @type {number[]} */ ([]);
    for (const [since, now] of this.recording.blocked) {
      if (since > at) {
        break;
      }
      cells = now;
    }
    return cells;
  }

  /** Requests that have ended without their bytes. @param {number} at */
  failed(at) {
    return lastBefore(this.failures, 1, at) + 1;
  }

  /** Requests that have arrived and not ended. @param {number} at */
  open(at) {
    return lastBefore(this.recording.requests, REQUEST, at) - lastBefore(this.ends, 2, at);
  }
}
