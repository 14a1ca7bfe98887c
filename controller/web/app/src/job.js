// One job: where it stands, its curves and its time; why it waits; checkpoints, logs, events, spec.
import { html, useEffect, useRef, useState } from "../vendor/vendor.js";
import { useAnswer } from "./api.js";
import { Changes } from "./changes.js";
import { bytes, clock, duration, hasEnded, number, percent, secondsLeft, words } from "./format.js";
import { Checkpoints } from "./job/checkpoints.js";
import { Curves } from "./job/curves.js";
import { Logs } from "./job/logs.js";
import { Attempts, Ledger } from "./job/timeline.js";
import { announce, Empty, Locked, Problem, Progress, State, useNow } from "./parts.js";

export const kTabs = ["overview", "logs", "checkpoints", "events", "spec"];
const kPaceSamples = 60;

const JobLink = ({ id, name }) => html`<a href=${`#/jobs/${id}`}>${name || "job"} <span class="dim">${id}</span></a>`;

function Explain({ job }) {
  const { data, error } = useAnswer(`jobs/${job.id}/explain`, 5000);
  if (!data) return html`<${Problem} error=${error} />`;
  const outlook = data.outlook;
  const start = Number(outlook.start_ms);
  return html`<section class="explain" aria-labelledby="explain-title">
    <h2 id="explain-title">Why it waits</h2>
    <p><b>${outlook.reason || job.message}</b></p>
    <p>${start > 0 ? html`It could start at <b>${clock(start)}</b>${start > Date.now() ? `, in ${duration((start - Date.now()) / 1000)}` : ", now"}, if nothing new comes and nothing fails.`
      : outlook.why_unknown ? `When it could start is not known: ${outlook.why_unknown}` : ""}
      ${outlook.run_seconds > 0 && ` It would run for about ${duration(outlook.run_seconds)}.`}</p>
    ${outlook.blockers.length > 0 && html`<table class="list"><thead><tr><th scope="col">In the way</th><th scope="col">Needed</th><th scope="col">There is</th></tr></thead>
      <tbody>${outlook.blockers.map((b, i) => html`<tr key=${i} class=${b.is_hint ? "hint" : ""}><th scope="row">${b.message || words(b.kind)}
        ${b.pool && html`<span class="dim"> pool ${b.pool}</span>`}</th><td>${b.needed}</td><td>${b.available}</td></tr>`)}</tbody></table>`}
    ${outlook.ahead.length > 0 && html`<p>${number(outlook.ahead_count)} ${Number(outlook.ahead_count) === 1 ? "job comes" : "jobs come"} first:
      ${outlook.ahead.slice(0, 8).map((a) => html` <${JobLink} key=${a.id} id=${a.id} name=${a.name} />`)}${Number(outlook.ahead_count) > 8 ? " …" : ""}</p>`}
    </section>`;
}

const Figure = ({ title, value, note }) =>
  value === "" || value === undefined ? null
    : html`<div class="figure"><dt>${title}</dt><dd><b class="num">${value}</b>${note && html`<span class="dim"> ${note}</span>`}</dd></div>`;

function Figures({ job, left }) {
  const best = job.best_validation_accuracy;
  return html`<dl class="figures">
    <${Figure} title="Time left" value=${left === undefined ? "" : duration(left)} />
    <${Figure} title="Loss" value=${number(job.loss)} />
    <${Figure} title="Val. loss" value=${number(job.validation_loss)} />
    <${Figure} title="Val. accuracy" value=${number(job.validation_accuracy)} note=${best !== undefined && best !== job.validation_accuracy ? `best ${number(best)}` : ""} />
    <${Figure} title="Samples/s" value=${number(job.samples_per_second)} />
    <${Figure} title="Epoch" value=${job.epoch > 0 ? number(job.epoch, 3) : ""} />
    <${Figure} title="Goodput" value=${percent(job.goodput)} />
    <${Figure} title="Memory" value=${bytes(job.memory_bytes)} note=${job.memory_peak_bytes ? `peak ${bytes(job.memory_peak_bytes)}` : ""} />
    <${Figure} title="Ranks" value=${job.ranks} note=${job.workers.length > 0 ? `on ${job.workers.slice(0, 3).join(", ")}${job.workers.length > 3 ? " …" : ""}` : ""} />
    <${Figure} title="Attempt" value=${job.attempt || ""} note=${job.restarts > 0 ? `${job.restarts} ${job.restarts === 1 ? "restart" : "restarts"}` : ""} />
  </dl>`;
}

function Overview({ data, theme }) {
  const job = data.summary;
  const isLive = !hasEnded(job.state);
  return html`
    ${["PENDING", "SUSPENDED"].includes(job.state) && html`<${Explain} job=${job} />`}
    <div class="overview">
      <section aria-labelledby="curves-title"><h2 id="curves-title">Curves</h2>
        <${Curves} job=${job.id} attempt=${job.attempt} isLive=${isLive} theme=${theme} /></section>
      <div><section aria-labelledby="attempts-title"><h2 id="attempts-title">Attempts</h2>
          <${Attempts} job=${job} attempts=${data.attempts} /></section>
        <${Ledger} job=${job.id} isLive=${isLive} /></div></div>`;
}

