// The jobs that have ended long ago and left musterd's memory (`muster history`), newest first, a page
// at a time. They are found by state, project and end alone; one of them by its id or name.
import { html, useEffect, useState } from "../vendor/vendor.js";
import { query, useAnswer } from "./api.js";
import { clock, duration, number, words } from "./format.js";
import { Empty, Problem, Progress, State } from "./parts.js";

const kPage = 50;
const kEnds = ["SUCCEEDED", "FAILED", "CANCELLED"];

function Row({ job }) {
  return html`<tr>
    <th scope="row" class="name"><a class="row-link" href=${`#/jobs/${job.id}`}>${job.name}</a>
      <span class="dim"> ${job.id}${Number(job.array_id) > 0 ? ` · task ${job.array_index}` : ""}</span>
      ${job.message && job.state === "FAILED" && html`<div class="why">${job.message}</div>`}</th>
    <td><${State} state=${job.state} /></td>
    <td class="mid"><${Progress} job=${job} /></td>
    <td class="num mid">${number(job.validation_accuracy)}</td>
    <td class="num mid">${job.restarts > 0 ? job.restarts : html`<span class="dim">0</span>`}</td>
    <td class="mid">${job.project}${job.owner && html`<span class="dim"> ${job.owner}</span>`}</td>
    <td class="num mid">${duration(Number(job.ran_ms) / 1000)}</td>
    <td class="num">${clock(job.finished_ms)}</td>
  </tr>`;
}

function Filters({ filter, change, projects }) {
  const toggle = (state) => change({
    states: filter.states.includes(state) ? filter.states.filter((s) => s !== state) : [...filter.states, state],
  });
  const open = (event) => {
    event.preventDefault();
    const wanted = event.target.elements.search.value.trim();
    if (wanted) location.hash = `#/jobs/${encodeURIComponent(wanted)}`;
  };
  return html`<div class="filters">
    <div class="chips" role="group" aria-label="States">
      ${kEnds.map((s) => html`<button key=${s} class=${`chip s-${s}`} aria-pressed=${filter.states.includes(s)} onClick=${() => toggle(s)}>
        <i aria-hidden="true"></i>${words(s)}</button>`)}
    </div>
    <form class="open" role="search" onSubmit=${open}>
      <input id="search" name="search" type="search" placeholder="id or name, then Enter" aria-label="Open a job by its id or name" /></form>
    <label>ended before <input type="date" name="before" value=${filter.before} onChange=${(e) => change({ before: e.target.value })} /></label>
    ${projects.length > 1 && html`
      <select aria-label="Project" value=${filter.project} onChange=${(e) => change({ project: e.target.value })}>
        <option value="">all projects</option>
        ${projects.map((p) => html`<option key=${p} value=${p}>${p}</option>`)}
      </select>`}
  </div>`;
}

const midnight = (date) => (date ? new Date(`${date}T00:00`).getTime() || "" : "");

export function OlderJobs({ params, onData }) {
  const filter = { states: params.getAll("states").filter((s) => kEnds.includes(s)), project: params.get("project") || "", before: params.get("before") || "" };
  const [tokens, setTokens] = useState([""]);  // of the pages from the newest to the one that is shown
  const token = tokens[tokens.length - 1];
  const { data, stale, error } = useAnswer(`history${query({
    archived_only: true, page_size: kPage, page_token: token, states: filter.states, project: filter.project, finished_before_ms: midnight(filter.before),
  })}`, 15000);
  const recent = useAnswer("jobs?page_size=1", 15000).data;
  const projects = useAnswer("projects", 0).data;
  useEffect(() => { if (error || data) onData(error); }, [error, data]);
  const change = (what) => {
    setTokens([""]);
    history.replaceState(null, "", `#/jobs${query({ archived: true, ...filter, ...what })}`);
    dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const shown = data || stale;
  if (!shown) return html`<${Problem} error=${error} /><${Empty}>Loading …<//>`;
  const next = shown.next_page_token;
  return html`
    <nav class="dim" aria-label="Place"><a href="#/jobs">Jobs</a> <span aria-hidden="true">/</span></nav>
    <h1 class="title">Archived jobs <span class="dim num">${recent ? number(recent.archived) : ""}</span></h1>
    <${Filters} filter=${filter} change=${change}
      projects=${projects ? projects.projects.map((p) => p.name) : []} />
    <${Problem} error=${error} />
    ${shown.jobs.length === 0 ? html`<${Empty}>${next ? "None among those that were looked at; the next page looks further back." : "No archived job fits these filters."}<//>`
      : html`<table class="list jobs" aria-label="Archived jobs, newest first"><thead><tr><th scope="col">Job</th><th scope="col">State</th><th scope="col" class="mid">Progress</th>
          <th scope="col" class="num mid">Accuracy</th><th scope="col" class="num mid">Restarts</th><th scope="col" class="mid">Project</th><th scope="col" class="num mid">Ran</th><th scope="col" class="num">Ended</th></tr></thead>
        <tbody>${shown.jobs.map((job) => html`<${Row} key=${job.id} job=${job} />`)}</tbody></table>`}
    <nav class="pages" aria-label="Pages">
      <button disabled=${tokens.length === 1} onClick=${() => setTokens(tokens.slice(0, -1))}>Previous</button>
      <span>page ${tokens.length}</span>
      <button disabled=${!next} onClick=${() => setTokens([...tokens, next])}>Next</button>
    </nav>`;
}
