// The robotic library in motion.
//
// The server sends a picture of it, and then what its machines begin and end. The page shows the
// library as it was a moment ago, so that it knows what follows and can draw each motion smoothly.

import { ApiError, events, load } from "./api.js";
import { Course } from "./course.js";
import { h } from "./dom.js";
import { clock, colours } from "./drawing.js";
import { count, many } from "./format.js";
import { Panel } from "./panel.js";
import { Plots } from "./plots.js";

/** How far the page is behind the server, in real time: longer than between two events. */
const BEHIND_MS = 400;
/** How much of the past the plots show, in real time. */
const PAST_MS = 300_000;
/** How long the page waits until it connects again. */
const RETRY_MS = 2_000;
/** The server sends something every five seconds, even if nothing moves. */
const SILENCE_MAX_MS = 15_000;
/** A page that is further off sets its clock at once. */
const JUMP_MS = 1_000;
/** How often the page asks for the figures that the events don't have. */
const FIGURES_MS = 5_000;
/** The share of a smaller difference by which the clock is corrected at each event. */
const CORRECTION = 0.1;

/** @typedef {import("./course.js").Recording & { timeScale: number }} Picture */

/** The library's clock: its milliseconds from the browser's. */
class Clock {
  /** @param {number} now @param {number} scale Times real time. */
  constructor(now, scale) {
    this.scale = scale;
    /** Library time when the browser's clock was 0. */
    this.origin = now - performance.now() * scale;
  }

  now() {
    return this.origin + performance.now() * this.scale;
  }

  /** Corrects it with the server's time. @param {number} now */
  correct(now) {
    const off = now - this.now();
    this.origin += Math.abs(off) > JUMP_MS * this.scale ? off : off * CORRECTION;
  }
}

