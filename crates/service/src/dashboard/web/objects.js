// Buckets, the objects in them, and the copies of an object.

import { load } from "./api.js";
import { cards, h } from "./dom.js";
import { bytes, count, state, when } from "./format.js";
import { name, visible } from "./names.js";
import { table } from "./tables.js";

/**
 * @typedef {{ key: string, bytes: number, created: string | null, class: string, is_staged: boolean, state: string | null,
 *   oldest_verified: string | null, platters_to_spare: number | null, platters_short: number }} Listed
 * @typedef {{ bucket: string, prefix: string, prefixes: string[], objects: Listed[], next: string | null }} Page
 * @typedef {{ kind: "staged", segments: string[], state: string, verified: string | null, damaged: string | null }} StagedCopy
 * @typedef {{ kind: "platter", platter: string, set: string, position: number, store: string | null, offset: number,
 *   stored_bytes: number, state: string, verified: string | null,
 *   last_check: { at: string, found: string } | null, repaired: { at: string, found: string } | null }} PlatterCopy
 * @typedef {{ set: string, information: number, redundancy: number, medium: string, usable: number, platters_to_spare: number, platters_short: number,
 *   oldest_verified: string | null }} SetFixity
 * @typedef {{ version_id: string | null, bytes: number, created: string | null, is_marker: boolean, is_staged: boolean }} Version
 * @typedef {{ bucket: string, key: string, version_id: string | null, bytes: number, stored_bytes: number, encrypted: boolean,
 *   digests: Record<string, string>, oldest_verified: string | null, platters_to_spare: number | null, platters_short: number,
 *   copies: (StagedCopy | PlatterCopy)[], sets: SetFixity[], versions: Version[], has_more_versions: boolean }} Evidence
 */

/** @type {import("./app.js").Load} */
export async function objects(path, parameters, signal) {
  const [bucket] = path;
  if (bucket === undefined || bucket === "") return buckets(signal);
  const key = parameters.get("key");
  if (key !== null) return object(bucket, key, parameters.get("versionId"), signal);
  return listing(bucket, parameters.get("prefix") ?? "", parameters.get("after") ?? "", signal);
}

/**
 * The address of a view of a bucket.
 *
 * @param {string} bucket
 * @param {Record<string, string>} [parameters]
 */
function to(bucket, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return `#/objects/${encodeURIComponent(bucket)}${query === "" ? "" : `?${query}`}`;
}

/**
 * Links to the bucket and to each prefix of a key.
 *
 * @param {string} bucket
 * @param {string} prefix
 */
function crumbs(bucket, prefix) {
  /** @type {import("./dom.js").Child[]} */
  const links = [h("a", { href: "#/objects" }, "Buckets"), " / ", h("a", { href: to(bucket) }, name(bucket))];
  let end = 0;
  while ((end = prefix.indexOf("/", end) + 1) > 0) {
    const part = prefix.slice(0, end);
    links.push(" / ", h("a", { href: to(bucket, { prefix: part }) }, name(lastPart(part))));
  }
  return h("nav", { class: "crumbs", "aria-label": "Path" }, h("span", {}, links));
}

/**
 * The last part of a key or prefix. An empty one is shown as a slash.
 *
 * @param {string} key
 */
function lastPart(key) {
  const parts = key.replace(/\/$/, "").split("/");
  return parts[parts.length - 1] || "/";
}

/** @param {AbortSignal} signal */
async function buckets(signal) {
  /** @type {{ buckets: { name: string, owner: string }[] }} */
  const { buckets: found } = await load("buckets", {}, signal);
  const rows = found.map(({ name: bucket, owner }) => h("tr", {}, h("th", { scope: "row", class: "key" }, h("a", { href: to(bucket) }, name(bucket))), h("td", {}, name(owner))));
  const content = [h("h1", {}, "Buckets")];
  content.push(rows.length === 0 ? h("p", { class: "quiet" }, "There are no buckets yet.") : table("Buckets", [{ text: "Bucket" }, { text: "Owner" }], rows));
  return { title: "Buckets", content };
}

/**
 * @param {string} bucket
 * @param {string} prefix
 * @param {string} after
 * @param {AbortSignal} signal
 */
async function listing(bucket, prefix, after, signal) {
  /** @type {Page} */
  const page = await load("objects", { bucket, prefix, after }, signal);
  const folders = page.prefixes.map((under) =>
    h("tr", {}, h("th", { scope: "row", class: "key" }, h("a", { href: to(bucket, { prefix: under }) }, name(`${lastPart(under.slice(prefix.length))}/`))), h("td", { colspan: "6" })),
  );
  const files = page.objects.map((listed) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: "key" }, h("a", { href: to(bucket, { key: listed.key }) }, name(listed.key.slice(prefix.length) || listed.key))),
      h("td", { class: "number" }, bytes(listed.bytes)),
      h("td", {}, listed.class),
      h("td", {}, listed.is_staged ? "staging" : "platters"),
      h("td", { class: "state" }, state(listed.state)),
      h("td", { class: "date" }, when(listed.oldest_verified)),
      h("td", { class: "number" }, spared(listed)),
    ),
  );
  const columns = [
    { text: "Key" },
    { text: "Size", kind: "number" },
    { text: "Class" },
    { text: "Where" },
    { text: "Worst copy" },
    { text: "Oldest verified" },
    { text: "Platters to spare", kind: "number" },
  ];
  const content = [crumbs(bucket, prefix), h("h1", {}, name(prefix === "" ? bucket : prefix))];
  const isEmpty = folders.length + files.length === 0;
  content.push(isEmpty ? h("p", { class: "quiet" }, after === "" ? "There are no objects here." : "There are no more objects.") : table(`Objects in ${visible(bucket)}`, columns, [...folders, ...files]));
  if (page.next !== null) content.push(h("p", {}, h("a", { href: to(bucket, { prefix, after: page.next }), id: "next" }, "Next page")));
  return { title: bucket, content };
}

