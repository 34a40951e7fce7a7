// The time range of every view: kept in the address, aligned to whole steps so
// that a figure and the chart beside it count the same things.
import type { Step } from "./api/types";
import { setParams } from "./router";

export type RangeName = "1h" | "24h" | "7d" | "custom";

export interface Range {
  name: RangeName;
  step: Step;
  from: string;
  to: string;
  before: { from: string; to: string }; // the period before, just as long
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

const iso = (ms: number): string => new Date(ms).toISOString();

export function rangeOf(params: URLSearchParams, now: number): Range {
  const name = params.get("range") ?? "24h";
  if (name === "custom") {
    const from = Date.parse(params.get("from") ?? "");
    const to = Date.parse(params.get("to") ?? "");
    if (Number.isFinite(from) && Number.isFinite(to) && from < to) return custom(from, to, now);
  }
  if (name === "1h") return live("1h", "minute", minute, hour, now);
  if (name === "7d") return live("7d", "hour", hour, 7 * day, now);
  return live("24h", "hour", hour, day, now);
}

function live(name: RangeName, step: Step, stepMs: number, span: number, now: number): Range {
  const to = Math.floor(now / stepMs) * stepMs + stepMs; // the step that is going on is the last one
  const from = to - span;
  return { name, step, from: iso(from), to: iso(to), before: { from: iso(from - span), to: iso(now - span) } };
}

function custom(from: number, to: number, now: number): Range {
  const span = to - from;
  const step: Step = span <= 6 * hour && now - from < 2 * day ? "minute" : span <= 40 * day ? "hour" : "day";
  return { name: "custom", step, from: iso(from), to: iso(to), before: { from: iso(from - span), to: iso(from) } };
}

export function chooseRange(name: RangeName, range: Range): void {
  if (name === "custom") setParams({ range: name, from: range.from, to: range.to });
  else setParams({ range: name === "24h" ? null : name, from: null, to: null });
}
