// Requests to the server, with the token. It is kept for this tab only, and never in a cookie: the
// browser sends cookies with requests of any page.

const TOKEN = "fulgurite-token";
/** How long an answer may take. */
const PATIENCE_MS = 20_000;

/** The server's clock minus the browser's, by the last answer. */
let clock_ms = 0;

/** The server's time. Dates of the archive are compared with it, whatever the browser's clock says. */
export function now() {
  return Date.now() + clock_ms;
}

/** A request that failed. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if the server could not be reached.
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Keeps a token, or the one in a link.
 *
 * @param {string} given
 * @returns {boolean} False if it can't be a token.
 */
export function setToken(given) {
  const token = given.trim().replace(/^.*#token=/, "");
  // Headers carry nothing else.
  if (!/^[\x21-\x7e]+$/.test(token)) return false;
  sessionStorage.setItem(TOKEN, token);
  return true;
}

export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

function headers() {
  return { authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? ""}` };
}

/**
 * The answer of one of the server's pages.
 *
 * @param {string} page
 * @param {Record<string, string>} parameters
 * @param {AbortSignal} signal
 * @returns {Promise<any>}
 */
export async function load(page, parameters, signal) {
  const query = new URLSearchParams(parameters).toString();
  const url = `/-/dashboard/api/${page}${query === "" ? "" : `?${query}`}`;
  const timeout = AbortSignal.timeout(PATIENCE_MS);
  let response;
  let answer;
  try {
    response = await fetch(url, { headers: headers(), signal: AbortSignal.any([signal, timeout]), cache: "no-store", credentials: "omit" });
    answer = await response.json();
  } catch (error) {
    if (signal.aborted) throw error;
    const silent = `The server didn't answer within ${PATIENCE_MS / 1_000} seconds.`;
    const wrong = response === undefined ? "The server can't be reached." : `The server answered ${response.status} without JSON.`;
    const message = timeout.aborted ? silent : wrong;
    throw new ApiError(response?.status ?? 0, message);
  }
  const date = Date.parse(response.headers.get("date") ?? "");
  if (!Number.isNaN(date)) clock_ms = date - Date.now();
  if (!response.ok) throw new ApiError(response.status, String(answer.error ?? response.status));
  return answer;
}

/**
 * Events that the server sends, until it ends them. `EventSource` can't send the token.
 *
 * @param {string} page
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<{ name: string, data: any }, void>}
 */
export async function* events(page, signal) {
  let response;
  try {
    response = await fetch(`/-/dashboard/api/${page}`, { headers: headers(), signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiError(0, "The server can't be reached.");
  }
  if (!response.ok || response.body === null) {
    const answer = await response.json().catch(() => ({}));
    throw new ApiError(response.status, String(answer.error ?? response.status));
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    // What follows the last empty line is not complete yet.
    const complete = text.split("\n\n");
    text = complete.pop() ?? "";
    for (const event of complete) {
      const [name, data] = event.split("\n", 2);
      yield { name: (name ?? "").replace(/^event: /, ""), data: JSON.parse((data ?? "").replace(/^data: /, "")) };
    }
  }
}
