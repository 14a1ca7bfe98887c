// What became of a job's time: its attempts one below the other on one axis, and its ledger.
import { html } from "../../vendor/vendor.js";
import { useAnswer } from "../api.js";
import { clock, duration, hasEnded, number, percent, words } from "../format.js";
import { Empty, useNow } from "../parts.js";

const kLabels = ["productive", "start", "rendezvous", "load", "save_stall", "recompute", "hang", "idle", "drain"];

const secondsOf = (time) => (time ? Number(time.seconds) + Number(time.nanos) / 1e9 : 0);

export function Ledger({ job, isLive }) {
  const { data } = useAnswer(`jobs/${job}/ledger`, isLive ? 3000 : 0);
  const ledger = data && data.total;
  const held = ledger ? secondsOf(ledger.held) : 0;
  if (!(held > 0)) return null;
  const parts = kLabels.map((name) => [name, secondsOf(ledger[name])]).filter(([, s]) => s > 0);
  return html`<section aria-labelledby="ledger-title">
    <h2 id="ledger-title">Slot time <span class="dim">${duration(held)} held · ${duration(Number(ledger.queue_seconds)) || "0s"} queued</span></h2>
    <svg class="ledger" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">${(() => {
      let x = 0;
      return parts.map(([name, s]) => {
        const width = (1000 * s) / held;
        const bar = html`<rect key=${name} class=${`l-${name}`} x=${x} y="0" width=${width} height="10" />`;
        x += width;
        return bar;
      });
    })()}</svg>
    <ul class="legend">${parts.map(([name, s]) => html`<li key=${name}><i class=${`l-${name}`} aria-hidden="true"></i>${words(name)}
      <b class="num">${duration(s)}</b> <span class="dim">${percent(s / held)}</span></li>`)}</ul></section>`;
}

// What an attempt came to, in the words of a state.
function endOf(attempt, job, isLast) {
  if (Number(attempt.ended_ms) === 0) return ["RUNNING", words(job.state)];
  if (words(attempt.failure_class)) return ["FAILED", words(attempt.failure_class)];
  if (isLast && hasEnded(job.state)) return [job.state, words(job.state)];
  return ["SUSPENDED", "stopped"];
}

function Attempt({ attempt, job, isLast, from, span, now }) {
  const began = Number(attempt.started_ms);
  const ended = Number(attempt.ended_ms) || now;
  const [look, text] = endOf(attempt, job, isLast);
  const x = (1000 * (began - from)) / span;
  const width = Math.max(3, (1000 * (ended - began)) / span);
  const workers = [...new Set(attempt.ranks.map((r) => r.worker))];
  return html`<li data-attempt=${attempt.number}>
    <div class="attempt-head"><b>Attempt ${attempt.number}</b>
      <span class=${`state s-${look}`}><i aria-hidden="true"></i>${text}</span>
      <span class="num">${duration((ended - began) / 1000)}</span>
      <span class="num">steps ${number(attempt.first_step)}–${number(attempt.last_step)}</span>
      ${Number(attempt.steps_lost) > 0 && html`<span class="lost num">${number(attempt.steps_lost)} lost</span>`}
      <span class="dim">${attempt.ranks.length} ${attempt.ranks.length === 1 ? "rank" : "ranks"} on ${workers.slice(0, 4).join(", ")}${workers.length > 4 ? ` and ${workers.length - 4} more` : ""}</span></div>
    <svg class="gantt" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="rail" x="0" y="4.5" width="1000" height="1" /><rect class=${`bar s-${look}`} x=${Math.min(x, 997)} y="0" width=${Math.min(width, 1000 - Math.min(x, 997))} height="10" rx="2" /></svg>
    ${attempt.cause && html`<div class="why">${attempt.cause}</div>`}</li>`;
}

export function Attempts({ job, attempts }) {
  const now = useNow(hasEnded(job.state) ? 60000 : 1000);
  if (attempts.length === 0) return html`<${Empty}>It has not run yet.<//>`;
  const from = Number(job.submitted_ms);
  const end = Number(job.finished_ms) || now;
  const span = Math.max(1000, end - from);
  return html`<ol class="attempts" reversed>${[...attempts].reverse().map((a, i) => html`
      <${Attempt} key=${a.number} attempt=${a} job=${job} isLast=${i === 0} from=${from} span=${span} now=${end} />`)}</ol>
    <div class="axis dim"><span>${clock(from)}</span><span>${duration(span / 1000)}</span><span>${Number(job.finished_ms) ? clock(end) : "now"}</span></div>`;
}
