// Numbers, times and states as text.

import { now } from "./api.js";
import { h } from "./dom.js";

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
const MINUTE_S = 60;
const HOUR_S = 3_600;
const DAY_S = 86_400;

/** @param {number} value */
export function bytes(value) {
  let unit = 0;
  // Three digits of 999,960 would be 1,000.
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toPrecision(3)} ${UNITS[unit]}`;
}

/** @param {number} value */
export function count(value) {
  return value.toLocaleString("en");
}

/**
 * A number with its noun.
 *
 * @param {number} value
 * @param {string} noun
 */
export function many(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** @param {number} seconds */
export function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 2 * MINUTE_S) return many(whole, "second");
  if (whole < 2 * HOUR_S) return many(Math.round(whole / MINUTE_S), "minute");
  if (whole < 2 * DAY_S) return many(Math.round(whole / HOUR_S), "hour");
  return many(Math.round(whole / DAY_S), "day");
}

/**
 * How long ago a time was, or how far ahead it is, with the time itself as a tooltip.
 *
 * @param {string | null} time In the format of RFC 3339.
 * @param {string} [never] The text for no time.
 */
export function when(time, never = "never") {
  if (time === null) return h("span", { class: "warn" }, never);
  const seconds = (now() - Date.parse(time)) / 1_000;
  // The server's Date header has no fractions of a second.
  const text = seconds >= -1 ? `${duration(Math.max(0, seconds))} ago` : `in ${duration(-seconds)}`;
  return h("time", { datetime: time, title: time }, text);
}

/** @type {Record<string, [string, string]>} */
const STATES = {
  good: ["good", "✓ good"],
  unverified: ["warn", "? never read"],
  absent: ["warn", "– store absent"],
  unreadable: ["warn", "! unreadable"],
  missing: ["bad", "✕ missing"],
  damaged: ["bad", "✕ damaged"],
  usable: ["good", "✓ present"],
  unknown: ["warn", "? unknown"],
};

/**
 * The state of a copy, a platter or a store.
 *
 * @param {string | null} word
 */
export function state(word) {
  const [kind, text] = STATES[word ?? "unknown"] ?? ["warn", word ?? "unknown"];
  return h("span", { class: kind }, text);
}
