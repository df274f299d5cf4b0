// Requests to the server, with the token. It is kept for this tab only, and never in a cookie: the
// browser sends cookies with requests of any page.

const TOKEN = "fulgurite-token";

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

/** @param {string} token */
export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

/**
 * The answer of one of the server's pages.
 *
 * @param {string} page
 * @param {Record<string, string>} [parameters]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function load(page, parameters = {}, signal) {
  const query = new URLSearchParams(parameters).toString();
  const url = `/-/dashboard/api/${page}${query === "" ? "" : `?${query}`}`;
  let response;
  let answer;
  try {
    const headers = { authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? ""}` };
    response = await fetch(url, { headers, signal: signal ?? null, cache: "no-store", credentials: "omit" });
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    const message = response === undefined ? "The server can't be reached." : `The server answered ${response.status} without JSON.`;
    throw new ApiError(response?.status ?? 0, message);
  }
  if (!response.ok) throw new ApiError(response.status, String(answer.error ?? response.status));
  return answer;
}
