// The health of all platters as a map: a column for each set, or for several, and a row for each
// position. Columns are links, and the arrow keys go from one to the next.

import { load } from "./api.js";
import { svg } from "./chart.js";
import { cards, h } from "./dom.js";
import { bytes, count, many, state, when } from "./format.js";
import { table } from "./tables.js";

/**
 * @typedef {{ set: string | null, sets: number, platters: number, sets_out_of_reach: number, bad: number, states_by_position: string,
 *   days: (number | null)[] }} Column
 * @typedef {{ now: string, every_days: number | null, all: number, from: number, count: number, per_column: number, states: string[],
 *   columns: Column[] }} Map
 * @typedef {{ set: string, shape: string, information: number, written: string | null, platter_bytes: number,
 *   platters: import("./fixity.js").Platter[] }} Set
 */

/** Size of a cell with the gap to the next. */
const CELL = 13;
const SQUARE = 11;
const BAND_GAP = 14;
/** Shares of the time in which each platter should be read, by which ages are told apart. */
const AGES = [0.25, 0.5, 0.75, 1];

/** The address of the column that had the focus last. Each refresh draws the map anew. @type {string | null} */
let reached = null;

/** @type {import("./app.js").Load} */
export async function platters(path, parameters, signal) {
  return path[0] === "set" ? oneSet(path[1] ?? "", signal) : map(parameters, signal);
}

/**
 * @param {URLSearchParams} parameters
 * @param {AbortSignal} signal
 */
async function map(parameters, signal) {
  const part = { from: parameters.get("from") ?? "", count: parameters.get("count") ?? "" };
  /** @type {Map} */
  const found = await load("platters", part, signal);
  const byAge = parameters.get("by") === "age";
  const isPart = found.count < found.all;
  const here = (/** @type {Record<string, string>} */ changes) => `#/platters?${new URLSearchParams({ ...(isPart ? part : {}), ...changes }).toString()}`;
  const choice = [
    [here({}), "State", !byAge],
    [here({ by: "age" }), "Last read", byAge],
  ].map(([href, text, isChosen]) => h("a", { href: String(href), ...(isChosen ? { "aria-current": "true" } : {}) }, String(text)));
  const content = [
    h("h1", {}, "Platters"),
    isPart && found.count > 0 && h("p", { class: "crumbs" }, h("a", { href: byAge ? "#/platters?by=age" : "#/platters" }, "All sets"), ` / sets ${count(found.from + 1)} to ${count(found.from + found.count)}`),
    h("p", { class: "quiet" }, explanation(found), " As of ", h("time", { datetime: found.now }, found.now.replace("T", " ").replace("Z", " UTC")), "."),
    h("p", { class: "choice" }, choice),
  ];
  if (found.count === 0) {
    const none = found.all === 0 ? "No set was written yet." : `There are only ${many(found.all, "set")}.`;
    content.push(h("p", { class: "quiet" }, none, " ", found.all > 0 && h("a", { href: "#/platters" }, "All sets")));
  } else {
    content.push(legend(byAge, found), picture(found, byAge));
  }
  return { title: "Platters", content: /** @type {HTMLElement[]} */ (content.filter((part) => part !== false)) };
}

/** @param {Map} found */
function explanation({ count: shown, per_column }) {
  const each = per_column === 1 ? "Each column is a set" : `Each column stands for ${many(per_column, "set")} and shows the worst platter of each position`;
  return `${many(shown, "set")}, in order of their writing. ${each}; information platters are at the top.`;
}

/**
 * What marks look like.
 *
 * @param {boolean} byAge
 * @param {Map} found
 */
