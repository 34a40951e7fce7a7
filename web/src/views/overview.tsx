import { useState } from "preact/hooks";
import { get, query } from "../api/client";
import type { Callers, Group, Operations, Outcomes } from "../api/types";
import { useData } from "../data";
import { change, compact, count, percent } from "../format";
import { rangeOf, type Range } from "../range";
import { href, type Place } from "../router";
import { AgeHistogram } from "../ui/ages";
import { Card, Empty, Loading, Trouble } from "../ui/basics";
import { Filters } from "../ui/filters";
import { TimeSeries } from "../ui/timeseries";
import { Findings } from "./findings";
import { FirstEvent } from "./firstevent";
import { GroupTable } from "./groups";

export const every = 5_000;

// Everything that a view with charts shows of a range and its filters.
export interface Figures {
  range: Range;
  over: Outcomes;
  now: Operations;
  before: Group;
  callers: Callers;
  at: number;
}

export async function readFigures(params: URLSearchParams, signal: AbortSignal): Promise<Figures> {
  const range = rangeOf(params, Date.now());
  const filter = { namespace: params.get("namespace"), operation: params.get("operation"), caller: params.get("caller") };
  const span = { from: range.from, to: range.to };
  const [over, now, before, callers] = await Promise.all([
    get<Outcomes>("/v1/analytics/outcomes" + query({ ...filter, ...span, step: range.step }), signal),
    get<Operations>("/v1/analytics/operations" + query({ ...filter, ...span, limit: "50" }), signal),
    get<Operations>("/v1/analytics/operations" + query({ ...filter, ...range.before, limit: "1" }), signal),
    get<Callers>("/v1/analytics/callers" + query({ ...filter, ...span, limit: "50" }), signal),
  ]);
  return { range, over, now, before: before.total, callers, at: Date.now() };
}

export function Overview({ place }: { place: Place }) {
  const [paused, pause] = useState(false);
  const params = place.params;
  const figures = useData(params.toString(), (signal) => readFigures(params, signal), paused ? 0 : every);
  const data = figures.data;
  const filtered = ["namespace", "operation", "caller"].some((name) => params.has(name));
  return (
    <>
      <div class="page-head">
        <h1>Overview</h1>
        <Filters params={params} range={data?.range ?? rangeOf(params, Date.now())} live={{ paused, set: pause, at: data?.at ?? null }} />
      </div>
      {figures.error && <Trouble problem={figures.error} retry={figures.reload} />}
      {figures.loading && <Loading rows={6} />}
      {data && data.now.total.begins === 0 && data.now.total.late_completions === 0 ? (
        filtered || params.has("range") ? (
          <Empty title="No traffic in this range">
            <p>Nothing was begun with these filters in this time. Choose a longer range, or take a filter away.</p>
          </Empty>
        ) : (
          <FirstEvent />
        )
      ) : (
        data && (
          <>
            <Findings operations={data.now} params={params} range={data.range} />
            <Tiles now={data.now.total} before={data.before} />
            <Charts figures={data} />
            <div class="columns">
              <Card title="Operations, worst first" aside={<a href={href("/operations")}>All operations</a>}>
                <GroupTable what="operation" groups={data.now.items.slice(0, 6)} other={null} brief />
              </Card>
              <Card title="Callers, worst first" aside={<a href={href("/callers")}>All callers</a>}>
                <GroupTable what="caller" groups={data.callers.items.slice(0, 6)} other={null} brief />
              </Card>
            </div>
          </>
        )
      )}
    </>
  );
}

