// Plays a recording of a library: the panel with its shuttles and drives, and below it the queue and
// the completion times over the whole recording.

import { Course, unpack } from "./course.js";
import { h } from "./dom.js";
import { clock, colours } from "./drawing.js";
import { Panel } from "./panel.js";
import { Plots } from "./plots.js";

const SPEEDS = [-100, -20, -1, 1, 5, 20, 100, 500];
/** The longest step between two frames: after a pause of the browser, playing goes on where it was. */
const STEP_MAX_MS = 100;

/** The page. */
class Player {
  /** @param {HTMLElement} root @param {import("./course.js").Recording} recording */
  constructor(root, recording) {
    this.until = recording.until;
    this.course = new Course(recording);
    this.panel = new Panel(this.course, () => this.changed());
    this.plots = new Plots();
    this.at = 0;
    this.isPlaying = false;
    this.speed = 20;
    this.isDrawn = false;
    this.playButton = h("button", { type: "button" }, "Play");
    this.slider = h("input", { type: "range", min: "0", max: String(this.until), step: "1000", value: "0", "aria-label": "Time" });
    this.clock = h("span", { class: "clock" });
    this.build(root, recording.title);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.panel.colours = this.plots.colours = colours();
      this.changed();
    });
    new ResizeObserver(() => this.changed()).observe(root);
    let before = performance.now();
    const frame = (/** @type {number} */ now) => {
      if (this.isPlaying) {
        this.seek(this.at + Math.min(Math.max(0, now - before), STEP_MAX_MS) * this.speed);
        if (this.at === (this.speed > 0 ? this.until : 0)) {
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

  /** @param {HTMLElement} root @param {string} title */
  build(root, title) {
    const { panel, plots } = this;
    const speed = h("select", { "aria-label": "Speed" }, SPEEDS.map((value) => h("option", { value: String(value) }, `${value < 0 ? "−" : ""}${Math.abs(value)} ×`)));
    speed.value = String(this.speed);
    const controls = h("div", { class: "controls" }, this.playButton, this.clock, this.slider, speed, panel.machines);
    root.append(h("h1", {}, title), panel.canvas, controls, panel.facts, panel.about, panel.legend, plots.canvas);
    this.playButton.addEventListener("click", () => this.play(!this.isPlaying));
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    speed.addEventListener("change", () => {
      this.speed = Number(speed.value);
    });
    plots.canvas.addEventListener("click", (event) => this.seek((event.offsetX / plots.canvas.clientWidth) * this.until));
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
    const end = this.speed > 0 ? this.until : 0;
    if (isPlaying && this.at === end) {
      this.seek(this.until - end);
    }
    this.isPlaying = isPlaying;
    this.playButton.textContent = isPlaying ? "Pause" : "Play";
  }

  /** @param {number} at */
  seek(at) {
    this.at = Math.min(Math.max(0, at), this.until);
    this.changed();
  }

  changed() {
    this.isDrawn = false;
  }

  draw() {
    this.isDrawn = true;
    this.panel.draw(this.at);
    this.plots.draw(this.course, 0, this.until, this.at);
    this.clock.textContent = clock(this.at);
    this.slider.value = String(Math.round(this.at));
    this.slider.setAttribute("aria-valuetext", clock(this.at));
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
