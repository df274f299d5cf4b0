// Plays a recording of a library: the panel with its shuttles and drives, and below it the queue and
// the completion times over the whole recording.

import { Course, unpack } from "./course.js";
import { Drawing, clock, duration, h } from "./drawing.js";

/**
 * @typedef {import("./course.js").Recording} Recording
 * @typedef {{ kind: "shuttle" | "drive", number: number }} Machine
 */

const DRIVE_STATES = ["idle", "mounting", "unmounting", "turning to the other bay", "reading", "verifying", "failed"];
const READING = 4;
const VERIFYING = 5;
const FAILED = 6;
const SPEEDS = [-100, -20, -1, 1, 5, 20, 100, 500];
/** The longest step between two frames: after a pause of the browser, playing goes on where it was. */
const STEP_MAX_MS = 100;

/** The page. */
class Player {
  /** @param {HTMLElement} root @param {Recording} recording */
  constructor(root, recording) {
    this.recording = recording;
    this.course = new Course(recording);
    this.at = 0;
    this.isPlaying = false;
    this.speed = 20;
    /** @type {Machine | null} */
    this.chosen = null;
    this.isDrawn = false;
    this.colours = this.readColours();
    this.build(root);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours = this.readColours();
      this.changed();
    });
    new ResizeObserver(() => this.changed()).observe(root);
    let before = performance.now();
    const frame = (/** @type {number} */ now) => {
      if (this.isPlaying) {
        this.seek(this.at + Math.min(Math.max(0, now - before), STEP_MAX_MS) * this.speed);
        if (this.at === (this.speed > 0 ? recording.until : 0)) {
          this.play(false);
        }
      }
      before = now;
      if (!this.isDrawn) {
        this.draw();
      }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    return {
      card: colour("card"),
      ink: colour("ink"),
      quiet: colour("quiet"),
      line: colour("line"),
      rack: colour("rack"),
      warn: colour("warn"),
      bad: colour("bad"),
      bar: colour("bar"),
      verify: colour("verify"),
    };
  }

  /** @param {HTMLElement} root */
  build(root) {
    const { shuttles, layout, until, title } = this.recording;
    const panel = h("canvas", { role: "img", "aria-label": "The panel: racks, shuttles and drives" });
    const plots = h("canvas", { role: "img", "aria-label": "Waiting platters and completion times over the recording" });
    this.panel = new Drawing(panel);
    this.plots = new Drawing(plots);
    this.playButton = h("button", { type: "button" }, "Play");
    this.slider = h("input", { type: "range", min: "0", max: String(until), step: "1000", value: "0", "aria-label": "Time" });
    this.clock = h("span", { class: "clock" });
    const speed = h("select", { "aria-label": "Speed" }, ...SPEEDS.map((value) => h("option", { value: String(value) }, `${value < 0 ? "−" : ""}${Math.abs(value)} ×`)));
    speed.value = String(this.speed);
    this.machine = h("select", { "aria-label": "Machine" }, h("option", { value: "" }, "No machine chosen"));
    const option = (/** @type {string} */ kind) => (/** @type {unknown} */ _, /** @type {number} */ number) =>
      h("option", { value: `${kind} ${number}` }, `${kind} ${number}`);
    this.machine.append(...shuttles.map(option("shuttle")), ...layout.drives.map(option("drive")));
    this.facts = h("div", { class: "facts" });
    this.about = h("p", { class: "chosen", "aria-live": "off" });
    const key = (/** @type {string} */ colour, /** @type {string} */ text) => {
      const mark = h("span", {});
      mark.style.background = `var(--${colour})`;
      return h("li", {}, mark, text);
    };
    const legend = h(
      "ul",
      { class: "legend" },
      key("bar", "shuttle with a platter, drive that reads"),
      key("verify", "drive that verifies"),
      key("quiet", "empty shuttle, drive that changes platters"),
      key("warn", "platters that wait, for each half of a shelf"),
      key("bad", "failed, and what it makes unreachable"),
      h("li", {}, "narrow box at the left: the port of the write rack"),
    );
    const controls = h("div", { class: "controls" }, this.playButton, this.clock, this.slider, speed, this.machine);
    root.append(h("h1", {}, title), panel, controls, this.facts, this.about, legend, plots);
    this.playButton.addEventListener("click", () => this.play(!this.isPlaying));
    this.slider.addEventListener("input", () => this.seek(Number(this.slider?.value)));
    speed.addEventListener("change", () => {
      this.speed = Number(speed.value);
    });
    this.machine.addEventListener("change", () => {
      const [kind, number] = (this.machine?.value ?? "").split(" ");
      this.choose(kind === "shuttle" || kind === "drive" ? { kind, number: Number(number) } : null);
    });
    panel.addEventListener("click", (event) => this.choose(this.machineAt(event.offsetX, event.offsetY)));
    plots.addEventListener("click", (event) => this.seek((event.offsetX / plots.clientWidth) * until));
    document.addEventListener("keydown", (event) => {
      const control = event.target instanceof HTMLElement ? event.target.tagName : "";
      if (control === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) {
        return;
      }
      const step = { ArrowLeft: -10_000, ArrowRight: 10_000, PageUp: -600_000, PageDown: 600_000 }[event.key];
      if (step !== undefined) {
        this.seek(this.at + step);
      } else if (event.key === " " && control !== "BUTTON") {
        if (!event.repeat) {
          this.play(!this.isPlaying);
        }
      } else {
        return;
      }
      event.preventDefault();
    });
  }

  /** @param {boolean} isPlaying */
  play(isPlaying) {
    const end = this.speed > 0 ? this.recording.until : 0;
    if (isPlaying && this.at === end) {
      this.seek(this.recording.until - end);
    }
    this.isPlaying = isPlaying;
    if (this.playButton) {
      this.playButton.textContent = isPlaying ? "Pause" : "Play";
    }
  }

  /** @param {number} at */
  seek(at) {
    this.at = Math.min(Math.max(0, at), this.recording.until);
    this.changed();
  }

  /** @param {Machine | null} machine */
  choose(machine) {
    this.chosen = machine;
    if (this.machine) {
      this.machine.value = machine ? `${machine.kind} ${machine.number}` : "";
    }
    this.changed();
  }

  changed() {
    this.isDrawn = false;
  }

  shelfHeight() {
    return Math.max(14, Math.min(40, Math.round(400 / this.recording.layout.shelves)));
  }

  /** @param {number} x */
  toX(x) {
    return (x / this.recording.layout.width) * (this.panel?.width ?? 0);
  }

  /** The middle of a shelf. @param {number} shelf */
  toY(shelf) {
    return (this.recording.layout.shelves - shelf - 0.5) * this.shelfHeight();
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
    this.recording.layout.drives.forEach(([shelf, at], number) => consider({ kind: "drive", number }, shelf / 2, at));
    this.recording.shuttles.forEach((_, number) => {
      const { shelf, x: at } = this.course.shuttle(number, this.at);
      consider({ kind: "shuttle", number }, shelf, at);
    });
    return best.machine;
  }

  draw() {
    this.isDrawn = true;
    this.drawPanel();
    this.drawPlots();
    this.describe();
  }

  drawPanel() {
    const { panel, recording, course, at, colours } = this;
    if (!panel) {
      return;
    }
    const { layout } = recording;
    const high = this.shelfHeight();
    panel.begin(layout.shelves * high);
    const { context, width, height } = panel;
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
    const size = Math.max(8, Math.min(high * 0.7, rack * 0.4));
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
    recording.shuttles.forEach((_, number) => {
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
    const { panel, course, at, colours } = this;
    if (!panel) {
      return;
    }
    const high = this.shelfHeight();
    panel.context.fillStyle = colours.warn;
    course.lanes.forEach((series, lane) => {
      const long = (Course.value(series, at) / course.mostInLane) * half;
      const top = this.toY(Math.floor(lane / 2)) + high / 2 - 5;
      panel.context.fillRect(lane % 2 === 0 ? left : left + 2 * half - long, top, long, 3);
    });
  }

  /** A ring around the chosen machine. @param {Machine} machine @param {number} x @param {number} y @param {number} size */
  mark(machine, x, y, size) {
    if (this.panel && this.chosen?.kind === machine.kind && this.chosen.number === machine.number) {
      this.panel.context.strokeStyle = this.colours.ink;
      this.panel.context.lineWidth = 2;
      this.panel.context.beginPath();
      this.panel.context.arc(x, y, size * 0.85, 0, 2 * Math.PI);
      this.panel.context.stroke();
      this.panel.context.lineWidth = 1;
    }
  }

  drawPlots() {
    const { plots, course, recording, colours, at } = this;
    if (!plots) {
      return;
    }
    plots.begin(200);
    const { context, width } = plots;
    const columns = Math.max(1, Math.floor(width));
    const column = (/** @type {number} */ time) => Math.min(columns - 1, Math.floor((time / Math.max(1, recording.until)) * columns));
    const queue = new Array(columns).fill(-1);
    for (let index = 0; index < course.queue.length; index += 2) {
      const to = column(course.queue[index]);
      queue[to] = Math.max(queue[to], course.queue[index + 1]);
    }
    const longest = new Array(columns).fill(0);
    for (let index = 0; index < course.ends.length; index += 2) {
      const to = column(course.ends[index]);
      longest[to] = Math.max(longest[to], course.ends[index] - course.ends[index + 1]);
    }
    const mostQueue = Math.max(1, ...queue);
    const mostTime = Math.max(1, ...longest);
    let value = 0;
    for (let x = 0; x < columns; x += 1) {
      const peak = Math.max(queue[x], value);
      context.fillStyle = colours.warn;
      context.fillRect(x, 94 - (peak / mostQueue) * 74, 1, (peak / mostQueue) * 74);
      // The next columns begin with the last value of this one.
      value = queue[x] >= 0 ? Course.value(course.queue, ((x + 1) / columns) * recording.until) : value;
      context.fillStyle = colours.bar;
      context.fillRect(x, 194 - (longest[x] / mostTime) * 74, 1, (longest[x] / mostTime) * 74);
    }
    context.fillStyle = colours.ink;
    context.font = "12px system-ui, sans-serif";
    context.fillText(`platters that wait, up to ${mostQueue}`, 6, 14);
    context.fillText(`longest completion time, up to ${duration(mostTime)}`, 6, 114);
    context.strokeStyle = colours.bad;
    context.beginPath();
    context.moveTo((at / Math.max(1, recording.until)) * width, 0);
    context.lineTo((at / Math.max(1, recording.until)) * width, 200);
    context.stroke();
  }

  describe() {
    const { course, recording, at, facts, about } = this;
    if (!facts || !about || !this.clock || !this.slider) {
      return;
    }
    this.clock.textContent = clock(at);
    this.slider.value = String(Math.round(at));
    this.slider.setAttribute("aria-valuetext", clock(at));
    const states = recording.drives.map((_, number) => course.drive(number, at).state);
    const shuttles = recording.shuttles.map((_, number) => course.shuttle(number, at));
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

const root = document.getElementById("player");
const data = document.getElementById("recording");
if (root && data) {
  try {
    new Player(root, await unpack(data.textContent ?? ""));
  } catch (error) {
    root.append(h("p", {}, `This browser can't unpack the recording: ${error}`));
  }
}
