// The page: what is shown follows from the address (#/jobs, #/jobs/ID/TAB, #/workers, #/projects).
import { html, render, useEffect, useRef, useState } from "../vendor/vendor.js";
import { useAnswer } from "./api.js";
import { Job, kTabs } from "./job.js";
import { Jobs } from "./jobs.js";
import { Announcer, Dialog } from "./parts.js";
import { nameOf, UserDialog, useUser } from "./user.js";
import { Projects, Workers } from "./workers.js";

const kPlaces = [["jobs", "Jobs", "j"], ["workers", "Workers", "w"], ["projects", "Projects", "p"]];
const kKeys = [
  ["/", "find"], ["j, k", "next and previous row"], ["Enter", "open the row"], ["n, b", "next and previous page of jobs"],
  ["g then j, w, p", "go to jobs, workers, projects"], ["1 to 5", "parts of a job"], ["u", "up: back to the jobs"],
  ["t", "dark or light"], ["?", "this list"],
];

// ---- where we are ----

function placeOf(hash) {
  const [path, search] = hash.replace(/^#\/?/, "").split("?");
  const [view, id, tab] = path.split("/").map(decodeURIComponent);
  return { view: view || "jobs", id, tab: kTabs.includes(tab) ? tab : kTabs[0], params: new URLSearchParams(search) };
}

function usePlace() {
  const [place, setPlace] = useState(placeOf(location.hash));
  useEffect(() => {
    const onHash = () => setPlace(placeOf(location.hash));
    addEventListener("hashchange", onHash);
    return () => removeEventListener("hashchange", onHash);
  }, []);
  return place;
}

// ---- dark and light ----

const systemDark = matchMedia("(prefers-color-scheme: dark)");
function useTheme() {
  const [chosen, setChosen] = useState(localStorage.getItem("muster-theme") || "");
  const [system, setSystem] = useState(systemDark.matches);
  useEffect(() => {
    const onChange = () => setSystem(systemDark.matches);
    systemDark.addEventListener("change", onChange);
    return () => systemDark.removeEventListener("change", onChange);
  }, []);
  const theme = chosen || (system ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const flip = () => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem("muster-theme", next);
    setChosen(next);
  };
  return [theme, flip];
}

// ---- keys ----

const kSwitch = "muster-no-keys";
function moveRow(by) {
  const rows = [...document.querySelectorAll(".row-link")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))].focus();
}

function useKeys(flipTheme, showHelp) {
  useEffect(() => {
    let went = 0;
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(kSwitch)) return;
      if (document.querySelector("dialog[open]") || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
        if (event.key === "Escape" && event.target.id === "search") event.target.blur();
        return;
      }
      const place = placeOf(location.hash);  // also where it is not drawn yet
      const chord = Date.now() - went < 1500;
      went = 0;
      const target = chord && kPlaces.find(([, , key]) => key === event.key);
      const pages = document.querySelectorAll(".pages button");
      if (target) location.hash = `#/${target[0]}`;
      else if (event.key === "g") went = Date.now();
      else if (event.key === "/") {
        const search = document.getElementById("search");
        if (!search) return;
        event.preventDefault();
        search.focus();
      } else if (event.key === "j") moveRow(1);
      else if (event.key === "k") moveRow(-1);
      else if (event.key === "b" && pages.length) pages[0].click();
      else if (event.key === "n" && pages.length) pages[1].click();
      else if (event.key === "u" && place.view === "jobs") location.hash = "#/jobs";
      else if (event.key === "t") flipTheme();
      else if (event.key === "?") showHelp();
      else if (place.id && /^[1-5]$/.test(event.key)) location.hash = `#/jobs/${place.id}/${kTabs[event.key - 1]}`;
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
}

function Help({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <table class="keys"><tbody>${kKeys.map(([key, what]) => html`<tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${what}</td></tr>`)}</tbody></table>
    <label><input type="checkbox" defaultChecked=${!localStorage.getItem(kSwitch)}
      onChange=${(e) => (e.target.checked ? localStorage.removeItem(kSwitch) : localStorage.setItem(kSwitch, "1"))} /> keys without Ctrl or Alt do these things</label>
    <p class="dim">The same in a shell: <code>muster ls</code>, <code>muster show JOB</code>, <code>muster logs JOB -f</code>, <code>muster explain JOB</code>. <a href="/metrics">Metrics</a>, <a href="/page/vendor/LICENSES.txt">licences</a>.</p><//>`;
}

function App() {
  const place = usePlace();
  const [theme, flipTheme] = useTheme();
  const [dialog, setDialog] = useState("");
  const [problem, setProblem] = useState(null);
  const user = useUser();
  const version = useAnswer("version", 30000);
  const close = () => setDialog("");
  useKeys(flipTheme, () => setDialog("help"));
  const here = `${place.view}/${place.id || ""}`;
  useEffect(() => {
    if (!place.id) document.title = `${(kPlaces.find(([v]) => v === place.view) || ["", "?"])[1]} · Muster`;
  }, [here]);
  // Who follows a link is where it leads, also by keys and ear.
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) {
      document.getElementById("main").focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [here]);
  const refused = [problem, user.error].some((e) => e && e.status === 401);
  useEffect(() => { if (refused) setDialog("user"); }, [refused]);
  const away = problem && (problem.status === 0 || problem.status === 503);
  const common = { onData: setProblem, user, askToken: () => setDialog("user") };
  // The view is drawn anew for another token: what one user was shown, no other sees.
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header class="top">
      <a class="brand" href="#/jobs"><img src="/page/icon.svg" alt="" width="20" height="20" /> Muster</a>
      <nav aria-label="Views">${kPlaces.map(([view, name]) => html`
        <a key=${view} href=${`#/${view}`} aria-current=${place.view === view ? "page" : undefined}>${name}</a>`)}</nav>
      <span class="grow"></span>
      <span class=${away ? "live off" : "live"} role="status"><i aria-hidden="true"></i>${away ? "musterd is away" : "live"}</span>
      <span class="dim wide-only">${version.data ? version.data.version : ""}</span>
      <button onClick=${() => setDialog("user")} id="user-button">${user.me ? html`<span class="unseen">You are </span>${nameOf(user.me)}` : user.token && !user.error ? "…" : "Log in"}</button>
      <button class="plain" aria-label=${`${theme === "dark" ? "Light" : "Dark"} theme`} id="theme-button" onClick=${flipTheme}>${theme === "dark" ? "☀" : "☾"}</button>
      <button class="plain" aria-label="Keys" onClick=${() => setDialog("help")}>?</button>
    </header>
    <main id="main" tabindex="-1" key=${`${here} ${user.token}`}>
      ${place.view === "jobs" && !place.id && html`<${Jobs} params=${place.params} ...${common} />`}
      ${place.view === "jobs" && place.id && html`<${Job} key=${place.id} id=${place.id} tab=${place.tab} theme=${theme} ...${common} />`}
      ${place.view === "workers" && html`<${Workers} ...${common} />`}
      ${place.view === "projects" && html`<${Projects} ...${common} />`}
      ${!kPlaces.some(([v]) => v === place.view) && html`<p class="empty">Nothing is here. <a href="#/jobs">All jobs</a></p>`}
    </main>
    ${dialog === "help" && html`<${Help} onClose=${close} />`}
    ${dialog === "user" && html`<${UserDialog} me=${user.me} onClose=${close} needed=${refused} />`}
    <${Announcer} />`;
}

render(html`<${App} />`, document.getElementById("app"));
