// Waiting platters and completion times over some time.

import { Course, END } from "./course.js";
import { h } from "./dom.js";
import { Drawing, colours, duration } from "./drawing.js";

const HEIGHT = 200;

/** @typedef {{ key: string, queue: number[], longest: number[], mostQueue: number, mostTime: number }} Columns */

export class Plots {
  constructor() {
    this.canvas = h("canvas", { role: "img", "aria-label": "Waiting platters and completion times" });
    this.drawing = new Drawing(this.canvas);
    this.colours = colours();
    /** What was computed last. @type {Columns | null} */
    this.last = null;
  }

  /**
   * The highest values of each column of pixels.
   *
   * @param {Course} course @param {number} from @param {number} until @param {number} columns
   * @returns {Columns}
   */
  columns(course, from, until, columns) {
    const key = [course.version, from, until, columns].join(" ");
    if (this.last?.key === key) {
      return this.last;
    }
    const long = Math.max(1, until - from);
    const isShown = (/** @type {number} */ time) => time >= from && time <= until;
    const column = (/** @type {number} */ time) => Math.min(columns - 1, Math.floor(((time - from) / long) * columns));
    const queue = new Array(columns).fill(-1);
    for (let index = 0; index < course.queue.length; index += 2) {
      if (isShown(course.queue[index])) {
        const to = column(course.queue[index]);
        queue[to] = Math.max(queue[to], course.queue[index + 1]);
      }
    }
    const longest = new Array(columns).fill(0);
    for (let index = 0; index < course.ends.length; index += END) {
      if (isShown(course.ends[index])) {
        const to = column(course.ends[index]);
        longest[to] = Math.max(longest[to], course.ends[index] - course.ends[index + 1]);
      }
    }
    let value = Course.value(course.queue, from);
    for (let x = 0; x < columns; x += 1) {
      const here = queue[x];
      queue[x] = Math.max(here, value);
      // The next columns begin with the last value of this one.
      value = here >= 0 ? Course.value(course.queue, from + ((x + 1) / columns) * long) : value;
    }
    const most = (/** @type {number[]} */ values) => values.reduce((one, other) => Math.max(one, other), 1);
    this.last = { key, queue, longest, mostQueue: most(queue), mostTime: most(longest) };
    return this.last;
  }

  /**
   * @param {Course} course @param {number} from @param {number} until
   * @param {number} at The instant that is marked.
   */
  draw(course, from, until, at) {
    const { drawing, colours } = this;
    drawing.begin(HEIGHT);
    const { context, width } = drawing;
    const columns = Math.max(1, Math.floor(width));
    const { queue, longest, mostQueue, mostTime } = this.columns(course, from, until, columns);
    for (let x = 0; x < columns; x += 1) {
      context.fillStyle = colours.warn;
      context.fillRect(x, 94 - (queue[x] / mostQueue) * 74, 1, (queue[x] / mostQueue) * 74);
      context.fillStyle = colours.bar;
      context.fillRect(x, 194 - (longest[x] / mostTime) * 74, 1, (longest[x] / mostTime) * 74);
    }
    context.fillStyle = colours.ink;
    context.font = "12px system-ui, sans-serif";
    context.fillText(`platters that wait, up to ${mostQueue}`, 6, 14);
    context.fillText(`longest completion time, up to ${duration(mostTime)}`, 6, 114);
    context.strokeStyle = colours.bad;
    context.beginPath();
    const now = ((at - from) / Math.max(1, until - from)) * width;
    context.moveTo(now, 0);
    context.lineTo(now, HEIGHT);
    context.stroke();
  }
}
