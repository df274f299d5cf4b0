// The panel of a library at an instant: racks, shuttles and drives, what waits, and what a chosen
// machine does.

import { Course } from "./course.js";
import { h } from "./dom.js";
import { Drawing, colours } from "./drawing.js";

/** @typedef {{ kind: "shuttle" | "drive", number: number }} Machine */

const DRIVE_STATES = ["idle", "mounting", "unmounting", "turning to the other bay", "reading", "verifying", "failed"];
const READING = 4;
const VERIFYING = 5;
const FAILED = 6;

/** What is drawn, and the elements around it. */
export class Panel {
  /** @param {Course} course @param {() => void} changed Called when another machine is chosen. */
  constructor(course, changed) {
    this.course = course;
    this.changed = changed;
    this.at = 0;
    /** @type {Machine | null} */
    this.chosen = null;
    this.canvas = h("canvas", { role: "img", "aria-label": "The panel: racks, shuttles and drives" });
    this.drawing = new Drawing(this.canvas);
    this.colours = colours();
    const option = (/** @type {string} */ kind) => (/** @type {unknown} */ _, /** @type {number} */ number) =>
      h("option", { value: `${kind} ${number}` }, `${kind} ${number}`);
    this.machines = h("select", { "aria-label": "Machine" }, h("option", { value: "" }, "No machine chosen"));
    this.machines.append(...course.shuttles.map(option("shuttle")), ...course.drives.map(option("drive")));
    this.facts = h("div", { class: "facts" });
    this.about = h("p", { class: "chosen" });
    const key = (/** @type {string} */ mark, /** @type {string} */ text) => h("li", {}, h("i", { class: mark }), text);
    this.legend = h(
      "ul",
      { class: "legend" },
      key("drive", "shuttle with a platter, drive that reads"),
      key("verifying", "drive that verifies"),
      key("empty", "empty shuttle, drive that changes platters"),
      key("waiting", "platters that wait, for each half of a shelf"),
      key("failed", "failed, and what it makes unreachable"),
      h("li", {}, "narrow box at the left: the port of the write rack"),
    );
    this.machines.addEventListener("change", () => {
      const [kind, number] = this.machines.value.split(" ");
      this.choose(kind === "shuttle" || kind === "drive" ? { kind, number: Number(number) } : null);
    });
    this.canvas.addEventListener("click", (event) => this.choose(this.machineAt(event.offsetX, event.offsetY)));
  }

  /** @param {Machine | null} machine */
  choose(machine) {
    this.chosen = machine;
    this.machines.value = machine ? `${machine.kind} ${machine.number}` : "";
    this.changed();
  }

  shelfHeight() {
    return Math.max(14, Math.min(40, Math.round(400 / this.course.layout.shelves)));
  }

  /** Machines at the ends stay within the panel. @param {number} x */
  toX(x) {
    const { width } = this.drawing;
    const margin = this.size() / 2;
    return Math.min(Math.max((x / this.course.layout.width) * width, margin), width - margin);
  }

  /** Of a drive. */
  size() {
    return Math.max(8, Math.min(this.shelfHeight() * 0.7, (this.drawing.width / this.course.layout.racks) * 0.4));
  }

  /** The middle of a shelf. @param {number} shelf */
  toY(shelf) {
    return (this.course.layout.shelves - shelf - 0.5) * this.shelfHeight();
  }

  /** @param {number} x @param {number} y @returns {Machine | null} */
  machineAt(x, y) {
    /** @type {{ machine: Machine | null, distance: number }} */
    let best = { machine: null, distance: 16 };
    const consider = (/** @type {Machine} */ machine, /** @type {number} */ shelf, /** @type {number} */ at) => {
      const distance = Math.hypot(this.toX(at) - x, this.toY(shelf) - y);
      if (distance < best.distance) {
        best = { machine, distance };
      }
    };
    this.course.layout.drives.forEach(([shelf, at], number) => consider({ kind: "drive", number }, shelf / 2, at));
    this.course.shuttles.forEach((_, number) => {
      const { shelf, x: at } = this.course.shuttle(number, this.at);
      consider({ kind: "shuttle", number }, shelf, at);
    });
    return best.machine;
  }

  /** Draws the library at an instant. @param {number} at */
  draw(at) {
    this.at = at;
    this.drawPanel();
    this.describe();
  }

