// Shows the view in the URL's fragment. Without a token, shows the form for it.

import { activity } from "./activity.js";
import { ApiError, forgetToken, hasToken, setToken } from "./api.js";
import { h } from "./dom.js";
import { events } from "./events.js";
import { fixity } from "./fixity.js";
import { library } from "./library.js";
import { visible } from "./names.js";
import { objects } from "./objects.js";
import { platters } from "./platters.js";
import { restores } from "./restores.js";

/**
 * Loads a view and returns its content.
 *
 * @typedef {(path: string[], parameters: URLSearchParams, signal: AbortSignal) => Promise<View>} Load
 * @typedef {{ title: string, content: HTMLElement[] }} View
 */

/** @type {Record<string, { load: Load, refresh_ms: number }>} */
const VIEWS = {
  fixity: { load: fixity, refresh_ms: 5_000 },
  objects: { load: objects, refresh_ms: 10_000 },
  restores: { load: restores, refresh_ms: 2_000 },
  // It refreshes itself.
  library: { load: library, refresh_ms: 0 },
  platters: { load: platters, refresh_ms: 10_000 },
  activity: { load: activity, refresh_ms: 10_000 },
  events: { load: events, refresh_ms: 5_000 },
};

const view = /** @type {HTMLElement} */ (document.getElementById("view"));
const notice = /** @type {HTMLElement} */ (document.getElementById("notice"));
const nav = /** @type {HTMLElement} */ (document.getElementById("nav"));

const skip = /** @type {HTMLElement} */ (document.getElementById("skip"));
/** When a view that is still loading says so. */
const LOADING_MS = 500;

/** Aborts what belongs to the view that was shown before. */
let current = new AbortController();

/** The view's name, the decoded rest of its path, and its parameters. */
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = (path ?? "").split("/").map(decode);
  return { name: name !== undefined && Object.hasOwn(VIEWS, name) ? name : "fixity", rest, parameters: new URLSearchParams(query ?? "") };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Takes the token out of the link that the server printed, and out of the address. */
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null && setToken(token)) {
    history.replaceState(null, "", "#/fixity");
  }
}

/** @param {string} [failure] */
function login(failure) {
  nav.hidden = true;
  notice.textContent = "";
  const input = h("input", { id: "token", type: "password", name: "password", autocomplete: "current-password", required: "" });
  const form = h(
    "form",
    { class: "login" },
    h("h1", {}, "Token"),
    h("p", { class: "quiet" }, "fulgurite serve prints a link with it when it starts. A token of your own goes into service.toml, as dashboard.token."),
    h("label", { for: "token" }, "Token"),
    input,
    failure !== undefined && h("p", { class: "bad", role: "alert" }, failure),
    h("button", {}, "Open"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (setToken(input.value)) {
      void show(true);
    } else {
      login("This token is wrong.");
    }
  });
  document.title = "Fulgurite";
  view.replaceChildren(form);
  input.focus();
}

/** Whether replacing the view would take away what a person is doing in it. */
function isInUse() {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.anchorNode !== null && view.contains(selection.anchorNode);
}

/**
 * Replaces the view. A link with focus keeps it if the new view has the same link.
 *
 * @param {View} loaded
 */
function replace(loaded) {
  const focused = document.activeElement?.getAttribute("href") ?? null;
  const scrolled = [...view.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  view.replaceChildren(...loaded.content);
  document.title = `${visible(loaded.title)} – Fulgurite`;
  view.querySelectorAll(".scroll").forEach((box, index) => (box.scrollLeft = scrolled[index] ?? 0));
  if (focused === null) return;
  const same = [...view.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused);
  same?.focus({ preventScroll: true });
}

/**
 * Shows the view of the address.
 *
 * @param {boolean} isNew Whether the address changed; else the view is loaded again.
 */
async function show(isNew) {
  current.abort();
  current = new AbortController();
  const { signal } = current;
  if (!hasToken()) {
    login();
    return;
  }
  const { name, rest, parameters } = address();
  const { load, refresh_ms } = /** @type {typeof VIEWS[string]} */ (VIEWS[name]);
  for (const link of nav.querySelectorAll("a")) {
    link.getAttribute("href") === `#/${name}` ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const loading = setTimeout(() => {
    if (isNew && !signal.aborted) notice.textContent = "Loading …";
  }, LOADING_MS);
  try {
    const loaded = await load(rest, parameters, signal);
    if (signal.aborted) return;
    nav.hidden = false;
    const keeps = !isNew && isInUse();
    notice.textContent = keeps ? "Not up to date: the page waits while text in it is selected." : "";
    if (!keeps) replace(loaded);
    if (isNew) {
      scrollTo(0, 0);
      view.focus({ preventScroll: true });
    }
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ApiError && error.status === 401) {
      forgetToken();
      login("This token is wrong.");
      return;
    }
    nav.hidden = false;
    const message = visible(error instanceof Error ? error.message : String(error));
    // What was shown before may be out of date.
    notice.textContent = isNew ? "" : `Not up to date: ${message}`;
    if (isNew) replace({ title: "Error", content: [h("h1", {}, "This can't be shown"), h("p", { class: "bad" }, message)] });
  } finally {
    clearTimeout(loading);
  }
  if (refresh_ms > 0) schedule(refresh_ms, signal);
}

/**
 * Loads the view again after some time, unless another is shown by then. A page that isn't visible
 * waits until it is.
 *
 * @param {number} ms
 * @param {AbortSignal} signal
 */
function schedule(ms, signal) {
  setTimeout(() => {
    if (signal.aborted) return;
    if (document.visibilityState === "visible") {
      void show(false);
    } else {
      document.addEventListener("visibilitychange", () => void (signal.aborted || show(false)), { once: true });
    }
  }, ms);
}

// It is no address of a view.
skip.addEventListener("click", (event) => {
  event.preventDefault();
  view.focus();
});
addEventListener("hashchange", () => {
  takeToken();
  void show(true);
});
takeToken();
void show(true);
