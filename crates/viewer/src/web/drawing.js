// Canvases, and times as text.

/** @param {number} ms */
export function clock(ms) {
  const seconds = Math.floor(ms / 1000);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

/** A time that reads well: 45 s, 12 min, 1.6 h. @param {number} ms */
export function duration(ms) {
  const seconds = ms / 1000;
  if (seconds < 120) {
    return `${Math.round(seconds)} s`;
  }
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** A canvas with as many pixels as the screen has, drawn in CSS pixels. */
export class Drawing {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.width = 0;
    this.height = 0;
  }

  /** Clears it. @param {number} height */
  begin(height) {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = height;
    const [wide, high] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      [this.canvas.width, this.canvas.height] = [wide, high];
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, height);
  }
}

/** The page's colours, for canvases. */
export function colours() {
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
