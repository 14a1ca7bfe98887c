// Small parts that every view is made of.
import { html, useEffect, useRef, useState } from "../vendor/vendor.js";
import { donePart, number, percent, words } from "./format.js";

export const State = ({ state, held }) => html`
  <span class=${`state s-${state}`}><i aria-hidden="true"></i>${words(state)}${held ? " (held)" : ""}</span>`;

export function Progress({ job, wide }) {
  const part = donePart(job);
  const steps = Number(job.total_steps) > 0
    ? `${number(job.step)} / ${number(job.total_steps)}`
    : Number(job.step) > 0 ? `step ${number(job.step)}` : "";
  return html`<span class=${wide ? "progress wide" : "progress"}>
    ${part !== undefined && html`<progress class=${`s-${job.state}`} max="1" value=${part}
      aria-label=${`steps of job ${job.id}`}>${percent(part)}</progress>`}
    <span class="num">${steps}</span></span>`;
}

export const Bar = ({ part, label, className }) => html`
  <progress class=${`meter ${className || ""}`} max="1" value=${Math.max(0, Math.min(1, part || 0))}
    aria-label=${label}>${percent(part)}</progress>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

export const Locked = ({ what, askToken }) => html`<p class="empty">Log in to see ${what.toLowerCase()}.
  <button onClick=${askToken}>Log in</button></p>`;

export function Problem({ error }) {
  if (!error) return null;
  return html`<p class="problem" role="alert">${error.message}</p>`;
}

// A dialog of the browser's own, which keeps the focus inside and gives it back.
export function Dialog({ title, onClose, children }) {
  const ref = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before && before.focus && before.focus();
  }, []);
  return html`<dialog ref=${ref} aria-labelledby="dialog-title" onClose=${onClose}
      onClick=${(e) => e.target === ref.current && ref.current.close()}>
    <div class="dialog">
      <header><h2 id="dialog-title">${title}</h2>
        <button class="plain" aria-label="Close" onClick=${() => ref.current.close()}>✕</button></header>
      ${children}
    </div></dialog>`;
}

// Now, moving on each `ms` while somebody looks.
export function useNow(ms = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && setNow(Date.now()), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}

// What a screen reader is told.
let speak = () => {};
export const announce = (text) => speak(text);
export function Announcer() {
  const [text, setText] = useState("");
  useEffect(() => {
    speak = setText;
    return () => { speak = () => {}; };
  }, []);
  return html`<div class="unseen" role="status" aria-live="polite" id="announcer">${text}</div>`;
}