  drawPanel() {
    const { drawing, course, at, colours } = this;
    const { layout } = course;
    const high = this.shelfHeight();
    drawing.begin(layout.shelves * high);
    const { context, width, height } = drawing;
    const rack = width / layout.racks;
    const first = (layout.racks - layout.storageRacks) / 2 + 0.5;
    for (let number = 0; number < layout.racks; number += 1) {
      const isStorage = number >= first && number < first + layout.storageRacks;
      context.fillStyle = isStorage ? colours.rack : colours.card;
      context.fillRect(number * rack, 0, rack, height);
    }
    const cells = course.blocked(at);
    context.globalAlpha = 0.25;
    context.fillStyle = colours.bad;
    for (let index = 0; index < cells.length; index += 2) {
      context.fillRect(cells[index] * rack, (layout.shelves - cells[index + 1] - 1) * high, rack, high);
    }
    context.globalAlpha = 1;
    context.strokeStyle = colours.line;
    context.beginPath();
    for (let number = 1; number < layout.racks; number += 1) {
      context.moveTo(number * rack, 0);
      context.lineTo(number * rack, height);
    }
    for (let shelf = 1; shelf < layout.shelves; shelf += 1) {
      context.moveTo(0, shelf * high);
      context.lineTo(width, shelf * high);
    }
    context.stroke();
    this.drawWaiting(first * rack, (layout.storageRacks / 2) * rack);
    const size = this.size();
    layout.drives.forEach(([shelf, x], number) => {
      const { state } = course.drive(number, at);
      const colour = state === READING ? colours.bar : state === VERIFYING ? colours.verify : state === FAILED ? colours.bad : colours.quiet;
      context.fillStyle = state === 0 ? colours.card : colour;
      context.strokeStyle = colour;
      context.fillRect(this.toX(x) - size / 2, this.toY(shelf / 2) - size / 2, size, size);
      context.strokeRect(this.toX(x) - size / 2, this.toY(shelf / 2) - size / 2, size, size);
      this.mark({ kind: "drive", number }, this.toX(x), this.toY(shelf / 2), size);
    });
    context.strokeStyle = colours.quiet;
    context.strokeRect(this.toX(layout.port[1]) - size / 4, this.toY(layout.port[0] / 2) - size / 2, size / 2, size);
    course.shuttles.forEach((_, number) => {
      const { shelf, x, carried, isLost } = course.shuttle(number, at);
      const [left, top] = [this.toX(x), this.toY(shelf)];
      context.fillStyle = isLost ? colours.bad : carried >= 0 ? colours.bar : colours.quiet;
      context.beginPath();
      context.arc(left, top, size * 0.34, 0, 2 * Math.PI);
      context.fill();
      context.strokeStyle = colours.card;
      context.stroke();
      this.mark({ kind: "shuttle", number }, left, top, size);
    });
  }

  /** Bars for the platters that wait, from the drives inwards. @param {number} left @param {number} half */
  drawWaiting(left, half) {
    const { drawing, course, at, colours } = this;
    const high = this.shelfHeight();
    drawing.context.fillStyle = colours.warn;
    course.lanes.forEach((series, lane) => {
      const long = (Course.value(series, at) / course.mostInLane) * half;
      const top = this.toY(Math.floor(lane / 2)) + high / 2 - 5;
      drawing.context.fillRect(lane % 2 === 0 ? left : left + 2 * half - long, top, long, 3);
    });
  }

  /** A ring around the chosen machine. @param {Machine} machine @param {number} x @param {number} y @param {number} size */
  mark(machine, x, y, size) {
    const { context } = this.drawing;
    if (this.chosen?.kind === machine.kind && this.chosen.number === machine.number) {
      context.strokeStyle = this.colours.ink;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(x, y, size * 0.85, 0, 2 * Math.PI);
      context.stroke();
      context.lineWidth = 1;
    }
  }

  describe() {
    const { course, at, facts, about } = this;
    const states = course.drives.map((_, number) => course.drive(number, at).state);
    const shuttles = course.shuttles.map((_, number) => course.shuttle(number, at));
    const count = (/** @type {boolean[]} */ which) => String(which.filter(Boolean).length);
    const fact = (/** @type {string} */ name, /** @type {string} */ value) => h("span", {}, `${name} `, h("b", {}, value));
    facts.replaceChildren(
      fact("open requests", String(course.open(at))),
      fact("ended without bytes", String(course.failed(at))),
      fact("platters that wait", String(Course.value(course.queue, at))),
      fact("drives that read", count(states.map((state) => state === READING))),
      fact("that verify", count(states.map((state) => state === VERIFYING))),
      fact("shuttles with a platter", count(shuttles.map(({ carried }) => carried >= 0))),
      fact("out of order", count([...states.map((state) => state === FAILED), ...shuttles.map(({ isLost }) => isLost)])),
    );
    about.textContent = this.chosen ? this.sentence(this.chosen) : "Click a shuttle or a drive to see what it does.";
  }

  /** @param {Machine} machine */
  sentence({ kind, number }) {
    if (kind === "drive") {
      const { state, platter } = this.course.drive(number, this.at);
      return `Drive ${number}: ${DRIVE_STATES[state]}${platter >= 0 ? ` platter ${platter}` : ""}`;
    }
    const { does, carried } = this.course.shuttle(number, this.at);
    return `Shuttle ${number}: ${does}${carried >= 0 && !does.includes("platter") ? ` with platter ${carried}` : ""}`;
  }
}
