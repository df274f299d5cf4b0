// The last events of the server's log.

import { load } from "./api.js";
import { h } from "./dom.js";
import { many, when } from "./format.js";
import { name, visible } from "./names.js";
import { table } from "./tables.js";

/**
 * @typedef {{ level: string, logger: string, message: string, fields: Record<string, unknown>, first: string, last: string, times: number }} Logged
 * @typedef {{ errors: number, warnings: number, events: Logged[] }} Log
 */

/** Longer values of fields are cut; the tooltip has more. */
const FIELD_MAX = 240;

/** @type {Record<string, [string, string]>} */
const LEVELS = { error: ["bad", "✕ error"], warn: ["warn", "! warning"], info: ["quiet", "info"] };

/** @type {import("./app.js").Load} */
export async function events(_path, parameters, signal) {
  const isNotable = parameters.get("level") === "warn";
  /** @type {Log} */
  const log = await load("events", isNotable ? { level: "warn" } : {}, signal);
  const choice = [
    ["#/events", "All", !isNotable],
    ["#/events?level=warn", "Warnings and errors", isNotable],
  ].map(([href, text, isChosen]) => h("a", { href: String(href), ...(isChosen ? { "aria-current": "true" } : {}) }, String(text)));
  const content = [
    h("h1", {}, "Events"),
    summary(log),
    h("p", { class: "choice" }, choice),
    log.events.length === 0 ? h("p", { class: "quiet" }, "None.") : listed(log),
  ];
  return { title: "Events", content };
}

/** @param {Log} log */
function summary({ errors, warnings }) {
  const [kind, sign] = errors > 0 ? ["bad", "✕ "] : warnings > 0 ? ["warn", "! "] : ["quiet", ""];
  return h("p", { class: `verdict ${kind}`, id: "verdict" }, `${sign}${many(errors, "error")} and ${many(warnings, "warning")} logged since the server started.`);
}

/** @param {Log} log */
function listed({ events: all }) {
  const rows = all.map(({ level, logger, message, fields, first, last, times }) => {
    const [kind, text] = LEVELS[level] ?? ["quiet", level];
    const repeated = times > 1 && h("div", { class: "quiet" }, `${times} times, first `, when(first));
    const details = Object.entries(fields).map(([field, value]) =>
      h("div", { class: "field" }, h("span", { class: "quiet" }, `${field}: `), short(typeof value === "string" ? value : JSON.stringify(value))),
    );
    return h(
      "tr",
      {},
      h("td", { class: "date" }, when(last)),
      h("td", { class: `state ${kind}` }, text),
      h("td", { class: "key" }, name(message), details, repeated),
      h("td", { class: "quiet" }, logger),
    );
  });
  const columns = [{ text: "When" }, { text: "Level" }, { text: "What", kind: "key" }, { text: "Module" }];
  return table("Events of the log, the newest first", columns, rows);
}

/**
 * The value of a field, cut if it is long.
 *
 * @param {string} value
 */
function short(value) {
  const text = visible(value);
  return text.length > FIELD_MAX ? h("bdi", { title: text }, `${text.slice(0, FIELD_MAX)}…`) : h("bdi", {}, text);
}
