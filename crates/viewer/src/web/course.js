// The library at any instant, from entries that tell what its machines did. All times are
// milliseconds, all places millimetres. Shelves are doubled in entries, so that a shuttle stuck
// between two of them has a whole number.

/**
 * @typedef {{ shelves: number, racks: number, storageRacks: number, width: number, port: [number, number],
 *   drives: [number, number][] }} Layout
 * @typedef {{ shuttles: [number, number[], number[], number[]][], drives: [number, number[]][], waiting: number[],
 *   blocked: [number, number[]][], arrivals: number[], ends: number[] }} Entries
 * @typedef {{ title: string, until: number, layout: Layout, starts: [number, number][], open: number, entries: Entries }} Recording
 * @typedef {{ start: [number, number], legs: number[], work: number[], lost: number[] }} ShuttleTrack
 * @typedef {{ shelf: number, x: number, does: string, carried: number, isLost: boolean }} ShuttleState
 */

/** Numbers in an entry of legs, work, lost times, states of drives, waiting platters, and ends. */
const LEG = 4;
const WORK = 5;
const LOST = 2;
const STATE = 3;
const WAITING = 3;
export const END = 3;
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
 * Adds entries to a list. Their starts count from the entry before, and their ends from their start.
 *
 * @param {number[]} list
 * @param {number[]} entries
 * @param {number} stride Numbers in an entry.
 * @param {boolean} [hasEnd] Whether the second number of an entry is an end; -1 if there is none.
 */
function append(list, entries, stride, hasEnd = false) {
  let time = 0;
  for (let at = 0; at < entries.length; at += stride) {
    time += entries[at];
    // One with the same start replaces the last: more is known of it now.
    if (hasEnd && list.length > 0 && list[list.length - stride] === time) {
      list.length -= stride;
    }
    const second = hasEnd && entries[at + 1] >= 0 ? entries[at + 1] + time : entries[at + 1];
    list.push(time);
    for (let offset = 1; offset < stride; offset += 1) {
      list.push(offset === 1 ? second : entries[at + offset]);
    }
  }
}

/**
 * Forgets the entries that were over at an instant.
 *
 * @param {number[]} list
 * @param {number} stride Numbers in an entry.
 * @param {number} at
 * @param {number} kept How many of them are kept all the same.
 */
function forget(list, stride, at, kept) {
  const over = lastBefore(list, stride, at) + 1 - kept;
  if (over > 0) {
    list.splice(0, over * stride);
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
  return JSON.parse(await new Response(stream).text());
}

/** The library at any instant. */
export class Course {
  /** @param {Recording} recording What is known so far. */
  constructor({ layout, starts, open, until, entries }) {
    this.layout = layout;
    /** The instant up to which everything is known. */
    this.until = until;
    /** @type {ShuttleTrack[]} */
    this.shuttles = starts.map((start) => ({ start, legs: [], work: [], lost: [] }));
    /** @type {number[][]} */
    this.drives = layout.drives.map(() => []);
    /** @type {[number, number[]][]} */
    this.blockedCells = [];
    const lanes = 2 * layout.shelves;
    /** Time and number of waiting platters, for each lane. @type {number[][]} */
    this.lanes = Array.from({ length: lanes }, () => []);
    /** Platters that wait in each lane at the end. @type {number[]} */
    this.waiting = new Array(lanes).fill(0);
    /** Time and number of all waiting platters. @type {number[]} */
    this.queue = [];
    /** The most platters that ever wait in one lane. */
    this.mostInLane = 1;
    /** Requests that were open, and ended without bytes, before the first arrival and end that are kept. */
    this.openBefore = open;
    this.failedBefore = 0;
    /** @type {number[]} */
    this.arrivals = [];
    /** Ends, arrivals and outcomes, in order of the ends. @type {number[]} */
    this.ends = [];
    /** The ends of requests without their bytes. @type {number[]} */
    this.failures = [];
    /** Counts changes. */
    this.version = 0;
    this.add(entries, until);
  }

  /** Adds what has become known. @param {Entries} entries @param {number} until */
  add(entries, until) {
    this.version += 1;
    this.until = until;
    for (const [number, legs, work, lost] of entries.shuttles) {
      append(this.shuttles[number].legs, legs, LEG, true);
      append(this.shuttles[number].work, work, WORK, true);
      append(this.shuttles[number].lost, lost, LOST, true);
    }
    for (const [number, states] of entries.drives) {
      append(this.drives[number], states, STATE);
    }
    this.blockedCells.push(...entries.blocked);
    append(this.arrivals, entries.arrivals, 1);
    const before = this.ends.length;
    append(this.ends, entries.ends, END);
    for (let at = before; at < this.ends.length; at += END) {
      if (this.ends[at + 2] === UNAVAILABLE) {
        this.failures.push(this.ends[at]);
      }
    }
    /** @type {number[]} */
    const waiting = [];
    append(waiting, entries.waiting, WAITING);
    for (let at = 0; at < waiting.length; at += WAITING) {
      const [time, lane, count] = waiting.slice(at, at + WAITING);
      this.lanes[lane].push(time, count);
      const total = (this.queue.at(-1) ?? 0) + count - this.waiting[lane];
      this.waiting[lane] = count;
      this.mostInLane = Math.max(this.mostInLane, count);
      this.queue.push(time, total);
    }
  }

  /** Forgets what was before an instant, except the state at that instant. @param {number} at */
  forgetBefore(at) {
    this.version += 1;
    for (const track of this.shuttles) {
      const over = lastBefore(track.legs, LEG, at) * LEG;
      if (over > 0) {
        track.start = [track.legs[over - 2], track.legs[over - 1]];
      }
      forget(track.legs, LEG, at, 1);
      forget(track.work, WORK, at, 1);
      forget(track.lost, LOST, at, 1);
    }
    this.drives.forEach((states) => forget(states, STATE, at, 1));
    this.lanes.forEach((series) => forget(series, 2, at, 1));
    forget(this.queue, 2, at, 1);
    const [arrived, ended, failed] = [this.arrivals.length, this.ends.length / END, this.failures.length];
    forget(this.arrivals, 1, at, 0);
    forget(this.ends, END, at, 0);
    forget(this.failures, 1, at, 0);
    this.openBefore += arrived - this.arrivals.length - (ended - this.ends.length / END);
    this.failedBefore += failed - this.failures.length;
    const states = this.blockedCells.filter(([since]) => since <= at).length;
    this.blockedCells.splice(0, Math.max(0, states - 1));
  }

  /** @param {number} number @param {number} at @returns {ShuttleState} */
  shuttle(number, at) {
    const { start, legs, work, lost } = this.shuttles[number];
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
    const fault = lastBefore(lost, LOST, at);
    const isLost = fault >= 0 && (lost[fault * LOST + 1] < 0 || at < lost[fault * LOST + 1]);
    return { shelf: shelf / 2, x, does: isLost ? "is out of order" : does, carried, isLost };
  }

  /** @param {number} number @param {number} at @returns {{ state: number, platter: number }} */
  drive(number, at) {
    const states = this.drives[number];
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
    for (const [since, now] of this.blockedCells) {
      if (since > at) {
        break;
      }
      cells = now;
    }
    return cells;
  }

  /** Requests that have ended without their bytes. @param {number} at */
  failed(at) {
    return this.failedBefore + lastBefore(this.failures, 1, at) + 1;
  }

  /** Requests that have arrived and not ended. @param {number} at */
  open(at) {
    return this.openBefore + lastBefore(this.arrivals, 1, at) - lastBefore(this.ends, END, at);
  }
}
