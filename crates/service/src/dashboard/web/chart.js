// Lines over time, as SVG. Colours come from the style sheet, so they follow the page's theme.

import { h } from "./dom.js";

const WIDTH = 380;
const HEIGHT = 120;
const TOP = 8;
const BOTTOM = 20;
const LEFT = 8;

/**
 * @typedef {{ name: string, kind: string, values: (number | null)[] }} Line
 * @typedef {{ title: string, lines: Line[], times: number[], text: (value: number) => string }} Lines
 */

/**
 * An element of SVG.
 *
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) {
    element.setAttribute(attribute, String(value));
  }
  element.append(...children);
  return element;
}

/**
 * A chart with a legend. A line is interrupted where its value is null.
 *
 * @param {Lines} chart
 */
export function chart({ title, lines, times, text }) {
  const most = Math.max(0, ...lines.flatMap((line) => line.values.map((value) => value ?? 0)));
  const [from, until] = [times[0] ?? 0, times.at(-1) ?? 0];
  const x = (/** @type {number} */ time) => LEFT + ((WIDTH - 2 * LEFT) * (time - from)) / Math.max(1, until - from);
  const y = (/** @type {number} */ value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * value) / (most || 1);
  const paths = lines.flatMap(({ kind, values }) => {
    /** @type {SVGElement[]} */
    const dots = [];
    const steps = values.map((value, index) => {
      if (value === null) return "";
      const place = [x(times[index] ?? from).toFixed(1), y(value).toFixed(1)];
      const begins = (values[index - 1] ?? null) === null;
      if (begins && (values[index + 1] ?? null) === null) {
        // Alone between two gaps.
        dots.push(svg("circle", { class: `dot ${kind}`, cx: place[0] ?? 0, cy: place[1] ?? 0, r: 2 }));
        return "";
      }
      return `${begins ? "M" : "L"}${place.join(" ")}`;
    });
    return [svg("path", { class: `line ${kind}`, d: steps.join("") || "M0 0" }), ...dots];
  });
  const last = (/** @type {Line} */ { values }) => values.findLast((value) => value !== null) ?? null;
  const said = lines.map((line) => `${line.name} ${last(line) === null ? "none" : text(last(line) ?? 0)}`).join(", ");
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: last ${said}; up to ${text(most)}` },
    svg("path", { class: "axis", d: `M${LEFT} ${HEIGHT - BOTTOM}H${WIDTH - LEFT}` }),
    ...paths,
    svg("text", { x: LEFT, y: HEIGHT - 5 }, clockTime(from)),
    svg("text", { x: WIDTH - LEFT, y: HEIGHT - 5, "text-anchor": "end" }, clockTime(until)),
  );
  const legend = lines.map((line) =>
    h("span", { class: "key" }, h("span", { class: `sample ${line.kind}`, "aria-hidden": "true" }), ` ${line.name} `, h("b", {}, last(line) === null ? "–" : text(last(line) ?? 0))),
  );
  return h("figure", { class: "chart" }, h("figcaption", {}, h("b", {}, title), h("span", { class: "quiet" }, ` up to ${text(most)}`)), picture, h("div", { class: "legend" }, legend));
}

/** The time of day. @param {number} ms */
export function clockTime(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
