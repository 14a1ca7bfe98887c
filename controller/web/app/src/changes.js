// What a person may do to a job. Each verb asks first, and says what it will do.
import { html, useState } from "../vendor/vendor.js";
import { post, session } from "./api.js";
import { hasEnded } from "./format.js";
import { announce, Dialog } from "./parts.js";
import { whyNotChange } from "./user.js";

// By verb: its name, when it fits, what it does.
const kVerbs = [
  ["SUSPEND", "Suspend", (j) => ["STARTING", "RUNNING", "RECOVERING"].includes(j.state), "It saves, gives its slots back, and waits until it is resumed."],
  ["RESUME", "Resume", (j) => j.state === "SUSPENDED", "It goes into the queue again, and on from its last checkpoint."],
  ["HOLD", "Hold", (j) => j.state === "PENDING" && !j.held, "It is not started until it is released."],
  ["RELEASE", "Release", (j) => j.held, "It may start again."],
  ["REQUEUE", "Requeue", (j) => !["PENDING", "SUCCEEDED", "STOPPING", "SUSPENDED"].includes(j.state), "It saves if it runs, and goes into the queue again."],
  ["CANCEL", "Cancel job", (j) => !hasEnded(j.state) && j.state !== "STOPPING", "It ends, and is not tried again. Checkpoints stay."],
];

const requestId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");

// Who asks, for the events of jobs: musterd ignores it unless the token is that of its data folder.
export const asker = () => session.user || "page";

// Asks once more before `send(form)` makes a change. `children` are fields of the form.
export function Confirm({ title, effect, name, isDanger, send, onDone, onClose, children }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await send(new FormData(event.target));
      announce(`${name}: done`);
      onDone();
      onClose();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p>${effect}</p>
    <form class="confirm" onSubmit=${go}>
      ${children}
      ${error && html`<p class="problem" role="alert">${error.message}</p>`}
      <div class="actions"><button type="button" autofocus onClick=${onClose}>Keep it as it is</button>
        <button type="submit" id="confirm" class=${isDanger ? "danger" : "primary"} disabled=${busy}>${name}</button></div>
    </form><//>`;
}

function ConfirmVerb({ job, verb: [verb, name, , effect], onDone, onClose }) {
  const [id] = useState(requestId);  // a second try changes nothing more
  const user = asker();
  const send = () => (verb === "CANCEL" ? post(`jobs/${job.id}/cancel`, { user })
    : post(`jobs/${job.id}/control`, { user, verb, ...(verb === "REQUEUE" ? { request_id: id } : {}) }));
  return html`<${Confirm} title=${`${name}: ${job.name} (${job.id})?`} effect=${effect} name=${name}
    isDanger=${verb === "CANCEL"} send=${send} onDone=${onDone} onClose=${onClose} />`;
}

export function Changes({ job, user, onDone, askToken }) {
  const [open, setOpen] = useState(null);
  const fitting = kVerbs.filter(([, , fits]) => fits(job));
  const whyNot = whyNotChange(user, job);
  if (whyNot) return html`<p class="may-not">${whyNot}</p>`;
  if (fitting.length === 0) return null;
  return html`<div class="actions" role="group" aria-label="Change this job">
    ${fitting.map((v) => html`<button key=${v[0]} data-verb=${v[0]} class=${v[0] === "CANCEL" ? "danger" : ""}
      onClick=${() => (user.token ? setOpen(v) : askToken())}>${v[1]}</button>`)}
    ${open && html`<${ConfirmVerb} job=${job} verb=${open} onDone=${onDone} onClose=${() => setOpen(null)} />`}
  </div>`;
}
