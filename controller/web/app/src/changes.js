// What a person may do to a job. Each verb asks first, and says what it will do.
import { html, useState } from "../vendor/vendor.js";
import { checkToken, post, session, useSession } from "./api.js";
import { hasEnded } from "./format.js";
import { announce, Dialog } from "./parts.js";

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

function Confirm({ job, verb, name, effect, onDone, onClose }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [id] = useState(requestId);  // a second try changes nothing more
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const user = session.user || "page";
      if (verb === "CANCEL") await post(`jobs/${job.id}/cancel`, { user });
      else await post(`jobs/${job.id}/control`, { user, verb, ...(verb === "REQUEUE" ? { request_id: id } : {}) });
      announce(`${name}: done`);
      onDone();
      onClose();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${`${name}: ${job.name} (${job.id})?`} onClose=${onClose}>
    <p>${effect}</p>
    ${error && html`<p class="problem" role="alert">${error.message}</p>`}
    <form class="actions" onSubmit=${go}>
      <button type="button" autofocus onClick=${onClose}>Keep it as it is</button>
      <button type="submit" id="confirm" class=${verb === "CANCEL" ? "danger" : "primary"} disabled=${busy}>${name}</button>
    </form><//>`;
}

export function Changes({ job, onDone, askToken }) {
  const [open, setOpen] = useState(null);
  const { token } = useSession();
  const fitting = kVerbs.filter(([, , fits]) => fits(job));
  if (fitting.length === 0) return null;
  return html`<div class="actions" role="group" aria-label="Change this job">
    ${fitting.map((v) => html`<button key=${v[0]} data-verb=${v[0]} class=${v[0] === "CANCEL" ? "danger" : ""}
      onClick=${() => (token ? setOpen(v) : askToken())}>${v[1]}</button>`)}
    ${open && html`<${Confirm} job=${job} verb=${open[0]} name=${open[1]} effect=${open[3]} onDone=${onDone} onClose=${() => setOpen(null)} />`}
  </div>`;
}

export function TokenDialog({ onClose, needed }) {
  const [error, setError] = useState("");
  const { token, user } = useSession();
  const keep = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      await checkToken(String(form.get("token")).trim());
      session.set(String(form.get("token")).trim(), String(form.get("user")).trim());
      announce("Changes are unlocked");
      onClose();
    } catch (failed) {
      setError(failed.status === 401 ? "musterd does not know this token." : failed.message);
    }
  };
  return html`<${Dialog} title=${token ? "Changes are unlocked" : "Unlock changes"} onClose=${onClose}>
    <p>${needed ? "This musterd shows nothing without its token." : "Without a token this page only reads."} The token is the line
      in musterd's <code>token</code> file. It stays in this tab, and is forgotten when the tab is closed.</p>
    <form onSubmit=${keep} class="token">
      <label>Token <input id="token" name="token" type="password" required autofocus autocomplete="off" spellcheck="false" /></label>
      <label>Your name, for the record <input id="user" name="user" maxlength="64" autocomplete="username" value=${user} /></label>
      ${error && html`<p class="problem" role="alert">${error}</p>`}
      <div class="actions">
        ${token && html`<button type="button" onClick=${() => { session.set("", ""); onClose(); }}>Forget the token</button>`}
        <button type="submit" class="primary" id="unlock">Unlock</button></div>
    </form><//>`;
}
