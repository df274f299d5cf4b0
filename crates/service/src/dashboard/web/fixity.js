// The fixity of all platters: how many were read and found good, how long ago, and which are not good.

import { load } from "./api.js";
import { cards, h, table as plain } from "./dom.js";
import { bytes, count, duration, many, state, when } from "./format.js";
import { table } from "./tables.js";

/**
 * @typedef {{ all: number, good: number, unverified: number, absent: number, unreadable: number, missing: number, damaged: number }} States
 * @typedef {{ every_days: number, bytes_per_s_max: number, bytes_per_s: number | null, verified: number, due: number, due_bytes: number,
 *   out_of_reach: number, due_end: string | null, cycle_s: number, is_too_slow: boolean }} Cycle
 * @typedef {{ platter: string, set: string, position: number, store: string, state: string, verified: string | null,
 *   last_check: { at: string, found: string, lost_sectors: number, lost_tracks: number } | null }} Platter
 * @typedef {{ not_ready: string[], cycle: Cycle | null, platters: States,
 *   ages: { verified: { days_max: number | null, platters: number }[], never: number, future: number }, now: string,
 *   unlisted: number, unseen: string[],
 *   sets: { all: number, whole: number, reduced: number, out_of_reach: number }, listed: Platter[],
 *   stores: { store: string, state: string, platters: States }[], objects: number, versions: number, content_bytes: number,
 *   staged: { versions: number, stored_bytes: number, damaged: number, oldest: string | null } }} Overview
 */

/** @type {import("./app.js").Load} */
export async function fixity(_path, _parameters, signal) {
  /** @type {Overview} */
  const overview = await load("overview", {}, signal);
  const content = [
    h("h1", {}, "Fixity of the platters"),
    verdict(overview),
    h("p", { class: "quiet" }, "As of ", h("time", { datetime: overview.now }, overview.now.replace("T", " ").replace("Z", " UTC")), "."),
    cards(figures(overview)),
    h("h2", {}, "Last read in full and found good"),
    ages(overview),
  ];
  if (overview.listed.length > 0) content.push(...listed(overview));
  content.push(h("h2", {}, "Stores"), stores(overview));
  return { title: "Fixity", content };
}

/**
 * What is true of the platters, worst first. That all is well is said only of platters that were
 * read within the time that the settings ask for.
 *
 * @param {Overview} overview
 */
function verdict({ not_ready, cycle, platters, sets, staged, ages, unlisted, unseen }) {
  /** @type {[string, string][]} */
  const lines = not_ready.map((reason) => ["bad", `✕ The server isn't ready: ${reason}.`]);
  if (sets.out_of_reach > 0) {
    const have = sets.out_of_reach === 1 ? "has" : "have";
    lines.push(["bad", `✕ ${many(sets.out_of_reach, "set")} ${have} more platters bad or out of reach than its redundancy replaces.`]);
  }
  if (staged.damaged > 0) lines.push(["bad", `✕ ${many(staged.damaged, "staged version")} damaged when last read.`]);
  if (platters.damaged > 0) lines.push(["bad", `✕ ${many(platters.damaged, "platter")} damaged when last read.`]);
  if (platters.missing > 0) lines.push(["bad", `✕ ${many(platters.missing, "platter")} missing from a store that is present.`]);
  if (unlisted > 0) lines.push(["bad", `✕ ${many(unlisted, "version")} can't be listed: see fulgurite status.`]);
  if (unseen.length > 0) lines.push(["bad", `✕ The catalogue may not be complete: its rebuild could not read ${unseen.join(", ")}.`]);
  if (platters.absent > 0) lines.push(["warn", `– ${many(platters.absent, "platter")} on absent or unknown stores.`]);
  if (platters.unreadable > 0) lines.push(["warn", `! ${many(platters.unreadable, "platter")} could not be read.`]);
  if (platters.unverified > 0) lines.push(["warn", `? ${many(platters.unverified, "platter")} never read in full since the catalogue knows them.`]);
  if (ages.future > 0) lines.push(["warn", `? ${many(ages.future, "platter")} verified on a date that is yet to come: a clock was wrong.`]);
  if (cycle?.is_too_slow) lines.push(["warn", `! One cycle takes ${duration(cycle.cycle_s)} at this rate, longer than the ${many(cycle.every_days, "day")} of scrub.every_days.`]);
  if (cycle !== null && cycle.due > 0) lines.push(["warn", `! ${many(cycle.due, "platter")} due: not read within ${many(cycle.every_days, "day")}.`]);
  if (lines.length === 0 && platters.all === 0) lines.push(["quiet", staged.versions > 0 ? "No platter was written yet: all content is in staging." : "The archive is empty."]);
  if (lines.length === 0 && cycle === null) lines.push(["warn", "? All platters were good when last read. Nothing reads them again: the scrub is turned off."]);
  if (lines.length === 0 && cycle !== null) {
    lines.push(["good", `✓ All ${many(platters.all, "platter")} were read within ${many(cycle.every_days, "day")} and found good.`]);
  }
  return h("ul", { class: "verdict", id: "verdict" }, lines.map(([kind, line]) => h("li", { class: kind }, line)));
}