/** The view. */
class Library {
  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.signal = signal;
    this.status = h("p", { class: "quiet", role: "status" }, "Waiting for the library …");
    this.place = h("div", {});
    this.content = [h("h1", {}, "Library"), this.status, this.place];
    /** @type {{ course: Course, panel: Panel, plots: Plots, clock: Clock, time: HTMLElement } | null} */
    this.shown = null;
    /** The instant that is shown. Without the server's events, it stands still. */
    this.at = 0;
    this.isLive = false;
    /** The instant up to which the plots were drawn. */
    this.plotted = 0;
    /** The platters to verify; null if the server didn't tell. @type {number | null} */
    this.unverified = null;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour(), { signal });
  }

  recolour() {
    if (this.shown !== null) {
      this.shown.panel.colours = this.shown.plots.colours = colours();
      this.plotted = 0;
    }
  }

  /** @param {Picture} picture */
  begin(picture) {
    const isFirst = this.shown === null;
    const course = new Course(picture);
    const chosen = this.shown?.panel.chosen ?? null;
    const panel = new Panel(course, () => {});
    const plots = new Plots();
    const time = h("span", { class: "clock" });
    this.shown = { course, panel, plots, clock: new Clock(picture.until, picture.timeScale), time };
    this.plotted = 0;
    this.at = picture.until;
    this.isLive = true;
    if (isFirst) void this.countUnverified();
    const speed = picture.timeScale === 1 ? "in real time" : `${picture.timeScale} times as fast as real time`;
    const controls = h("div", { class: "controls" }, time, panel.machines);
    this.place.replaceChildren(panel.canvas, controls, panel.facts, panel.about, panel.legend, plots.canvas);
    this.status.textContent = `${many(course.shuttles.length, "shuttle")}, ${many(course.drives.length, "drive")}, ${speed}. Times count from the server's start.`;
    // The library may have fewer machines than before.
    const machines = chosen?.kind === "shuttle" ? course.shuttles : course.drives;
    panel.choose(chosen !== null && chosen.number < machines.length ? chosen : null);
  }

  /** @param {{ now: number, entries: import("./course.js").Entries }} motions */
  add({ now, entries }) {
    if (this.shown === null) return;
    const { course, clock: running } = this.shown;
    course.add(entries, now);
    running.correct(now);
    course.forgetBefore(now - (PAST_MS + BEHIND_MS) * running.scale);
  }

  draw() {
    if (this.shown === null) return;
    const { course, panel, plots, clock: running, time } = this.shown;
    // It neither goes back nor shows what was before the picture.
    if (this.isLive) this.at = Math.max(this.at, running.now() - BEHIND_MS * running.scale);
    const { at } = this;
    panel.draw(at);
    if (this.unverified !== null) {
      const verify = h("span", {}, "to verify ", h("b", {}, count(this.unverified)));
      // After the platters that wait for a shuttle.
      panel.facts.insertBefore(verify, panel.facts.children[3] ?? null);
    }
    time.textContent = clock(at);
    // The plots move slowly.
    if (Math.abs(at - this.plotted) >= BEHIND_MS * running.scale) {
      this.plotted = at;
      plots.draw(course, Math.max(0, at - PAST_MS * running.scale), at, at);
    }
  }

  /**
   * Shows the library until the view is left. Resolves when there is something to see, and goes on
   * by itself; fails if the server refuses.
   *
   * @returns {Promise<void>}
   */
  begun() {
    return new Promise((seen, failed) => void this.run(seen, failed));
  }

  /** Asks for the number of platters to verify, which the events don't have, until the view is left. */
  async countUnverified() {
    while (!this.signal.aborted) {
      try {
        this.unverified = this.isLive ? (await load("library", {}, this.signal)).platters_unverified : null;
      } catch {
        // The page says so when the events end, too.
        this.unverified = null;
      }
      await new Promise((done) => setTimeout(done, FIGURES_MS));
      await visible(this.signal);
    }
  }

  /** @param {() => void} seen @param {(error: unknown) => void} failed Called if the server refuses. */
  async run(seen, failed) {
    const frame = () => {
      if (this.signal.aborted) return;
      requestAnimationFrame(frame);
      this.draw();
    };
    requestAnimationFrame(frame);
    while (!this.signal.aborted) {
      // A page that isn't visible costs the server nothing.
      await visible(this.signal);
      const hidden = new AbortController();
      const hide = () => document.visibilityState === "hidden" && hidden.abort();
      document.addEventListener("visibilitychange", hide);
      const silent = new AbortController();
      let watchdog = setTimeout(() => silent.abort(), SILENCE_MAX_MS);
      let message = "Not up to date: the server closed the connection.";
      try {
        for await (const { name, data } of events("motions", AbortSignal.any([this.signal, hidden.signal, silent.signal]))) {
          clearTimeout(watchdog);
          watchdog = setTimeout(() => silent.abort(), SILENCE_MAX_MS);
          if (name === "picture") {
            this.begin(data);
            seen();
          }
          if (name === "motions") this.add(data);
        }
      } catch (error) {
        const isRefused = error instanceof ApiError && (error.status === 401 || error.status === 404);
        if (this.signal.aborted || (isRefused && this.shown === null)) {
          failed(error);
          return;
        }
        if (isRefused) {
          // The server now has another token, or no library: the view begins anew.
          location.reload();
          return;
        }
        const why = error instanceof Error ? error.message : String(error);
        message = `Not up to date: ${silent.signal.aborted ? "the server sends nothing." : why}`;
      } finally {
        clearTimeout(watchdog);
        // Whatever ended the events, the connection ends too.
        silent.abort();
        this.isLive = false;
        document.removeEventListener("visibilitychange", hide);
      }
      if (!hidden.signal.aborted) {
        this.status.textContent = message;
        seen();
        await new Promise((done) => setTimeout(done, RETRY_MS));
      }
    }
  }
}

/** Resolves when the page is visible. @param {AbortSignal} signal @returns {Promise<void>} */
function visible(signal) {
  return new Promise((done) => {
    if (document.visibilityState === "visible") {
      done();
    } else {
      document.addEventListener("visibilitychange", () => done(), { once: true, signal });
      signal.addEventListener("abort", () => done(), { once: true });
    }
  });
}

/** @type {import("./app.js").Load} */
export async function library(_path, _parameters, signal) {
  const view = new Library(signal);
  try {
    await view.begun();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    view.status.textContent = `There is nothing to see: ${error.message}.`;
  }
  return { title: "Library", content: view.content };
}
