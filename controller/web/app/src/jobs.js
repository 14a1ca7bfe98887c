// The list of jobs in memory: filters, order and pages, all in the address, so that a view can be kept and sent.
import { html, useEffect, useRef, useState } from "../vendor/vendor.js";
import { query, useAnswer } from "./api.js";
import { ago, number, words } from "./format.js";
import { OlderJobs } from "./older_jobs.js";
import { announce, Empty, Problem, Progress, State, useNow } from "./parts.js";

const kPage = 50;
// States whose reason is worth a line.
const kTelling = new Set(["PENDING", "RECOVERING", "STOPPING", "FAILED"]);
const kStates = ["PENDING", "STARTING", "RUNNING", "RECOVERING", "STOPPING", "SUSPENDED", "SUCCEEDED",
  "FAILED", "CANCELLED"];
// What a column is called, what orders by it, and the class that hides it where there is no room.
const kColumns = [
  ["Job", "NAME", ""], ["State", "STATE", ""], ["Progress", "PROGRESS", ""],
  ["Loss", null, "num mid"], ["Accuracy", null, "num wide-only"], ["Samples/s", null, "num wide-only"],
  ["Restarts", "RESTARTS", "num mid"], ["Project", "PROJECT", "mid"], ["Prio", "PRIORITY", "num wide-only"],
  ["Age", "ID", "num"],
];

function Heading({ column, filter, change }) {
  const [title, order, className] = column;
  if (!order) return html`<th scope="col" class=${className}>${title}</th>`;
  const isOrder = filter.order === order;
  // The newest job has the least age.
  const rises = order === "ID" ? !filter.ascending : filter.ascending;
  const sort = isOrder ? (rises ? "ascending" : "descending") : "none";
  const flip = () => change({
    order, ascending: isOrder ? !filter.ascending : order === "NAME" || order === "PROJECT" || order === "STATE",
  });
  return html`<th scope="col" class=${className} aria-sort=${sort}>
    <button class="sort" onClick=${flip}>${title}<span aria-hidden="true">${isOrder ? (rises ? " ↑" : " ↓") : ""}</span></button></th>`;
}

