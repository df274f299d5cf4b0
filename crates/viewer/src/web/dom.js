// Builds elements. Text from the archive becomes text nodes and attributes only: nothing here parses
// HTML, and the page's policy forbids it.

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 */

/**
 * An element with attributes and children. Children that are null or false are left out.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, string>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    element.setAttribute(attribute, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
  return element;
}

/**
 * A table that scrolls sideways where it is too wide.
 *
 * @param {string} caption What a screen reader announces.
 * @param {{ text: string, kind?: string }[]} columns
 * @param {HTMLTableRowElement[]} rows
 * @param {string} [kind] A class of the table.
 */
export function table(caption, columns, rows, kind = "") {
  const head = columns.map(({ text, kind: column }) => h("th", { scope: "col", class: column ?? "" }, text));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: kind, "aria-label": caption }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
  );
}

/**
 * Named values, side by side.
 *
 * @param {[string, Child][]} values
 */
export function cards(values) {
  return h("dl", { class: "cards" }, values.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