function Events({ data }) {
  const events = [...data.events].reverse();
  return html`<table class="list" aria-label="Events, newest first"><thead><tr><th scope="col">Time</th><th scope="col">State</th><th scope="col" class="mid">Reason</th><th scope="col" class="mid">By</th><th scope="col">What happened</th></tr></thead>
    <tbody>${events.map((e) => html`<tr key=${e.sequence}><td class="num when">${clock(e.time_ms)}</td><td><${State} state=${e.to} /></td>
      <td class="mid">${words(e.reason)}</td><td class="mid">${e.actor}</td><td>${e.message}${e.attempt > 0 && html`<span class="dim"> attempt ${e.attempt}</span>`}</td></tr>`)}</tbody></table>
    ${data.shortened && html`<p class="dim">Older ones: <code>muster events ${data.summary.id}</code></p>`}`;
}

// What is not set says nothing.
function Spec({ data, askToken }) {
  if (!data.spec) return html`<${Locked} what="Specs" askToken=${askToken} />`;
  const text = JSON.stringify(data.written_spec || data.spec, (key, value) =>
    value === "" || value === null || value === false || value === 0 || value === "0" || (Array.isArray(value) && value.length === 0)
    || (value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0) || (typeof value === "string" && value.endsWith("_UNSPECIFIED"))
      ? undefined : value, 2);
  return html`<p class="dim">What the job file sets; <code>muster show ${data.summary.id} --resolved</code> has it as YAML with all defaults.</p>
    <pre class="spec" tabindex="0" aria-label="Spec">${text}</pre>`;
}

export function Job({ id, tab, theme, user, askToken, onData }) {
  const [isOver, setIsOver] = useState(false);
  const { data, error, again } = useAnswer(`jobs/${encodeURIComponent(id)}`, isOver ? 10000 : 2000);
  const pace = useRef({ attempt: -1, samples: [] });
  const job = data && data.summary;
  const state = job && job.state;
  const before = useRef("");
  useEffect(() => { if (data || error) onData(error && error.status !== 404 ? error : null); }, [data, error]);
  useEffect(() => {
    if (!state) return;
    if (before.current && before.current !== state) announce(`${job.name} is ${words(state)}`);
    before.current = state;
    setIsOver(hasEnded(state));
    document.title = `${words(state)} · ${job.name} · Muster`;
  }, [state]);
  if (!job) {
    return error && error.status === 404
      ? html`<${Empty}>${error.message}. <a href="#/jobs">All jobs</a><//>`
      : html`<${Problem} error=${error} /><${Empty}>Loading …<//>`;
  }
  if (pace.current.attempt !== job.attempt) pace.current = { attempt: job.attempt, samples: [] };
  const samples = pace.current.samples;
  const step = Number(job.step);
  if (step > 0 && (samples.length === 0 || samples[samples.length - 1][1] !== step)) {
    samples.push([Date.now(), step]);
    if (samples.length > kPaceSamples) samples.shift();
  }
  const isLive = !hasEnded(state);
  const base = `#/jobs/${job.id}`;
  return html`
    <div class="job-head">
      <div><nav aria-label="Place"><a href="#/jobs">Jobs</a> <span aria-hidden="true">/</span></nav>
        <h1>${job.name} <span class="dim num">${job.id}</span></h1>
        <p class="about"><${State} state=${state} held=${job.held} />${job.phase && state === "RUNNING" && html`<span class="dim">${job.phase}</span>`}
          <span class="dim">${job.project}${job.owner ? ` · ${job.owner}` : ""} · submitted ${clock(job.submitted_ms)}${Number(job.finished_ms) > 0 ? ` · ended ${clock(job.finished_ms)}` : ""}</span></p>
        ${job.message && !(state === "PENDING" && tab === "overview") && html`<p class="why">${job.message}</p>`}</div>
      <${Changes} job=${job} user=${user} onDone=${again} askToken=${askToken} />
    </div>
    <${Problem} error=${error} />
    <${Progress} job=${job} wide=${true} />
    <${Figures} job=${job} left=${secondsLeft(job, samples)} />
    <nav class="tabs" aria-label="Parts of this job">${kTabs.map((t) => html`
      <a key=${t} href=${t === "overview" ? base : `${base}/${t}`} aria-current=${tab === t ? "page" : undefined}>${t}</a>`)}</nav>
    ${tab === "overview" && html`<${Overview} data=${data} theme=${theme} />`}
    ${tab === "logs" && html`<${Logs} job=${job.id} ranks=${job.ranks} attempts=${data.attempts.map((a) => a.number)} isLive=${isLive} askToken=${askToken} />`}
    ${tab === "checkpoints" && html`<${Checkpoints} job=${job} user=${user} askToken=${askToken} />`}
    ${tab === "events" && html`<${Events} data=${data} />`}
    ${tab === "spec" && html`<${Spec} data=${data} askToken=${askToken} />`}`;
}
