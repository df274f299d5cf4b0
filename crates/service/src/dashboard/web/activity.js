// What clients did in the last hour, and what came from staging to platters.

import { load } from "./api.js";
import { chart, clockTime } from "./chart.js";
import { cards, h } from "./dom.js";
import { bytes, count, many } from "./format.js";
import { table } from "./tables.js";

/**
 * @typedef {{ count: number, failed: number, median_s: number | null, p99_s: number | null }} Requests
 * @typedef {{ at: string, step_s: number, reads: Requests, writes: Requests, received_bytes: number, archived_versions?: number, staged_versions?: number,
 *   staged_bytes?: number }} Point
 * @typedef {{ every_s: number, points: Point[] }} Activity
 */

/** Steps that a row of the table adds up. */
const STEPS = 30;

/** @type {import("./app.js").Load} */
export async function activity(_path, _parameters, signal) {
  /** @type {Activity} */
  const { every_s, points } = await load("activity", {}, signal);
  const title = { title: "Activity" };
  const first = points[0];
  const last = points.at(-1);
  if (points.length < 2 || first === undefined || last === undefined) {
    return { ...title, content: [h("h1", {}, "Activity"), h("p", { class: "quiet" }, `The server has just started. It measures every ${every_s} seconds.`)] };
  }
  const times = points.map(({ at }) => Date.parse(at));
  const all = { times };
  const content = [
    h("h1", {}, "Activity"),
    h("p", { class: "quiet" }, `Requests of clients in the last ${minutes(long(points))}, measured every ${every_s} seconds. Times are those until the head of the response.`),
    cards(figures(points)),
    h(
      "div",
      { class: "charts" },
      chart({
        ...all,
        title: "Requests per second",
        lines: [
          { name: "reads", kind: "one", values: points.map(({ reads, step_s }) => reads.count / step_s) },
          { name: "writes", kind: "two", values: points.map(({ writes, step_s }) => writes.count / step_s) },
          { name: "failed", kind: "wrong", values: points.map(({ reads, writes, step_s }) => (reads.failed + writes.failed) / step_s) },
        ],
        text: rough,
      }),
      chart({
        ...all,
        title: "Time of reads",
        lines: [
          { name: "half", kind: "one", values: points.map(({ reads }) => reads.median_s) },
          { name: "99 %", kind: "two", values: points.map(({ reads }) => reads.p99_s) },
        ],
        text: time,
      }),
      chart({
        ...all,
        title: "Time of writes",
        lines: [
          { name: "half", kind: "one", values: points.map(({ writes }) => writes.median_s) },
          { name: "99 %", kind: "two", values: points.map(({ writes }) => writes.p99_s) },
        ],
        text: time,
      }),
      chart({
        ...all,
        title: "Received per second",
        lines: [{ name: "bodies", kind: "one", values: points.map((point) => point.received_bytes / point.step_s) }],
        text: bytes,
      }),
      chart({
        ...all,
        title: "In staging",
        lines: [{ name: "staged", kind: "one", values: points.map((point) => point.staged_bytes ?? null) }],
        text: bytes,
      }),
      chart({
        ...all,
        title: "Versions on platters",
        lines: [{ name: "archived", kind: "one", values: points.map((point) => point.archived_versions ?? null) }],
        text: count,
      }),
    ),
    h("h2", {}, "In figures"),
    listed(points),
  ];
  return { ...title, content };
}

/** @param {number} seconds */
function minutes(seconds) {
  return many(Math.max(1, Math.round(seconds / 60)), "minute");
}

/** How long some steps are together. @param {Point[]} points */
function long(points) {
  return points.reduce((so_far, { step_s }) => so_far + step_s, 0);
}

/** A number in two digits, or all digits before the point. @param {number} value */
function rough(value) {
  return value < 99.5 ? String(Number(value.toPrecision(2))) : count(Math.round(value));
}

/** @param {number} seconds */
function time(seconds) {
  return seconds < 0.9995 ? `${rough(seconds * 1_000)} ms` : `${rough(seconds)} s`;
}

/** @param {number} more */
function change(more) {
  return more > 0 ? `${count(more)} more` : more < 0 ? `${count(-more)} fewer` : "as before";
}

/**
 * @param {Point[]} points
 * @returns {[string, import("./dom.js").Child][]}
 */
function figures(points) {
  const sum = (/** @type {(point: Point) => number} */ of) => points.reduce((so_far, point) => so_far + of(point), 0);
  const failed = sum(({ reads, writes }) => reads.failed + writes.failed);
  const seen = points.filter((point) => point.archived_versions !== undefined);
  const [first, last] = [seen[0], seen.at(-1)];
  /** @type {[string, import("./dom.js").Child][]} */
  const shown = [
    ["Reads", count(sum(({ reads }) => reads.count))],
    ["Writes and removals", count(sum(({ writes }) => writes.count))],
    ["Failed in the server", failed === 0 ? "none" : h("span", { class: "bad" }, count(failed))],
    ["Received", bytes(sum((point) => point.received_bytes))],
  ];
  if (first !== undefined && last !== undefined) {
    shown.push(
      ["Versions in staging", `${count(last.staged_versions ?? 0)}, ${bytes(last.staged_bytes ?? 0)}`],
      ["Versions on platters", `${count(last.archived_versions ?? 0)} (${change((last.archived_versions ?? 0) - (first.archived_versions ?? 0))})`],
    );
  }
  return shown;
}

/**
 * @param {Point[]} points
 */
function listed(points) {
  const rows = [];
  for (let end = points.length; end > 0; end -= STEPS) {
    const part = points.slice(Math.max(0, end - STEPS), end);
    const sum = (/** @type {(point: Point) => number} */ of) => part.reduce((so_far, point) => so_far + of(point), 0);
    const slowest = (/** @type {(point: Point) => number | null} */ of) => part.reduce((most, point) => Math.max(most, of(point) ?? 0), 0);
    const shown = (/** @type {number} */ seconds) => (seconds === 0 ? "–" : time(seconds));
    const [first] = part;
    if (first === undefined) break;
    const begun = new Date(Date.parse(first.at) - first.step_s * 1_000);
    rows.push(
      h(
        "tr",
        {},
        h("th", { scope: "row" }, h("time", { datetime: begun.toISOString(), title: begun.toISOString() }, `${minutes(long(part))} from ${clockTime(begun.getTime())}`)),
        ...[
          count(sum(({ reads }) => reads.count)),
          shown(slowest(({ reads }) => reads.p99_s)),
          count(sum(({ writes }) => writes.count)),
          shown(slowest(({ writes }) => writes.p99_s)),
          count(sum(({ reads, writes }) => reads.failed + writes.failed)),
          bytes(sum((point) => point.received_bytes)),
        ].map((text) => h("td", { class: "number" }, text)),
      ),
    );
  }
  const columns = [
    { text: "When" },
    ...["Reads", "Highest 99 %", "Writes", "Highest 99 %", "Failed", "Received"].map((text) => ({ text, kind: "number" })),
  ];
  return table("Requests by five minutes, the latest first", columns, rows);
}