function legend(byAge, { states, every_days }) {
  const sample = (/** @type {string} */ kind, /** @type {string} */ text) =>
    h("span", { class: "key" }, svgBox(kind), ` ${text} `);
  if (!byAge) return h("p", { class: "legend" }, states.map((word) => h("span", { class: "key" }, svgBox(word), " ", state(word), " ")));
  const lost = [sample("missing", "missing"), sample("damaged", "damaged")];
  const never = sample("never", "never read in full and found good");
  if (every_days === null) return h("p", { class: "legend" }, sample("age3", "read"), never, lost, h("span", { class: "quiet" }, "The scrub is turned off, so no platter is due."));
  // Of a few days, no parts are told apart.
  const shares = every_days < 2 * AGES.length ? AGES.slice(-1) : AGES;
  const upTo = shares.map((share) => sample(`age${AGES.indexOf(share)}`, `within ${many(Math.floor(share * every_days), "day")}`));
  return h("p", { class: "legend" }, upTo, sample("late", "longer ago: due"), never, lost);
}

/** @param {string} kind */
function svgBox(kind) {
  return svg("svg", { viewBox: "-1 -1 13 13", width: 13, height: 13, class: "map", "aria-hidden": "true" }, cell(kind, 0, 0));
}

/**
 * A cell. Platters that are lost have a cross, for those who can't tell the colours apart.
 *
 * @param {string} kind
 * @param {number} x
 * @param {number} y
 */
function cell(kind, x, y) {
  const square = svg("rect", { class: `cell ${kind}`, x: x + 0.5, y: y + 0.5, width: SQUARE - 1, height: SQUARE - 1, rx: 1.5 });
  if (kind !== "damaged" && kind !== "missing") return square;
  return svg("g", {}, square, svg("path", { class: `cross ${kind}`, d: `M${x + 3} ${y + 3}l5 5m0 -5l-5 5` }));
}

/**
 * @param {Map} found
 * @param {boolean} byAge
 */
function picture({ columns, states, every_days, from, per_column }, byAge) {
  const positions = Math.max(...columns.map((column) => column.states_by_position.length));
  const view = document.getElementById("view");
  const room = Math.min(view?.clientWidth ?? 1_000, 1_240) - 60;
  const perBand = Math.max(8, Math.floor(room / CELL));
  const bands = Math.ceil(columns.length / perBand);
  const height = positions * CELL;
  const links = columns.map((column, index) => {
    const [x, y] = [(index % perBand) * CELL, Math.floor(index / perBand) * (height + BAND_GAP)];
    const cells = [...column.states_by_position].map((digit, position) => {
      const word = states[Number(digit)] ?? "unknown";
      const isLost = word === "missing" || word === "damaged";
      return cell(byAge && !isLost ? ageOf(column.days[position] ?? null, every_days) : word, x, y + position * CELL);
    });
    const number = from + index * per_column;
    const href = column.set === null ? `#/platters?${new URLSearchParams({ from: String(number), count: String(column.sets), ...(byAge ? { by: "age" } : {}) })}` : `#/platters/set/${column.set}`;
    const link = svg("a", { href, tabindex: -1, class: "column" }, svg("title", {}, described(column, number, every_days)), svg("rect", { class: "whole", x: x - 1, y: y - 1, width: CELL, height: height + 1 }), ...cells);
    return link;
  });
  (links.find((link) => link.getAttribute("href") === reached) ?? links[0])?.setAttribute("tabindex", "0");
  const wide = Math.min(columns.length, perBand) * CELL;
  const tall = bands * (height + BAND_GAP) - BAND_GAP;
  // A few sets are drawn larger.
  const scale = Math.min(2, Math.max(1, room / (wide + 4)));
  const size = { width: (wide + 4) * scale, height: (tall + 4) * scale };
  const drawn = svg("svg", { viewBox: `-2 -2 ${wide + 4} ${tall + 4}`, ...size, class: "map", role: "group", "aria-label": "Sets" }, ...links);
  drawn.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perBand, ArrowUp: -perBand, Home: -Infinity, End: Infinity }[event.key];
    const at = links.findIndex((link) => link === document.activeElement);
    if (step === undefined || at < 0) return;
    event.preventDefault();
    links[Math.min(links.length - 1, Math.max(0, at + step))]?.focus();
  });
  // Chromium makes an svg that listens for the focus a tab stop, so the box around it listens.
  const box = h("div", { class: "scroll mapped" }, drawn);
  box.addEventListener("focusin", () => {
    // However a column gets the focus, it is the one to which the tab key comes back.
    const current = links.find((link) => link === document.activeElement);
    if (current === undefined) return;
    links.forEach((link) => link.setAttribute("tabindex", link === current ? "0" : "-1"));
    reached = current.getAttribute("href");
  });
  return box;
}

