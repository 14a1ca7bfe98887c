// Questions and changes at /api/v1/. A question that is repeated costs little: what has not changed
// is not sent again. Nothing is asked while nobody looks.
import { useEffect, useRef, useState } from "../vendor/vendor.js";

const kBase = "/api/v1/";

// ---- the token: in this tab only, until it is closed ----

const listeners = new Set();
export const session = {
  get token() { return sessionStorage.getItem("muster-token") || ""; },
  get user() { return sessionStorage.getItem("muster-user") || ""; },
  set(token, user) {
    if (token) sessionStorage.setItem("muster-token", token);
    else sessionStorage.removeItem("muster-token");
    sessionStorage.setItem("muster-user", user || "");
    for (const listener of listeners) listener();
  },
};
export function useSession() {
  const [, setCount] = useState(0);
  useEffect(() => {
    const listener = () => setCount((n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return session;
}

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;  // of HTTP; 0: nobody answered
    this.code = code;
  }
}

const kTimeoutMs = 25000;

async function call(path, init = {}, token = session.token) {
  const headers = { ...(init.headers || {}) };
  if (token) headers.Authorization = `Bearer ${token}`;
  const timeout = AbortSignal.timeout(kTimeoutMs);
  const signal = init.signal && AbortSignal.any ? AbortSignal.any([init.signal, timeout]) : timeout;
  let response;
  try {
    response = await fetch(kBase + path, { ...init, headers, signal, cache: "no-store" });
  } catch (error) {
    if (init.signal && init.signal.aborted) throw error;
    throw new ApiError(0, "UNAVAILABLE", "musterd does not answer");
  }
  if (response.status === 304) return { unchanged: true };
  let body = null;
  try { body = await response.json(); } catch { /* an answer that is no JSON is judged by its status */ }
  if (!response.ok) {
    const error = (body && body.error) || {};
    throw new ApiError(response.status, error.code || "", error.message || `HTTP ${response.status}`);
  }
  return { body, tag: response.headers.get("ETag") };
}

export const get = async (path, signal) => (await call(path, { signal })).body;
export const whoIs = async (token) => (await call("whoami", {}, token)).body;
export const post = async (path, body) =>
  (await call(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  })).body;

export function query(fields) {
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== "" && one !== null && one !== false) parts.append(key, one);
    }
  }
  const text = parts.toString();
  return text ? `?${text}` : "";
}

// ---- polling ----

const kSlowestMs = 15000;

// Runs `ask(signal)` now and each `everyMs` after it ended (0: once), later after errors, not while
// the tab is hidden, and again at once when anything of `parts` changes. `ask` returns nothing where
// nothing has changed.
export function usePoll(ask, everyMs, parts) {
  const [state, setState] = useState({ data: null, error: null, at: 0 });
  const [round, setRound] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  const { token } = useSession();
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let failures = 0;
    const run = async () => {
      if (document.hidden) return;
      try {
        const data = await latest.current(abort.signal);
        failures = 0;
        if (abort.signal.aborted) return;
        setState((old) => ({ data: data === undefined ? old.data : data, error: null, at: Date.now() }));
      } catch (error) {
        if (abort.signal.aborted) return;
        ++failures;
        setState((old) => ({ ...old, error }));
      }
      if (everyMs > 0 || failures > 0) {
        timer = setTimeout(run, Math.min(kSlowestMs, Math.max(everyMs, 1000) * 2 ** Math.min(failures, 4)));
      }
    };
    const onSeen = () => {
      if (document.hidden) return;
      clearTimeout(timer);
      run();
    };
    run();
    document.addEventListener("visibilitychange", onSeen);
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onSeen);
    };
  }, [...parts, everyMs, round, token]);
  return { ...state, again: () => setRound((n) => n + 1) };
}

// The JSON at `path`, kept up to date.
export function useAnswer(path, everyMs) {
  const tag = useRef({ path: "", tag: "" });
  const state = usePoll(async (signal) => {
    const known = tag.current.path === path ? tag.current.tag : "";
    const answer = await call(path, { signal, headers: known ? { "If-None-Match": known } : {} });
    if (answer.unchanged) return undefined;
    tag.current = { path, tag: answer.tag || "" };
    return { path, body: answer.body };
  }, everyMs, [path]);
  const isCurrent = state.data && state.data.path === path;
  return { ...state, data: isCurrent ? state.data.body : null, stale: state.data && state.data.body };
}
