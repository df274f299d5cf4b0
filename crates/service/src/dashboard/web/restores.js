// Open restores: what they wait for and when they should be done; and the machines that serve them.

import { load } from "./api.js";
import { cards, h } from "./dom.js";
import { count, many, when } from "./format.js";
import { name } from "./names.js";
import { table } from "./tables.js";

/**
 * @typedef {{ bucket: string, key: string, tier: string, due: string, waits_for: string, expected: string | null }} Restore
 * @typedef {{ shelf: number, x_m: number, carries: number | null, state: string }} Shuttle
 * @typedef {{ does: string, platters: (number | null)[], state: string }} Drive
 * @typedef {{
 *   time_scale: number, sets: number, room_sets: number, outside_sets: number, platters_queued: number, platters_unverified: number,
 *   reads_recovered: number, restores: { read: number, recovered: number, without_library: number, failed: number }, estimates: { compared: number, median_error: number | null },
 *   shuttles: Shuttle[], drives: Drive[],
 * }} Library
 */

/** Rows of a page; more would slow the browser down. */
const SHOWN_MAX = 200;

/** @type {import("./app.js").Load} */
export async function restores(_path, _parameters, signal) {
  /** @type {{ open: number, restores: Restore[], library: Library | null }} */
  const answer = await load("restores", {}, signal);
  /** @type {HTMLElement[]} */
  const content = [h("h1", {}, "Restores"), verdict(answer.open, answer.library)];
  if (answer.restores.length > 0) content.push(...open(answer.open, answer.restores));
  if (answer.library !== null) content.push(h("h2", {}, "Library"), cards(figures(answer.library)), ...machines(answer.library));
  return { title: "Restores", content };
}

/**
 * @param {number} open
 * @param {Library | null} library
 */
function verdict(open, library) {
  /** @type {[string, string][]} */
  const lines = [];
  const broken = library === null ? 0 : [...library.shuttles, ...library.drives].filter(({ state }) => state !== "works").length;
  if (broken > 0) lines.push(["warn", `! ${many(broken, "machine")} out of order.`]);
  if (library !== null && library.outside_sets > 0) lines.push(["warn", `! ${many(library.outside_sets, "set")} without a place in the library.`]);
  if (library !== null && library.restores.failed > 0) {
    lines.push(["bad", `✕ ${many(library.restores.failed, "restore")} failed since the server started; its log tells why.`]);
  }
  lines.push(["quiet", open === 0 ? "No restore is open." : `${many(open, "open restore")}.`]);
  if (library === null) lines.push(["quiet", "The server has no library: restores are carried out one after another."]);
  return h("ul", { class: "verdict", id: "restores" }, lines.map(([kind, line]) => h("li", { class: kind }, line)));
}

/**
 * @param {number} all
 * @param {Restore[]} list
 */
function open(all, list) {
  const shown = list.slice(0, SHOWN_MAX);
  const rows = shown.map(({ bucket, key, tier, due, waits_for, expected }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: "key" }, name(`${bucket}/${key}`)),
      h("td", {}, tier),
      h("td", { class: "date" }, expected === null ? "no estimate" : when(expected)),
      h("td", {}, waits_for),
      h("td", { class: "date" }, when(due)),
    ),
  );
  const columns = [{ text: "Object", kind: "key" }, { text: "Tier" }, { text: "Expected" }, { text: "Waits for" }, { text: "Due" }];
  const more = all > shown.length ? [h("p", { class: "quiet" }, `The ${count(shown.length)} most urgent of ${count(all)}; GET /-/restores lists up to 1,000.`)] : [];
  return [table("Open restores", columns, rows), ...more];
}

/**
 * @param {Library} library
 * @returns {[string, import("./dom.js").Child][]}
 */
function figures(library) {
  const { median_error, compared } = library.estimates;
  return [
    ["Sets", `${count(library.sets)}, room for ${count(library.room_sets)}`],
    ["Platters to fetch", count(library.platters_queued)],
    ["Platters to verify", count(library.platters_unverified)],
    ["Restored by drives", count(library.restores.read)],
    ["Recovered from other platters", count(library.restores.recovered)],
    ["Restored without the library", count(library.restores.without_library)],
    ["Estimates off by (median)", median_error === null ? "–" : `${Math.round(100 * median_error)} % of ${count(compared)}`],
    ["Speed", library.time_scale === 1 ? "real time" : `${count(library.time_scale)} times real time`],
  ];
}

/** @param {Library} library */
function machines({ shuttles, drives }) {
  /** @param {string} state */
  const health = (state) => h("td", { class: "state" }, h("span", { class: state === "works" ? "good" : "warn" }, state === "works" ? "✓ works" : `! ${state}`));
  const carried = shuttles.map(({ shelf, x_m, carries, state }, number) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, String(number)),
      health(state),
      h("td", { class: "number" }, String(shelf)),
      h("td", { class: "number" }, `${x_m.toFixed(2)} m`),
      h("td", {}, carries === null ? "–" : `platter ${count(carries)}`),
    ),
  );
  const held = drives.map(({ does, platters, state }, number) => {
    const inside = platters.filter((platter) => platter !== null).map((platter) => count(platter));
    return h("tr", {}, h("th", { scope: "row" }, String(number)), health(state), h("td", {}, does), h("td", {}, inside.length === 0 ? "–" : inside.join(", ")));
  });
  return [
    h("h2", {}, "Shuttles"),
    table("Shuttles", [{ text: "Shuttle" }, { text: "State" }, { text: "Shelf", kind: "number" }, { text: "From the left", kind: "number" }, { text: "Carries" }], carried),
    h("h2", {}, "Drives"),
    table("Drives", [{ text: "Drive" }, { text: "State" }, { text: "Does" }, { text: "Platters" }], held),
  ];
}
