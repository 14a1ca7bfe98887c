// A job's metrics as curves over its steps, which grow while it runs.
import { html, uPlot, useEffect, useMemo, useRef, useState } from "../../vendor/vendor.js";
import { get, query, usePoll } from "../api.js";
import { bytes, number } from "../format.js";
import { Empty, Problem } from "../parts.js";

const kMaxPoints = 600;   // of each curve, in the first answer
const kOverlap = 100;     // steps that are asked for once more: evaluations come late
const kMostPages = 8;
const kMostKept = 4000;   // points of a curve; then all are read anew, thinned
const kGroups = [
  ["Loss", /^(train_|validation_|test_|eval_)?loss$/], ["Accuracy", /^(train_|validation_|test_|best_validation_)?accuracy$/],
  ["Speed", /^(samples|tokens|steps)_per_second$/], ["Learning rate", /^lr$|learning_rate/],
  ["Memory", /memory.*bytes|bytes.*memory/],
];
const kFirst = new Set(["Loss", "Accuracy", "Speed", "Learning rate"]);

const titleOf = (name) => (kGroups.find(([, pattern]) => pattern.test(name)) || [name.replaceAll("_", " ")])[0];

async function readPoints(job, fields, signal) {
  const points = [];
  let token = "";
  for (let page = 0; page < kMostPages; ++page) {
    const answer = await get(`jobs/${job}/curves${query({ ...fields, page_token: token })}`, signal);
    points.push(...answer.points);
    token = answer.next_page_token;
    if (!token) break;
  }
  return points;
}

// By name a map from step to value.
function merge(curves, points) {
  for (const { name, step, value } of points) {
    if (!curves.has(name)) curves.set(name, new Map());
    curves.get(name).set(Number(step), Number(value));
  }
  return curves;
}

