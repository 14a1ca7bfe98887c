// The machines and their slots; the projects and what they hold.
import { html, useEffect, useState } from "../vendor/vendor.js";
import { get, query, useAnswer, usePoll } from "./api.js";
import { ago, bytes, duration, number, percent } from "./format.js";
import { Bar, Empty, Problem, useNow } from "./parts.js";

const kMostPages = 10;
const kShown = 100;

async function readWorkers(signal) {
  const workers = [];
  let token = "";
  for (let page = 0; page < kMostPages; ++page) {
    const answer = await get(`workers${query({ page_token: token })}`, signal);
    workers.push(...answer.workers);
    token = answer.next_page_token;
    if (!token) break;
  }
  return { workers, more: token !== "" };
}

function Slots({ worker }) {
  const gpus = new Map((worker.use ? worker.use.gpus : []).map((g) => [g.slot, g]));
  const many = worker.slots.length > 32;
  return html`<span class="slots" role="img" aria-label=${`${worker.slots_used} of ${worker.slots.length} slots in use`}>
    ${!many && worker.slots.map((slot, i) => {
      const use = gpus.get(slot.index);
      return html`<i key=${slot.index} class=${i < worker.slots_used ? "used" : ""}
        title=${`slot ${slot.index}: ${slot.device}${use ? `, ${percent(use.utilization)}` : ""}`}></i>`;
    })} <span class="num">${worker.slots_used}/${worker.slots.length}</span></span>`;
}

function Worker({ worker, now }) {
  const use = worker.use || {};
  const devices = [...new Set(worker.slots.map((s) => s.device))].join(", ");
  const why = worker.quarantined_until_ms > now ? worker.quarantine_reason : worker.cordoned ? worker.cordon_reason : "";
  return html`<tr><th scope="row" class="name">${worker.name} <span class="dim">${worker.version}</span>
      ${why && html`<div class="why">${why}</div>`}
      ${worker.unseen_roots.map((r) => html`<div key=${r.path} class="why">does not see ${r.path}: ${r.message}</div>`)}</th>
    <td><span class=${`state w-${worker.state}`}><i aria-hidden="true"></i>${worker.state}</span></td>
    <td class="mid">${worker.pool}</td>
    <td><${Slots} worker=${worker} /></td>
    <td class="wide-only">${devices}</td>
    <td class="mid">${worker.cpus > 0 && html`<${Bar} part=${use.cpus / worker.cpus} label=${`CPU of ${worker.name}`} /> <span class="num">${number(use.cpus || 0, 2)}/${worker.cpus}</span>`}</td>
    <td class="mid">${Number(worker.memory_bytes) > 0 && html`<${Bar} part=${Number(use.memory_bytes) / Number(worker.memory_bytes)} label=${`Memory of ${worker.name}`} /> <span class="num">${bytes(worker.memory_bytes)}</span>`}</td>
    <td>${worker.job_ids.slice(0, 6).map((id) => html`<a key=${id} href=${`#/jobs/${id}`} class="num">${id}</a> `)}${worker.job_ids.length > 6 ? "…" : ""}</td>
    <td class="num">${ago(worker.last_heartbeat_ms, now)}</td></tr>`;
}

export function Workers({ onData }) {
  const { data, error } = usePoll(readWorkers, 3000, []);
  const [text, setText] = useState("");
  const [shown, setShown] = useState(kShown);
  const now = useNow(1000);
  useEffect(() => { if (data || error) onData(error); }, [data, error]);
  if (!data) return html`<${Problem} error=${error} /><${Empty}>Loading …<//>`;
  const wanted = text.toLowerCase();
  const found = data.workers.filter((w) => `${w.name} ${w.state} ${w.pool}`.toLowerCase().includes(wanted));
  const slots = found.reduce((n, w) => n + w.slots.length, 0);
  const used = found.reduce((n, w) => n + w.slots_used, 0);
  return html`<h1 class="unseen">Workers</h1>
    <div class="filters"><input id="search" type="search" placeholder="name, state or pool" aria-label="Find workers" value=${text} onInput=${(e) => setText(e.target.value)} />
      <span><b class="num">${number(found.length)}${data.more ? "+" : ""}</b> workers</span><span><b class="num">${number(used)}</b> of <b class="num">${number(slots)}</b> slots in use</span></div>
    <${Problem} error=${error} />
    ${found.length === 0 ? html`<${Empty}>${text ? "No worker fits." : "No workers yet."}<//>` : html`
    <table class="list" aria-label="Workers"><thead><tr><th scope="col">Worker</th><th scope="col">State</th><th scope="col" class="mid">Pool</th><th scope="col">Slots</th><th scope="col" class="wide-only">Device</th>
      <th scope="col" class="mid">CPU</th><th scope="col" class="mid">Memory</th><th scope="col">Jobs</th><th scope="col" class="num">Seen</th></tr></thead>
      <tbody>${found.slice(0, shown).map((w) => html`<${Worker} key=${w.name} worker=${w} now=${now} />`)}</tbody></table>`}
    ${found.length > shown && html`<button class="more" onClick=${() => setShown(shown + kShown)}>${number(found.length - shown)} more</button>`}`;
}

export function Projects({ onData }) {
  const { data, error } = useAnswer("projects", 5000);
  useEffect(() => { if (data || error) onData(error); }, [data, error]);
  if (!data) return html`<${Problem} error=${error} /><${Empty}>Loading …<//>`;
  const bound = (used, most) => (most === undefined ? number(used) : `${number(used)} / ${number(most)}`);
  return html`<h1 class="unseen">Projects</h1><${Problem} error=${error} />
    ${data.projects.length === 0 ? html`<${Empty}>No project has used anything yet.<//>` : html`
    <table class="list" aria-label="Projects"><thead><tr><th scope="col">Project</th><th scope="col" class="num">Weight</th><th scope="col" class="num">Slots</th><th scope="col" class="num">Queued</th><th scope="col" class="num">Used <span class="mid-inline">slot time</span></th></tr></thead>
      <tbody>${data.projects.map((p) => html`<tr key=${p.name}><th scope="row" class="name"><a class="row-link" href=${`#/jobs?project=${p.name}`}>${p.name}</a></th><td class="num">${number(p.weight)}</td>
        <td class="num">${bound(p.slots, p.quota && p.quota.slots)}</td><td class="num">${bound(p.queued, p.quota && p.quota.queued)}</td><td class="num">${duration(p.used_slot_seconds) || "0s"}</td></tr>`)}</tbody></table>`}`;
}
