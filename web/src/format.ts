// How numbers, times and lengths are written. Times are UTC, always.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (n: number): string => whole.format(n);

export function compact(n: number): string {
  if (n < 10_000) return count(n);
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(n);
}

export function percent(rate: number | null): string {
  if (rate === null) return "–";
  const p = rate * 100;
  if (p === 0) return "0 %";
  if (p < 0.01) return "< 0.01 %";
  return (p < 1 ? p.toFixed(2) : p < 10 ? p.toFixed(1) : p.toFixed(0)) + " %";
}

export function seconds(s: number | null): string {
  if (s === null) return "–";
  if (s < 1) return `${Math.max(1, Math.round(s * 1000))} ms`;
  if (s < 60) return `${trim(s)} s`;
  if (s < 3600) return `${trim(s / 60)} min`;
  if (s < 86400) return `${trim(s / 3600)} h`;
  return `${trim(s / 86400)} d`;
}

const trim = (n: number): string => String(Number(n < 10 ? n.toFixed(1) : n.toFixed(0)));

// whole lengths, as retention is set: exact.
export function length(s: number): string {
  if (s % 86400 === 0) return `${s / 86400} ${s === 86400 ? "day" : "days"}`;
  if (s % 3600 === 0) return `${s / 3600} h`;
  if (s % 60 === 0) return `${s / 60} min`;
  return `${s} s`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${count(n)} bytes`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let u = -1;
  do {
    n /= 1024;
    u++;
  } while (n >= 1024 && u < units.length - 1);
  return `${n < 10 ? n.toFixed(1) : n.toFixed(0)} ${units[u]}`;
}

export function utc(at: string): string {
  return at.slice(0, 10) + " " + at.slice(11, 19) + " UTC";
}

export function utcShort(at: string): string {
  return at.slice(11, 19);
}

export function local(at: string): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) + " here";
}

export const change = (now: number, before: number): string => {
  if (before === 0) return now === 0 ? "as before" : "none before";
  const r = (now - before) / before;
  if (Math.abs(r) < 0.005) return "as before";
  if (r > 9.99) return `${Math.round(now / before)} times as many`;
  return `${r > 0 ? "+" : "−"}${Math.abs(r * 100).toFixed(0)} %`;
};

export const kinds: { [code: string]: string } = {
  acquired: "acquired",
  resumed: "resumed",
  replay: "replay",
  in_progress: "in progress",
  mismatch: "mismatch",
  unknown: "unknown",
  takeover: "takeover",
  late_completion: "late completion",
  declared_unknown: "declared unknown",
};

export const kindName = (code: string): string => kinds[code] ?? code.replaceAll("_", " ");
