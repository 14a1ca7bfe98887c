// The machines and their slots; the projects and what they hold.
import { html, useEffect, useState } from "../vendor/vendor.js";
import { get, post, query, useAnswer, usePoll } from "./api.js";
import { asker, Confirm } from "./changes.js";
import { ago, bytes, clock, duration, number, percent } from "./format.js";
import { Bar, Empty, Problem, useNow } from "./parts.js";
import { whyNotDrain } from "./user.js";

const kMostPages = 10;
const kShown = 100;
const kShownRuns = 4;  // of slots; the rest is behind a word

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

// Slots that follow one another and are held by ranks of one attempt that do, too, as one.
function runsOf(holders) {
  const runs = [];
  for (const h of holders) {
    const run = runs[runs.length - 1];
    const n = run ? h.slot - run.slot : 0;
    if (run && n === run.count && h.job_id === run.job_id && h.attempt === run.attempt && h.rank === run.rank + n) ++run.count;
    else runs.push({ ...h, count: 1 });
  }
  return runs;
}

const span = (word, first, count) => (count === 1 ? `${word} ${first}` : `${word}s ${first}–${first + count - 1}`);

const Run = ({ run }) => html`<li><span class="dim">${span("slot", run.slot, run.count)}:</span> ${run.job_id === "0" ? "a job that you may not read"
  : html`<a class="row-link" href=${`#/jobs/${run.job_id}`}>${run.job_name || "job"} <span class="dim">${run.job_id}</span></a> ${span("rank", run.rank, run.count)}
    ${run.owner && html` <span class="dim">${run.owner}</span>`}`}</li>`;

function Holders({ worker }) {
  const runs = runsOf(worker.holders);
  if (runs.length === 0) return html`<span class="dim">free</span>`;
  const list = (some) => html`<ul class="holders">${some.map((run) => html`<${Run} key=${run.slot} run=${run} />`)}</ul>`;
  return html`${list(runs.slice(0, kShownRuns))}
    ${runs.length > kShownRuns && html`<details><summary>${runs.length - kShownRuns} more</summary>${list(runs.slice(kShownRuns))}</details>`}`;
}

// What a state means, and why it is so.
function stateNote(worker, now) {
  const until = Number(worker.quarantined_until_ms);
  if (worker.state === "lost") return `silent for ${ago(worker.last_heartbeat_ms, now)}${worker.slots_used > 0 ? "; its ranks may still run" : ""}`;
  if (worker.state === "suspect") return "has missed heartbeats";
  if (worker.state === "quarantined" || until > now) return `nothing new until ${clock(until)}: ${worker.quarantine_reason}`;
  if (worker.cordoned) return `${worker.state === "draining" ? "its jobs are leaving" : "takes no jobs"}: ${worker.cordon_reason || "no reason was given"}`;
  if (worker.quarantine_reason.startsWith("not quarantined")) return worker.quarantine_reason;
  return worker.state === "draining" ? "its machine goes away; its jobs are leaving" : "";
}

// Asks for a reason, and tells what becomes of the jobs there.
function Drain({ worker, onDone, onClose }) {
  const drains = !worker.cordoned;
  const send = (form) => post(`workers/${encodeURIComponent(worker.name)}/cordon`, {
    user: asker(), cordoned: drains, ...(drains ? { reason: String(form.get("reason")).trim(), let_finish: form.get("let_finish") !== null } : {}),
  });
  return html`<${Confirm} title=${`${drains ? "Drain" : "Undrain"} ${worker.name}?`} name=${drains ? "Drain" : "Undrain"} isDanger=${drains}
    effect=${drains ? "It gets nothing new. Jobs there save and go elsewhere, free of charge." : "It may take jobs again."} send=${send} onDone=${onDone} onClose=${onClose}>
    ${drains && html`<label class="field">Why, for others to see <input name="reason" id="reason" maxlength="256" autofocus autocomplete="off" /></label>
      <label><input type="checkbox" name="let_finish" /> let jobs there run to their end instead</label>`}<//>`;
}

function Slots({ worker }) {
  const held = new Set(worker.holders.map((h) => h.slot));
  const gpus = new Map((worker.use ? worker.use.gpus : []).map((g) => [g.slot, g]));
  const many = worker.slots.length > 32;
  return html`<span class="slots" role="img" aria-label=${`${worker.slots_used} of ${worker.slots.length} slots in use`}>
    ${!many && worker.slots.map((slot) => {
      const use = gpus.get(slot.index);
      return html`<i key=${slot.index} class=${held.has(slot.index) ? "used" : ""}
        title=${`slot ${slot.index}: ${slot.device}${use ? `, ${percent(use.utilization)}` : ""}`}></i>`;
    })} <span class="num">${worker.slots_used}/${worker.slots.length}</span></span>`;
}