/**
 * @param {string} bucket
 * @param {string} key
 * @param {string | null} versionId
 * @param {AbortSignal} signal
 */
async function object(bucket, key, versionId, signal) {
  /** @type {Evidence} */
  const evidence = await load("object", versionId === null ? { bucket, key } : { bucket, key, versionId }, signal);
  const content = [
    crumbs(bucket, key.slice(0, key.lastIndexOf("/") + 1)),
    h("h1", {}, name(key)),
    cards([
      ["Size", bytes(evidence.bytes)],
      ["Version", evidence.version_id ?? "unversioned"],
      ["Oldest verified copy", when(evidence.oldest_verified)],
      ["Platters to spare", evidence.platters_to_spare === null ? "– (staged)" : spared(evidence)],
      ["Encrypted", evidence.encrypted ? "yes" : "no"],
    ]),
    h("p", {}, h("span", { class: "quiet" }, "SHA-256 "), h("code", {}, evidence.digests["sha256"] ?? "")),
    h("h2", {}, "Copies"),
    copies(evidence),
  ];
  if (evidence.sets.length > 0) content.push(h("h2", {}, "Sets of platters"), sets(evidence));
  content.push(h("h2", {}, "Versions"), versions(evidence));
  if (evidence.has_more_versions) content.push(h("p", { class: "quiet" }, "Older versions are left out."));
  return { title: key, content };
}

/**
 * How many platters can still be lost, or how many are too few.
 *
 * @param {{ platters_to_spare: number | null, platters_short: number }} of
 */
function spared({ platters_to_spare, platters_short }) {
  if (platters_short > 0) return h("span", { class: "bad" }, `✕ ${count(platters_short)} too few`);
  return platters_to_spare === null ? "–" : count(platters_to_spare);
}

/** @param {Evidence} evidence */
function copies(evidence) {
  const rows = evidence.copies.map((copy) => {
    const isStaged = copy.kind === "staged";
    const place = isStaged ? ["staging, segment ", copy.segments.join(", ")] : ["platter ", h("code", {}, copy.platter)];
    const checked = isStaged || copy.last_check === null ? "–" : h("span", {}, copy.last_check.found, ", ", when(copy.last_check.at));
    const repaired = isStaged || copy.repaired === null ? "–" : h("span", {}, copy.repaired.found, ", rewritten ", when(copy.repaired.at));
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "key" }, place),
      h("td", {}, isStaged ? "–" : (copy.store ?? "unknown")),
      h("td", { class: "number" }, isStaged ? "all" : bytes(copy.stored_bytes)),
      h("td", { class: "state" }, state(copy.state)),
      h("td", { class: "date" }, when(copy.verified)),
      h("td", {}, checked),
      h("td", {}, repaired),
    );
  });
  const columns = [
    { text: "Where" },
    { text: "Store" },
    { text: "Bytes", kind: "number" },
    { text: "State" },
    { text: "Last verified" },
    { text: "Last check" },
    { text: "Repaired" },
  ];
  return table("Copies", columns, rows);
}

/** @param {Evidence} evidence */
function sets(evidence) {
  const rows = evidence.sets.map((set) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("code", {}, set.set)),
      h("td", {}, set.medium),
      h("td", { class: "number" }, `${set.information} + ${set.redundancy}`),
      h("td", { class: "number" }, count(set.usable)),
      h("td", { class: "number" }, spared(set)),
      h("td", { class: "date" }, when(set.oldest_verified, "not all")),
    ),
  );
  const columns = [
    { text: "Set" },
    { text: "Medium" },
    { text: "Information + redundancy", kind: "number" },
    { text: "Usable", kind: "number" },
    { text: "To spare", kind: "number" },
    { text: "Oldest verified" },
  ];
  return table("Sets of platters", columns, rows);
}

/** @param {Evidence} evidence */
function versions({ bucket, key, versions: list }) {
  const rows = list.map((version) => {
    const id = version.version_id ?? "unversioned";
    const isLink = !version.is_marker && version.version_id !== null;
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "key" }, isLink ? h("a", { href: to(bucket, { key, versionId: id }) }, id) : id),
      h("td", { class: "date" }, when(version.created, "unknown")),
      h("td", { class: "number" }, version.is_marker ? "deletion marker" : bytes(version.bytes)),
      h("td", {}, version.is_marker ? "–" : version.is_staged ? "staging" : "platters"),
    );
  });
  return table("Versions", [{ text: "Version" }, { text: "Created" }, { text: "Size", kind: "number" }, { text: "Where" }], rows);
}
