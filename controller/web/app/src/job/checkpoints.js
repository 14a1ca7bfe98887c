// A job's checkpoints: which are kept whatever is deleted, and what a person may do to each.
import { html, useState } from "../../vendor/vendor.js";
import { post, useAnswer } from "../api.js";
import { asker, Confirm } from "../changes.js";
import { ago, bytes, clock, hasEnded, number, words } from "../format.js";
import { announce, Empty, Problem, useNow } from "../parts.js";
import { whyNotChange } from "../user.js";

const isThere = (c) => c.state === "COMMITTED" || c.state === "VERIFIED";

// By verb: its name, when it fits, and what it lets go. What lets nothing go is not asked twice.
const kVerbs = [
  ["PIN", "Pin", (c) => isThere(c) && !c.pinned_by && !c.removed_by, ""],
  ["UNPIN", "Unpin", (c) => c.pinned_by !== "", "It may be deleted then as others are, when newer ones make it superfluous."],
  ["REMOVE", "Remove", (c) => (isThere(c) || c.state === "CORRUPT") && !c.pinned_by && !c.removed_by, "A worker deletes its files. It cannot be brought back."],
];

const control = (checkpoint, verb, more) =>
  post(`checkpoints/${checkpoint.id}/control`, { user: asker(), verb, ...more });

const personOf = (actor) => actor.replace(/^user:/, "");

// The focus stays where it is when Pin becomes Unpin: the buttons have no keys.
function Actions({ checkpoint, onVerb }) {
  return html`<span class="actions small">${kVerbs.filter(([, , fits]) => fits(checkpoint)).map((v) => html`
    <button data-verb=${v[0]} class=${v[0] === "REMOVE" ? "danger" : ""}
      aria-label=${`${v[1]} checkpoint ${checkpoint.id}, step ${number(checkpoint.step)}`} onClick=${() => onVerb(v, checkpoint)}>${v[1]}</button>`)}</span>`;
}

function ConfirmVerb({ verb: [verb, name, , effect], checkpoint, onDone, onClose }) {
  const send = (form) => control(checkpoint, verb, form.get("force") ? { force: true } : {});
  return html`<${Confirm} title=${`${name}: checkpoint ${checkpoint.id}, step ${number(checkpoint.step)}?`} effect=${effect} name=${name}
    isDanger=${verb === "REMOVE"} send=${send} onDone=${onDone} onClose=${onClose}>
    ${verb === "REMOVE" && html`<label><input type="checkbox" name="force" /> also if the job has no other verified one</label>`}<//>`;
}

function Row({ checkpoint: c, now, onVerb }) {
  return html`<tr data-checkpoint=${c.id} class=${c.state === "DELETED" ? "gone" : ""}>
    <th scope="row"><span class="num">${number(c.step)}</span>${c.best && html` <span class="tag">best</span>`}${c.pinned_by && html` <span class="tag pinned">pinned</span>`}
      <span class="dim"> ${c.id}</span>
      ${c.pinned_by && html`<div class="why">kept by ${personOf(c.pinned_by)}</div>`}
      ${c.removed_by && c.state !== "DELETED" && html`<div class="why">to be deleted, as ${personOf(c.removed_by)} asked</div>`}
      ${c.message && html`<div class="why">${c.message}</div>`}</th>
    <td><span class=${`state c-${c.state}`}><i aria-hidden="true"></i>${words(c.state)}</span></td><td class="num mid">${bytes(c.bytes)}</td>
    <td class="num mid">${number(c.epoch, 3)}</td><td class="num mid">${number(c.validation_accuracy)}</td><td class="num mid">${number(c.validation_loss)}</td>
    <td class="num mid">${c.attempt}</td><td class="num" title=${clock(c.created_ms)}>${ago(c.created_ms, now)}</td>
    ${onVerb && html`<td><${Actions} checkpoint=${c} onVerb=${onVerb} /></td>`}<td class="path wide-only">${c.path}</td></tr>`;
}

export function Checkpoints({ job, user, askToken }) {
  const { data, error, again } = useAnswer(`jobs/${job.id}/checkpoints`, hasEnded(job.state) ? 10000 : 3000);
  const [open, setOpen] = useState(null);
  const [refused, setRefused] = useState(null);
  const now = useNow(5000);
  if (!data) return html`<${Problem} error=${error} />`;
  if (data.checkpoints.length === 0) return html`<${Empty}>No checkpoints yet.<//>`;
  const mayChange = whyNotChange(user, job) === "";
  const onVerb = async (verb, checkpoint) => {
    setRefused(null);
    if (!user.token) askToken();
    else if (verb[3]) setOpen([verb, checkpoint]);
    else {
      try {
        await control(checkpoint, verb[0]);
        announce(`${verb[1]} checkpoint ${checkpoint.id}: done`);
        again();
      } catch (failed) {
        setRefused(failed);
      }
    }
  };
  return html`<${Problem} error=${refused || error} />
    <table class="list" aria-label="Checkpoints"><thead><tr><th scope="col">Step</th><th scope="col">State</th><th scope="col" class="num mid">Size</th>
      <th scope="col" class="num mid">Epoch</th><th scope="col" class="num mid">Accuracy</th><th scope="col" class="num mid">Loss</th><th scope="col" class="num mid">Attempt</th><th scope="col" class="num">Age</th>
      ${mayChange && html`<th scope="col">Change</th>`}<th scope="col" class="wide-only">Folder</th></tr></thead>
    <tbody>${data.checkpoints.map((c) => html`<${Row} key=${c.id} checkpoint=${c} now=${now} onVerb=${mayChange ? onVerb : null} />`)}</tbody></table>
    ${data.next_page_token && html`<p class="dim">Older ones: <code>muster ckpt ls ${job.id}</code></p>`}
    ${open && html`<${ConfirmVerb} verb=${open[0]} checkpoint=${open[1]} onDone=${again} onClose=${() => setOpen(null)} />`}`;
}