function Row({ job, now }) {
  const end = Number(job.finished_ms) || now;
  return html`<tr>
    <th scope="row" class="name"><a class="row-link" href=${`#/jobs/${job.id}`}>${job.name}</a>
      <span class="dim"> ${job.id}${Number(job.array_id) > 0 ? ` · task ${job.array_index}` : ""}</span>
      ${job.message && !job.held && kTelling.has(job.state) && html`<div class="why">${job.message}</div>`}</th>
    <td><${State} state=${job.state} held=${job.held} /></td>
    <td><${Progress} job=${job} /></td>
    <td class="num mid">${number(job.loss)}</td>
    <td class="num wide-only">${number(job.validation_accuracy)}</td>
    <td class="num wide-only">${number(job.samples_per_second)}</td>
    <td class="num mid">${job.restarts > 0 ? job.restarts : html`<span class="dim">0</span>`}</td>
    <td class="mid">${job.project}${job.owner && html`<span class="dim"> ${job.owner}</span>`}</td>
    <td class="num wide-only">${job.priority}</td>
    <td class="num" title=${new Date(Number(job.submitted_ms)).toLocaleString()}>${ago(job.submitted_ms, Math.max(now, end))}</td>
  </tr>`;
}

function Filters({ filter, change, data }) {
  const [text, setText] = useState(filter.text || "");
  const timer = useRef(0);
  useEffect(() => setText(filter.text || ""), [filter.text]);
  const counts = new Map((data ? data.counts : []).map((c) => [c.state, c.jobs]));
  const all = [...counts.values()].reduce((a, b) => a + b, 0);
  const chosen = new Set(filter.states);
  const toggle = (state) => {
    if (!chosen.delete(state)) chosen.add(state);
    change({ states: [...chosen] });
  };
  const onText = (value) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => change({ text: value }), 200);
  };
  return html`<div class="filters">
    <div class="chips" role="group" aria-label="States">
      <button class="chip" aria-pressed=${chosen.size === 0} onClick=${() => change({ states: [] })}>all <b>${number(all)}</b></button>
      ${kStates.filter((s) => counts.get(s) || chosen.has(s)).map((s) => html`
        <button key=${s} class=${`chip s-${s}`} aria-pressed=${chosen.has(s)} onClick=${() => toggle(s)}>
          <i aria-hidden="true"></i>${words(s)} <b>${number(counts.get(s) || 0)}</b></button>`)}
    </div>
    ${data && Number(data.archived) > 0 && html`<a class="chip" id="archived" href=${olderJobs(filter)}>archived jobs <b>${number(data.archived)}</b></a>`}
    <input id="search" type="search" placeholder="name, owner, message or id" aria-label="Find jobs"
      value=${text} onInput=${(e) => onText(e.target.value)} />
    ${data && data.projects.length > 1 && html`
      <select aria-label="Project" value=${filter.project || ""} onChange=${(e) => change({ project: e.target.value })}>
        <option value="">all projects</option>
        ${data.projects.map((p) => html`<option key=${p} value=${p}>${p}</option>`)}
      </select>`}
  </div>`;
}

function filterOf(params) {
  return {
    states: params.getAll("states"), text: params.get("text") || "", project: params.get("project") || "",
    order: params.get("order") || "ID", ascending: params.get("ascending") === "true",
    offset: Number(params.get("offset")) || 0,
  };
}

// Where the archived jobs of a project are.
const olderJobs = (filter) => `#/jobs${query({ archived: true, project: filter.project })}`;

export const Jobs = ({ params, onData }) =>
  (params.get("archived") ? html`<${OlderJobs} params=${params} onData=${onData} />`
    : html`<${RecentJobs} params=${params} onData=${onData} />`);

function RecentJobs({ params, onData }) {
  const filter = filterOf(params);
  const path = `jobs${query({ ...filter, page_size: kPage })}`;
  const { data, stale, error } = useAnswer(path, 2000);
  const shown = data || stale;
  const now = useNow(5000);
  const change = (what) => {
    const next = { ...filter, offset: 0, ...what };
    const kept = query({ ...next, order: next.order === "ID" ? "" : next.order, offset: next.offset || "" });
    history.replaceState(null, "", `#/jobs${kept}`);
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const found = data && `${data.matching} jobs found`;
  useEffect(() => { if (found && (filter.text || filter.states.length)) announce(found); }, [found]);
  useEffect(() => { if (error || data) onData(error); }, [error, data]);
  if (!shown) return html`<${Problem} error=${error} /><${Empty}>Loading …<//>`;
  const last = Math.min(filter.offset + shown.jobs.length, shown.matching);
  return html`
    <h1 class="unseen">Jobs</h1>
    <${Filters} filter=${filter} change=${change} data=${shown} />
    <${Problem} error=${error} />
    ${shown.jobs.length === 0 ? html`<${Empty}>${filter.text || filter.states.length || filter.project
        ? html`No job in memory fits these filters.${filter.text && Number(shown.archived) > 0 && html` <a href=${`#/jobs/${encodeURIComponent(filter.text)}`}>Look for an archived one of this id or name</a>`}` : html`No jobs yet. Submit one: <code>muster submit -f job.yaml</code>`}<//>`
      : html`<table class="list jobs" aria-label="Jobs"><thead><tr>${kColumns.map((c) => html`
          <${Heading} key=${c[0]} column=${c} filter=${filter} change=${change} />`)}</tr></thead>
        <tbody>${shown.jobs.map((job) => html`<${Row} key=${job.id} job=${job} now=${now} />`)}</tbody></table>`}
    <nav class="pages" aria-label="Pages" data-term=${shown.term}>
      <button disabled=${filter.offset === 0} onClick=${() => change({ offset: Math.max(0, filter.offset - kPage) })}>Previous</button>
      <span>${shown.matching > 0 ? `${number(filter.offset + 1)}–${number(last)} of ${number(shown.matching)}` : "0"}</span>
      <button disabled=${last >= shown.matching} onClick=${() => change({ offset: filter.offset + kPage })}>Next</button>
      ${Number(shown.archived) > 0 && last >= shown.matching && html`<a href=${olderJobs(filter)}>Older jobs: ${number(shown.archived)} are archived</a>`}
    </nav>`;
}