export function useCurves(job, attempt, isLive) {
  const kept = useRef({ key: "", curves: new Map(), last: 0 });
  return usePoll(async (signal) => {
    const key = `${job}/${attempt}`;
    const most = Math.max(0, ...[...kept.current.curves.values()].map((c) => c.size));
    const afresh = kept.current.key !== key || most > kMostKept;
    const fields = afresh ? { max_points: kMaxPoints } : { from_step: Math.max(0, kept.current.last - kOverlap) };
    const points = await readPoints(job, fields, signal);
    const curves = merge(afresh ? new Map() : new Map(kept.current.curves), points);
    const last = points.reduce((step, p) => Math.max(step, Number(p.step)), afresh ? 0 : kept.current.last);
    kept.current = { key, curves, last };
    return { curves, last, count: [...curves.values()].reduce((n, c) => n + c.size, 0) };
  }, isLive ? 2000 : 0, [job, attempt, isLive]);
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function Chart({ title, names, curves, theme }) {
  const ref = useRef(null);
  const plot = useRef(null);
  const latest = useRef(null);
  const size = names.map((n) => curves.get(n).size).join();
  const data = useMemo(() => {
    const steps = [...new Set(names.flatMap((n) => [...curves.get(n).keys()]))].sort((a, b) => a - b);
    return [steps, ...names.map((n) => {
      const curve = curves.get(n);
      return steps.map((s) => (curve.has(s) && Number.isFinite(curve.get(s)) ? curve.get(s) : null));
    })];
  }, [curves, names.join()]);
  const value = title === "Memory" ? (v) => bytes(v) : (v) => number(v);
  // Under the cursor, or at the end. Written past Preact, which would draw the whole page at each move of the mouse.
  latest.current = (at) => {
    const isThere = at !== null && at !== undefined;
    const figure = ref.current.parentNode;
    figure.querySelectorAll("[data-value]").forEach((out, i) => {
      const v = isThere ? data[i + 1][at] : lastOf(curves.get(names[i]));
      out.textContent = v === null || v === undefined ? "" : value(v);
    });
    figure.querySelector("[data-step]").textContent = isThere ? `step ${number(data[0][at])}` : "";
  };
  useEffect(() => {
    const lines = [css("--line-1"), css("--line-2"), css("--line-3"), css("--line-4")];
    const axis = { stroke: css("--dim"), grid: { stroke: css("--rule"), width: 1 }, ticks: { show: false },
      font: "11px system-ui, sans-serif" };
    const made = new uPlot({
      width: ref.current.clientWidth, height: 190, legend: { show: false },
      cursor: { points: { size: 6 }, y: false, drag: { x: true, y: false } },
      scales: { x: { time: false } },
      axes: [{ ...axis, size: 28 }, { ...axis, size: 56, values: (u, all) => all.map(value) }],
      series: [{}, ...names.map((label, i) => ({
        label, stroke: lines[i % lines.length], width: 1.75, spanGaps: true,
        points: { show: curves.get(label).size < 16, size: 5 },
      }))],
      hooks: { setCursor: [(u) => latest.current(u.cursor.idx)] },
    }, data, ref.current);
    plot.current = made;
    const watch = new ResizeObserver(() => {
      if (ref.current && ref.current.clientWidth > 0) made.setSize({ width: ref.current.clientWidth, height: 190 });
    });
    watch.observe(ref.current);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [names.join(), theme]);
  useEffect(() => {
    plot.current.setData(data);
    latest.current(plot.current.cursor.idx);
  }, [data, theme]);
  const summary = names.map((n) => {
    const all = [...curves.get(n).values()].filter(Number.isFinite);
    return `${n}: ${all.length} points, now ${number(lastOf(curves.get(n)))}, least ${number(all.reduce((a, b) => Math.min(a, b), Infinity))}, most ${number(all.reduce((a, b) => Math.max(a, b), -Infinity))}`;
  }).join("; ");
  return html`<figure class="chart" data-points=${size}>
    <figcaption><b>${title}</b> <span class="dim" data-step></span>
      <span class="legend">${names.map((n, i) => html`<span key=${n}><i class=${`line-${i % 4 + 1}`} aria-hidden="true"></i>${n.replaceAll("_", " ")}
        <b class="num" data-value></b></span>`)}</span></figcaption>
    <div ref=${ref} role="img" aria-label=${`${title} by step. ${summary}`}></div></figure>`;
}

function lastOf(curve) {
  let last = null;
  let at = -Infinity;
  for (const [step, value] of curve) if (step > at) [at, last] = [step, value];
  return last;
}

export function Curves({ job, attempt, isLive, theme }) {
  const { data, error } = useCurves(job, attempt, isLive);
  const [all, setAll] = useState(false);
  const groups = useMemo(() => {
    const found = new Map();
    for (const name of data ? [...data.curves.keys()].sort() : []) {
      const title = titleOf(name);
      if (!found.has(title)) found.set(title, []);
      if (found.get(title).length < 4) found.get(title).push(name);
    }
    const order = (title) => { const i = kGroups.findIndex(([t]) => t === title); return i < 0 ? kGroups.length : i; };
    return [...found].sort(([a], [b]) => order(a) - order(b) || a.localeCompare(b));
  }, [data]);
  if (!data) return html`<${Problem} error=${error} />`;
  if (groups.length === 0) return html`<${Empty}>No metrics yet.<//>`;
  const first = groups.filter(([title]) => kFirst.has(title));
  const shown = all || first.length === 0 ? groups : first;
  return html`<div class="charts" id="curves" data-count=${data.count} data-step=${data.last}>
      ${shown.map(([title, names]) => html`<${Chart} key=${title} title=${title} names=${names} curves=${data.curves} theme=${theme} />`)}
    </div>
    ${first.length > 0 && first.length < groups.length && html`<button class="plain more" aria-expanded=${all} onClick=${() => setAll(!all)}>
      ${all ? "Fewer curves" : `${groups.length - first.length} more curves`}</button>`}`;
}