export function Tiles({ now, before }: { now: Group; before: Group }) {
  const rate = now.conflict_rate ?? 0;
  const rateBefore = before.conflict_rate ?? 0;
  const points = (rate - rateBefore) * 100;
  const tiles: { name: string; value: string; delta: string; bad: boolean; hint: string; exact?: number }[] = [
    { name: "Begins", value: compact(now.begins), delta: change(now.begins, before.begins), bad: false, hint: "Every begin that was decided", exact: now.begins },
    {
      name: "Replays", value: compact(now.replays), delta: change(now.replays, before.replays), bad: now.replays > before.replays * 1.5 && now.replays > 10,
      hint: "Begins that were answered with the stored response", exact: now.replays,
    },
    {
      name: "409 rate", value: percent(now.conflict_rate),
      delta: before.begins === 0 ? "none before" : Math.abs(points) < 0.05 ? "as before" : `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(1)} points`,
      bad: points > 1, hint: "Begins refused as in progress, mismatch or unknown, of all begins",
    },
    { name: "Takeovers", value: compact(now.takeovers), delta: change(now.takeovers, before.takeovers), bad: now.takeovers > before.takeovers, hint: "Attempts that took over a lapsed lease", exact: now.takeovers },
    {
      name: "Late completions", value: compact(now.late_completions), delta: change(now.late_completions, before.late_completions), bad: now.late_completions > 0,
      hint: "Completions by a holder that had lost its lease: work may have been done twice", exact: now.late_completions,
    },
  ];
  return (
    <dl class="tiles">
      {tiles.map((t) => (
        <div class="tile" title={t.hint}>
          <dt>{t.name}</dt>
          <dd>
            <span class={`tile-value ${t.name === "Late completions" && now.late_completions > 0 ? "bad" : ""}`} title={t.exact === undefined ? undefined : count(t.exact)} data-figure={t.name}>
              {t.value}
            </span>
            <span class={`tile-delta ${t.bad && t.delta !== "none before" ? "bad" : ""}`}>{t.delta}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

const stepSeconds = { minute: 60, hour: 3600, day: 86400 };

export function Charts({ figures }: { figures: Figures }) {
  const { over, now } = figures;
  const at = over.items.map((i) => i.at);
  const share = (n: number, begins: number) => (begins === 0 ? 0 : n / begins);
  const step = stepSeconds[over.step];
  return (
    <>
      <div class="columns">
        <Card title="409 rate over time" aside={<span class="muted">per {over.step}, UTC</span>}>
          <TimeSeries
            title="409 rate over time"
            at={at}
            stepSeconds={step}
            format={(v) => percent(v)}
            series={[
              { name: "in progress", color: "--c-progress", values: over.items.map((i) => share(i.conflicts.in_progress, i.begins)) },
              { name: "mismatch", color: "--c-mismatch", values: over.items.map((i) => share(i.conflicts.fingerprint_mismatch, i.begins)) },
              { name: "unknown", color: "--c-unknown", values: over.items.map((i) => share(i.conflicts.outcome_unknown, i.begins)) },
            ]}
          />
        </Card>
        <Card title="Outcomes over time" aside={<span class="muted">per {over.step}, UTC</span>}>
          <TimeSeries
            title="Outcomes over time"
            at={at}
            stepSeconds={step}
            format={(v) => compact(v)}
            series={[
              { name: "acquired", color: "--c-acquired", values: over.items.map((i) => i.acquired) },
              { name: "resumed", color: "--c-resumed", values: over.items.map((i) => i.resumed) },
              { name: "replays", color: "--c-replay", values: over.items.map((i) => i.replays) },
              { name: "in progress", color: "--c-progress", values: over.items.map((i) => i.conflicts.in_progress) },
              { name: "mismatch", color: "--c-mismatch", values: over.items.map((i) => i.conflicts.fingerprint_mismatch) },
              { name: "unknown", color: "--c-unknown", values: over.items.map((i) => i.conflicts.outcome_unknown) },
            ]}
          />
        </Card>
      </div>
      <Card title="How late replays come" aside={<span class="muted">age: since the record was first created</span>}>
        <div class="ages-with-aid">
          <AgeHistogram ages={now.total.replay_ages} />
          <ReadingAid group={now.total} />
        </div>
      </Card>
    </>
  );
}

function ReadingAid({ group }: { group: Group }) {
  return (
    <div class="aid">
      <h3>How to read this</h3>
      <dl>
        <dt>Up to 5 s</dt>
        <dd>Answers are lost on the way: network trouble, or a client time-out shorter than the work.</dd>
        <dt>5 s to 30 s</dt>
        <dd>Ordinary retries with back-off, or a person who tries again.</dd>
        <dt>Over 30 s</dt>
        <dd>A retry loop that does not stop, or a circuit breaker that lets old work through.</dd>
      </dl>
      {group.replays === 1 && <p class="muted">One replay: the percentiles are its age.</p>}
      {group.reading.length > 0 && (
        <ul class="aid-readings">
          {group.reading.map((r) => (
            <li>{r.text}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

