// What a job's ranks print, followed. Text goes into the page as text, never as markup.
import { html, useEffect, useRef, useState } from "../../vendor/vendor.js";
import { get, query, usePoll } from "../api.js";
import { number } from "../format.js";
import { Locked, Problem } from "../parts.js";

const kMostLines = 5000;  // older ones leave the page
const kMostPages = 8;     // read in one turn
const kAllRanks = 4;      // of so many ranks all are shown at first, of more the first one

// Puts lines together from chunks that may end in the middle of one, or of a letter.
class Lines {
  constructor() { this.streams = new Map(); }

  // The lines that `chunk` ends; what was there already is left out.
  add(chunk) {
    const key = `${chunk.attempt}/${chunk.rank}/${chunk.is_stderr}`;
    if (!this.streams.has(key)) this.streams.set(key, { next: null, rest: "", decoder: new TextDecoder() });
    const stream = this.streams.get(key);
    let data = Uint8Array.from(atob(chunk.text), (c) => c.charCodeAt(0));
    const offset = Number(chunk.offset);
    const known = stream.next === null ? 0 : stream.next - offset;
    if (known >= data.length && known > 0) return [];
    if (known > 0) data = data.subarray(known);
    stream.next = offset + Math.max(0, known) + data.length;
    const lines = (stream.rest + stream.decoder.decode(data, { stream: true })).split("\n");
    stream.rest = lines.pop();
    return lines.map((text) => ({ text, rank: chunk.rank, attempt: chunk.attempt, isError: chunk.is_stderr }));
  }
}

// Escape sequences of terminals say nothing here.
const clean = (text) => text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "").replace(/^.*\r(?!$)/, "").replace(/\r$/, "");

export function Logs({ job, ranks, attempts, isLive, askToken }) {
  const [rank, setRank] = useState(ranks > kAllRanks ? "0" : "");
  const [attempt, setAttempt] = useState("");
  const [follow, setFollow] = useState(true);
  const [wrap, setWrap] = useState(true);
  const [text, setText] = useState("");
  const [count, setCount] = useState(0);
  const pre = useRef(null);
  const kept = useRef({});
  const key = `${job}/${rank}/${attempt}`;
  const shows = (line) => !text || line.text.toLowerCase().includes(text.toLowerCase());

  const draw = (lines) => {
    const fragment = document.createDocumentFragment();
    for (const line of lines) {
      if (!shows(line)) continue;
      const row = document.createElement("div");
      if (line.isError) row.className = "stderr";
      const who = document.createElement("span");
      who.className = "who";
      who.textContent = `${line.attempt}·${line.rank} `;
      row.append(who, clean(line.text) || " ");
      fragment.append(row);
    }
    const box = pre.current;
    box.append(fragment);
    while (box.childElementCount > kMostLines) box.firstElementChild.remove();
    if (follow) box.scrollTop = box.scrollHeight;
  };

  const { error } = usePoll(async (signal) => {
    if (kept.current.key !== key) {
      kept.current = { key, next: null, lines: new Lines(), all: [] };
      pre.current.replaceChildren();
    }
    const mine = kept.current;
    for (let page = 0; page < kMostPages; ++page) {
      const answer = await get(`jobs/${job}/logs${query({ rank, attempt, tail: mine.next === null ? 500 : undefined,
        after: mine.next })}`, signal);
      if (kept.current !== mine) return undefined;
      const news = answer.chunks.flatMap((chunk) => mine.lines.add(chunk));
      mine.next = answer.next;
      mine.all.push(...news);
      if (mine.all.length > kMostLines) mine.all.splice(0, mine.all.length - kMostLines);
      draw(news);
      if (!answer.more) break;
    }
    setCount(mine.all.length);
    return mine.all.length;
  }, isLive ? 1000 : 5000, [key]);

  useEffect(() => {
    pre.current.replaceChildren();
    draw(kept.current.all || []);
  }, [text]);
  useEffect(() => { if (follow) pre.current.scrollTop = pre.current.scrollHeight; }, [follow, wrap]);
  const onScroll = () => {
    const box = pre.current;
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    if (atEnd !== follow) setFollow(atEnd);
  };
  return html`<section aria-label="Logs" class="logs">
    <div class="filters">
      <label>Rank <select value=${rank} onChange=${(e) => setRank(e.target.value)}><option value="">all</option>
        ${Array.from({ length: Math.min(ranks, 512) }, (_, i) => html`<option key=${i} value=${String(i)}>${i}</option>`)}</select></label>
      <label>Attempt <select value=${attempt} onChange=${(e) => setAttempt(e.target.value)}><option value="">all</option>
        ${attempts.map((n) => html`<option key=${n} value=${String(n)}>${n}</option>`)}</select></label>
      <input type="search" placeholder="lines that contain …" aria-label="Filter lines" value=${text} onInput=${(e) => setText(e.target.value)} />
      <label><input type="checkbox" checked=${follow} onChange=${(e) => setFollow(e.target.checked)} /> follow</label>
      <label><input type="checkbox" checked=${wrap} onChange=${(e) => setWrap(e.target.checked)} /> wrap</label>
      <span class="dim num">${number(count)} lines</span>
    </div>
    ${error && error.status === 401 ? html`<${Locked} what="Logs" askToken=${askToken} />` : html`<${Problem} error=${error} />`}
    <div ref=${pre} class=${wrap ? "log wrap" : "log"} id="log" tabindex="0" role="log" aria-live="off" aria-label="Log lines" onScroll=${onScroll}></div>
    ${count === 0 && !error && html`<p class="empty">Nothing was printed yet.</p>`}</section>`;
}