/**
 * @param {Overview} overview
 * @returns {[string, import("./dom.js").Child][]}
 */
function figures({ cycle, platters, sets, objects, content_bytes, staged }) {
  /** @type {[string, import("./dom.js").Child][]} */
  const figures = [
    ["Platters", count(platters.all)],
    ["Good", `${count(platters.good)} of ${count(platters.all)}`],
    ["Sets that lost platters", `${count(sets.reduced + sets.out_of_reach)} of ${count(sets.all)}`],
    ["Objects", `${count(objects)} with ${bytes(content_bytes)}`],
    ["Staged", staged.versions === 0 ? "nothing" : `${many(staged.versions, "version")}, ${bytes(staged.stored_bytes)}`],
  ];
  if (cycle === null) {
    figures.push(["Scrub", "turned off"]);
    return figures;
  }
  figures.push(
    [`Read within ${many(cycle.every_days, "day")}`, count(cycle.verified)],
    ["Due", cycle.due === 0 ? "none" : `${count(cycle.due)}, ${bytes(cycle.due_bytes)}`],
    ["Due and out of reach", count(cycle.out_of_reach)],
    ["Reading rate", cycle.bytes_per_s === null ? `up to ${bytes(cycle.bytes_per_s_max)}/s` : `${bytes(cycle.bytes_per_s)}/s`],
    ["One cycle takes", cycle.cycle_s === 0 ? "–" : duration(cycle.cycle_s)],
  );
  if (cycle.due > 0) figures.push(["All due read", when(cycle.due_end, "not foreseeable")]);
  return figures;
}

/** @param {Overview} overview */
function ages({ ages: { verified, never, future }, platters, cycle }) {
  let from = 0;
  /** @type {[string, number, boolean][]} */
  const lines = verified.map(({ days_max, platters: found }) => {
    const text = days_max === null ? `more than ${many(from, "day")} ago` : from === 0 ? `within ${many(days_max, "day")}` : `${count(from)} to ${many(days_max, "day")} ago`;
    const isLate = cycle !== null && from >= cycle.every_days;
    from = days_max ?? from;
    return [text, found, isLate];
  });
  lines.push(["never", never, true]);
  if (future > 0) lines.push(["in the future", future, true]);
  const rows = lines.map(([text, found, isLate]) => {
    const fill = h("div", { class: isLate ? "fill warn" : "fill" });
    fill.style.setProperty("width", `${platters.all === 0 ? 0 : (100 * found) / platters.all}%`);
    return h("tr", {}, h("th", { scope: "row" }, text), h("td", { class: "number" }, count(found)), h("td", { class: "bar" }, found > 0 && fill));
  });
  return plain("Platters by the time since they were last verified", [{ text: "Last verified" }, { text: "Platters", kind: "number" }, { text: "" }], rows, "bars");
}

/** @param {Overview} overview */
function listed({ listed: platters, platters: states }) {
  const rows = platters.map((platter) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("code", {}, platter.platter)),
      h("td", { class: "state" }, state(platter.state)),
      h("td", {}, platter.store),
      h("td", {}, h("code", {}, platter.set), ` ${platter.position}`),
      h("td", { class: "date" }, when(platter.verified)),
      h("td", {}, found(platter)),
    ),
  );
  const all = states.absent + states.unreadable + states.missing + states.damaged;
  const columns = ["Platter", "State", "Store", "Set, position", "Last good", "Last check"].map((text) => ({ text }));
  const more = all > platters.length ? [h("p", { class: "quiet" }, `The first ${count(platters.length)} of ${count(all)}; fulgurite status names all.`)] : [];
  return [h("h2", {}, "Platters that are not good"), table("Platters that are not good", columns, rows), ...more];
}

/** @param {Platter} platter */
function found({ last_check }) {
  if (last_check === null) return "none";
  const { at, found: what, lost_sectors, lost_tracks } = last_check;
  const lost = what === "damaged" ? `, ${many(lost_sectors, "sector")} and ${many(lost_tracks, "track")} lost` : "";
  return h("span", {}, what, lost, ", ", when(at));
}

/** @param {Overview} overview */
function stores({ stores: list }) {
  const rows = list.map(({ store, state: word, platters }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, store),
      h("td", { class: "state" }, state(word)),
      h("td", { class: "number" }, count(platters.all)),
      h("td", { class: "number" }, count(platters.good)),
      h("td", { class: "number" }, count(platters.unverified)),
      h("td", { class: "number" }, count(platters.damaged + platters.missing)),
    ),
  );
  const columns = [
    { text: "Store" },
    { text: "State" },
    { text: "Platters", kind: "number" },
    { text: "Good", kind: "number" },
    { text: "Never read", kind: "number" },
    { text: "Damaged or missing", kind: "number" },
  ];
  return table("Stores", columns, rows);
}
