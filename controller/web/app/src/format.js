// Numbers, times and names as people read them. Pure. Protobuf's JSON makes text of 64-bit numbers:
// each function takes either.

const kUnits = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

// "2h 5m": the two largest units.
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 1) return seconds < 0.001 ? "0s" : `${Math.round(seconds * 1000)}ms`;
  let left = Math.floor(seconds);
  const parts = [];
  for (const [unit, size] of kUnits) {
    const count = Math.floor(left / size);
    if (count > 0) parts.push(`${count}${unit}`);
    else if (parts.length) break;
    left -= count * size;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export const ago = (ms, now = Date.now()) =>
  Number(ms) > 0 ? duration(Math.max(0, (now - Number(ms)) / 1000)) : "";

// With the year where it is not this one.
export function clock(ms) {
  if (!(Number(ms) > 0)) return "";
  const time = new Date(Number(ms));
  const year = time.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return time.toLocaleString(undefined, {
    year, month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
  });
}

export function bytes(count) {
  let value = Number(count);
  if (!(value > 0)) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function number(value, digits = 4) {
  if (value === undefined || value === null) return "";
  const v = Number(value);
  if (!Number.isFinite(v)) return String(value);
  if (Number.isInteger(v) && Math.abs(v) < 1e15) return v.toLocaleString("en-US");
  if (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e7)) return v.toExponential(2);
  return String(Number(v.toPrecision(Math.abs(v) >= 1000 ? Math.max(digits, 5) : digits)));
}

export const percent = (part) =>
  part === undefined || part === null ? "" : `${(100 * part).toFixed(part > 0.9995 || part === 0 ? 0 : 1)} %`;

// "RESTART_BUDGET_SPENT" as "restart budget spent".
export const words = (name) =>
  !name || name.endsWith("UNSPECIFIED") ? "" : name.toLowerCase().replaceAll("_", " ");

const kEnded = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);
export const hasEnded = (state) => kEnded.has(state);

// Steps done, 0 to 1; undefined where nobody knows.
export const donePart = (job) =>
  Number(job.total_steps) > 0 ? Math.min(1, Number(job.step) / Number(job.total_steps)) : undefined;

// Seconds until the last step at the pace of `samples`, [time in ms, step] pairs; undefined: no pace.
export function secondsLeft(job, samples) {
  if (samples.length < 2 || !(Number(job.total_steps) > 0) || job.state !== "RUNNING") return undefined;
  const [t0, s0] = samples[0];
  const [t1, s1] = samples[samples.length - 1];
  const pace = (s1 - s0) / ((t1 - t0) / 1000);
  return pace > 0 ? (Number(job.total_steps) - s1) / pace : undefined;
}
