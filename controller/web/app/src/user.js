// Who the token says one is, what that user may do, and how one logs in and out. The buttons of the
// page follow it; musterd judges each change again.
import { html, useState } from "../vendor/vendor.js";
import { get, session, usePoll, useSession, whoIs } from "./api.js";
import { clock, words } from "./format.js";
import { announce, Dialog } from "./parts.js";

const kAskAgainMs = 15000;

// { token, me }: `me` is WhoAmI's answer; null without a token, and while it is asked for.
export function useUser() {
  const { token } = useSession();
  const { data, error } = usePoll(
    async (signal) => ({ token, me: token ? await get("whoami", signal) : null }), kAskAgainMs, []);
  return { token, me: data && data.token === token ? data.me : null, error: token ? error : null };
}

// ---- what the roles allow: controller/access/method_roles.cc ----

const kRoles = ["ROLE_UNSPECIFIED", "VIEWER", "USER", "OPERATOR", "ADMIN"];
const kUser = 2;
const kOperator = 3;

const roleIn = (me, project) => Math.max(0, ...me.grants
  .filter((g) => g.project === "*" || g.project === project).map((g) => kRoles.indexOf(g.role)));

// The token of musterd's data folder has no name, and speaks for whom one names.
const isBuiltin = (me) => !me.token_name;
export const nameOf = (me) => (isBuiltin(me) && session.user) || me.user;

// Why the user may not change the job; empty: they may. "…": not known yet. Without a token the page asks for one.
export function whyNotChange({ token, me }, job) {
  if (!token) return "";
  if (!me) return "…";
  const isOwn = job.owner === me.user;
  if (roleIn(me, job.project) >= (isOwn ? kUser : kOperator)) return "";
  return isOwn ? `You (${me.user}) may only read: changes need the role user in project ${job.project}.`
    : `You (${me.user}) may only read: changing others' jobs needs the role operator in project ${job.project}.`;
}

export function whyNotDrain({ token, me }) {
  if (!token) return "";
  if (!me) return "…";
  return roleIn(me, "*") >= kOperator ? ""
    : `You (${me.user}) may only read: draining workers needs the role operator in all projects.`;
}

// ---- logging in and out ----

function logOut(onClose) {
  session.set("", "");
  announce("Logged out");
  onClose();
}

function LogIn({ onClose, needed }) {
  const [error, setError] = useState("");
  const keep = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const token = String(form.get("token")).trim();
    try {
      const me = await whoIs(token);
      session.set(token, String(form.get("user")).trim());
      announce(`Logged in as ${nameOf(me)}`);
      onClose();
    } catch (failed) {
      setError(failed.status === 401 ? "musterd does not know this token." : failed.message);
    }
  };
  return html`<${Dialog} title="Log in" onClose=${onClose}>
    <p>${needed && session.token ? "musterd does not know the token of this tab any more." : needed ? "This musterd shows nothing without a token." : "Without a token this page only reads."} Yours is from${" "}
      <code>muster token create</code>, or is the line in musterd's <code>token</code> file. It stays in this tab, and is
      forgotten when the tab is closed.</p>
    <form onSubmit=${keep} class="token">
      <label>Token <input id="token" name="token" type="password" required autofocus autocomplete="off" spellcheck="false" /></label>
      <label>Your name for the events of jobs (only with the token of the file)
        <input id="user" name="user" maxlength="64" autocomplete="username" value=${session.user} /></label>
      ${error && html`<p class="problem" role="alert">${error}</p>`}
      <div class="actions">${session.token && html`<button type="button" id="log-out" onClick=${() => logOut(onClose)}>Log out</button>`}
        <button type="submit" class="primary" id="log-in">Log in</button></div>
    </form><//>`;
}

function LoggedIn({ me, onClose }) {
  const expires = Number(me.token_expires_ms);
  return html`<${Dialog} title=${`You are ${nameOf(me)}`} onClose=${onClose}>
    <p>${isBuiltin(me) ? "With the token in musterd's data folder, which may do everything."
        : html`With the token <b>${me.token_name}</b>${expires > 0 ? `, which expires ${clock(expires)}` : ", which does not expire"}.`}</p>
    ${me.grants.length === 0 ? html`<p>You have no role yet: an admin gives one with <code>muster user grant ${me.user} PROJECT ROLE</code>.</p>`
      : html`<table class="list" aria-label="Your roles"><thead><tr><th scope="col">Project</th><th scope="col">Role</th></tr></thead>
        <tbody>${me.grants.map((g) => html`<tr key=${g.project}><th scope="row">${g.project === "*" ? "all projects" : g.project}</th><td>${words(g.role)}</td></tr>`)}</tbody></table>`}
    <div class="actions"><button id="log-out" onClick=${() => logOut(onClose)}>Log out</button></div><//>`;
}

export const UserDialog = ({ me, onClose, needed }) =>
  (me && !needed ? html`<${LoggedIn} me=${me} onClose=${onClose} />` : html`<${LogIn} onClose=${onClose} needed=${needed} />`);
