// Tables. On a narrow page each row becomes a block, in which every value has its column's name.

import { table as plain } from "./dom.js";

/**
 * A table.
 *
 * @param {string} caption What a screen reader announces.
 * @param {{ text: string, kind?: string }[]} columns
 * @param {HTMLTableRowElement[]} rows
 */
export function table(caption, columns, rows) {
  for (const row of rows) {
    let index = 0;
    for (const cell of row.cells) {
      cell.dataset["column"] = columns[index]?.text ?? "";
      index += cell.colSpan;
    }
  }
  return plain(caption, columns, rows, "stacks");
}