/**
 * @param {number | null} days
 * @param {number | null} every
 */
function ageOf(days, every) {
  if (days === null) return "never";
  if (every === null) return "age3";
  const share = AGES.findIndex((part) => days <= Math.floor(part * every));
  return share < 0 ? "late" : `age${share}`;
}

/**
 * @param {Column} column
 * @param {number} number
 * @param {number | null} every
 */
function described({ sets, platters: all, bad, sets_out_of_reach, days }, number, every) {
  const which = sets === 1 ? `Set ${count(number + 1)}` : `Sets ${count(number + 1)} to ${count(number + sets)}`;
  const good = bad === 0 ? `none of ${many(all, "platter")} lost or out of reach` : `${count(bad)} of ${many(all, "platter")} lost or out of reach`;
  const lost = sets_out_of_reach === 0 ? "" : `; ${many(sets_out_of_reach, "set")} with more than the redundancy replaces`;
  const oldest = days.includes(null) ? "some never read in full and found good" : `all read and found good within ${many(Math.max(1, ...days.map((day) => day ?? 0)), "day")}`;
  const late = every !== null && days.some((day) => day !== null && day > every) ? ", too long ago" : "";
  return `${which}: ${good}${lost}; ${oldest}${late}`;
}

/**
 * @param {string} id
 * @param {AbortSignal} signal
 */
async function oneSet(id, signal) {
  /** @type {Set} */
  const set = await load("set", { id }, signal);
  const rows = set.platters.map((platter) =>
    h(
      "tr",
      {},
      h("td", { class: "number" }, count(platter.position)),
      h("td", {}, platter.position < set.information ? "information" : "redundancy"),
      h("th", { scope: "row" }, h("code", {}, platter.platter)),
      h("td", { class: "state" }, state(platter.state)),
      h("td", {}, platter.store),
      h("td", { class: "date" }, when(platter.verified)),
      h("td", { class: "date" }, platter.last_check === null ? "none" : when(platter.last_check.at)),
      h("td", {}, lost(platter)),
    ),
  );
  const usable = set.platters.filter((platter) => platter.state === "good" || platter.state === "unverified").length;
  const spare = usable - set.information;
  const spared = spare < 0 ? h("span", { class: "bad" }, `${many(-spare, "platter")} short`) : spare === 0 ? h("span", { class: "warn" }, "none") : many(spare, "platter");
  const columns = [{ text: "Position", kind: "number" }, ...["Holds", "Platter", "State", "Store", "Last good", "Last check", "Lost then"].map((text) => ({ text }))];
  const content = [
    h("p", { class: "crumbs" }, h("a", { href: "#/platters" }, "All sets"), " / set"),
    h("h1", {}, "Set ", h("code", {}, set.set)),
    cards([
      ["Shape", set.shape],
      ["Written", when(set.written)],
      ["A platter", bytes(set.platter_bytes)],
      ["Can still lose", spared],
    ]),
    h("h2", {}, "Platters"),
    table("Platters of the set", columns, rows),
  ];
  return { title: "Set", content };
}

/** @param {import("./fixity.js").Platter} platter */
function lost({ last_check }) {
  if (last_check === null || last_check.found !== "damaged") return last_check?.found === "missing" ? "all of it" : "–";
  return `${many(last_check.lost_sectors, "sector")}, ${many(last_check.lost_tracks, "track")}`;
}
