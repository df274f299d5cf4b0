// Names from clients, as text that can't mislead.

import { h } from "./dom.js";

/**
 * Control characters, line and paragraph separators, and characters that are usually invisible or
 * change the direction of text: with them, a name can look like another one.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu;
/** @type {Record<string, string>} */
const SHORT = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/**
 * A text with its hidden characters escaped, as the command line writes them.
 *
 * @param {string} text
 */
export function visible(text) {
  return text.replace(HIDDEN, (hidden) => SHORT[hidden] ?? `\\u{${hidden.codePointAt(0)?.toString(16)}}`);
}

/**
 * A name whose letters don't change the order of the text around it.
 *
 * @param {string} text
 */
export function name(text) {
  return h("bdi", {}, visible(text));
}