function Worker({ worker, now, onDrain }) {
  const use = worker.use || {};
  const devices = [...new Set(worker.slots.map((s) => s.device))].join(", ");
  const note = stateNote(worker, now);
  return html`<tr data-worker=${worker.name}><th scope="row" class="name">${worker.name} <span class="dim">${worker.version}</span>
      ${worker.unseen_roots.map((r) => html`<div key=${r.path} class="why">does not see ${r.path}: ${r.message}</div>`)}</th>
    <td><span class=${`state w-${worker.state}`}><i aria-hidden="true"></i>${worker.state}</span>
      ${note && html`<div class="why">${note}</div>`}
      ${onDrain && html`<div class="actions small"><button data-verb=${worker.cordoned ? "UNDRAIN" : "DRAIN"}
        aria-label=${`${worker.cordoned ? "Undrain" : "Drain"} ${worker.name}`} onClick=${() => onDrain(worker)}>${worker.cordoned ? "Undrain" : "Drain"}</button></div>`}</td>
    <td class="mid">${worker.pool}</td>
    <td><${Slots} worker=${worker} /></td>
    <td class="wide-only">${devices}</td>
    <td class="mid">${worker.cpus > 0 && html`<${Bar} part=${use.cpus / worker.cpus} label=${`CPU of ${worker.name}`} /> <span class="num">${number(use.cpus || 0, 2)}/${worker.cpus}</span>`}</td>
    <td class="mid">${Number(worker.memory_bytes) > 0 && html`<${Bar} part=${Number(use.memory_bytes) / Number(worker.memory_bytes)} label=${`Memory of ${worker.name}`} /> <span class="num">${bytes(worker.memory_bytes)}</span>`}</td>
    <td><${Holders} worker=${worker} /></td>
    <td class="num mid">${ago(worker.last_heartbeat_ms, now)}</td></tr>`;
}

export function Workers({ user, askToken, onData }) {
  const { data, error, again } = usePoll(readWorkers, 3000, []);
  const [text, setText] = useState("");
  const [shown, setShown] = useState(kShown);
  const [draining, setDraining] = useState(null);
  const now = useNow(1000);
  useEffect(() => { if (data || error) onData(error); }, [data, error]);
  if (!data) return html`<${Problem} error=${error} /><${Empty}>Loading …<//>`;
  const whyNot = whyNotDrain(user);
  const onDrain = (worker) => (user.token ? setDraining(worker) : askToken());
  const wanted = text.toLowerCase();
  const found = data.workers.filter((w) => `${w.name} ${w.state} ${w.pool}`.toLowerCase().includes(wanted));
  const slots = found.reduce((n, w) => n + w.slots.length, 0);
  const used = found.reduce((n, w) => n + w.slots_used, 0);
  return html`<h1 class="unseen">Workers</h1>
    <div class="filters"><input id="search" type="search" placeholder="name, state or pool" aria-label="Find workers" value=${text} onInput=${(e) => setText(e.target.value)} />
      <span><b class="num">${number(found.length)}${data.more ? "+" : ""}</b> workers</span><span><b class="num">${number(used)}</b> of <b class="num">${number(slots)}</b> slots in use</span></div>
    <${Problem} error=${error} />
    ${whyNot && html`<p class="may-not">${whyNot}</p>`}
    ${found.length === 0 ? html`<${Empty}>${text ? "No worker fits." : "No workers yet."}<//>` : html`
    <table class="list" aria-label="Workers"><thead><tr><th scope="col">Worker</th><th scope="col">State</th><th scope="col" class="mid">Pool</th><th scope="col">Slots</th><th scope="col" class="wide-only">Device</th>
      <th scope="col" class="mid">CPU</th><th scope="col" class="mid">Memory</th><th scope="col">Held by</th><th scope="col" class="num mid">Seen</th></tr></thead>
      <tbody>${found.slice(0, shown).map((w) => html`<${Worker} key=${w.name} worker=${w} now=${now} onDrain=${whyNot ? null : onDrain} />`)}</tbody></table>`}
    ${found.length > shown && html`<button class="more" onClick=${() => setShown(shown + kShown)}>${number(found.length - shown)} more</button>`}
    ${draining && html`<${Drain} worker=${draining} onDone=${again} onClose=${() => setDraining(null)} />`}`;
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
