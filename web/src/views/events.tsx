// Single replays, 409s, takeovers and late completions as they come.
import { useEffect, useState } from "preact/hooks";
import { get, query } from "../api/client";
import type { Event, EventKind, Page } from "../api/types";
import { useData } from "../data";
import { kindName, seconds } from "../format";
import { rangeOf } from "../range";
import { href, setParams, type Place } from "../router";
import { useNameOf } from "../session";
import { Card, Chip, Empty, Loading, Outside, Time, Trouble, useAction } from "../ui/basics";
import { Filters } from "../ui/filters";
import { Table, type Column } from "../ui/table";

const kinds: EventKind[] = ["replay", "in_progress", "mismatch", "unknown", "takeover", "late_completion", "declared_unknown"];

export function EventTable({ events, brief = false }: { events: Event[]; brief?: boolean }) {
  const names = useNameOf();
  const all: Column<Event>[] = [
    { head: "At", cell: (e) => <Time at={e.at} short={brief} />, by: (e) => e.at },
    { head: "What", cell: (e) => <Chip kind={e.kind}>{kindName(e.kind)}</Chip>, by: (e) => e.kind },
    { head: "Operation", class: "name", by: (e) => e.operation, cell: (e) => <a href={href("/operation", { operation: e.operation })}><Outside text={e.operation} /></a> },
    { head: "Caller", class: "name", by: (e) => e.caller, cell: (e) => <a href={href("/caller", { caller: e.caller })}><Outside text={e.caller} empty="(empty)" /></a> },
    { head: "Key", class: "name", by: (e) => e.key, cell: (e) => <a class="mono" href={href(`/keys/${e.id}`)}><Outside text={e.key} /></a> },
    { head: "Age", number: true, by: (e) => e.age_seconds, cell: (e) => seconds(e.age_seconds) },
    { head: "Status", number: true, by: (e) => e.original_status, cell: (e) => e.original_status ?? "–" },
    { head: "Attempt", number: true, by: (e) => e.attempt, cell: (e) => e.attempt ?? "–" },
    { head: "Credential", class: "name", by: (e) => names.credential(e.credential), cell: (e) => <Outside text={names.credential(e.credential)} /> },
    { head: "Trace", cell: (e) => (e.trace_id ? <code title={e.trace_id}>{e.trace_id.slice(0, 8)}…</code> : <span class="muted">–</span>) },
  ];
  const columns = brief ? all.filter((c) => ["At", "What", "Caller", "Key", "Age"].includes(c.head)) : all;
  return <Table caption="Events" columns={columns} rows={events} rowKey={(e) => e.at + e.id + e.kind} page={50} />;
}

export function Events({ place }: { place: Place }) {
  const params = place.params;
  const [paused, pause] = useState(false);
  const [older, setOlder] = useState<{ items: Event[]; next: string | null } | null>(null);
  const more = useAction();
  const kind = params.get("kind");
  const range = rangeOf(params, Date.now());
  const filter = {
    kind, operation: params.get("operation"), caller: params.get("caller"), namespace: params.get("namespace"),
    since: new Date(Math.max(Date.parse(range.from), Date.now() - 7 * 86_400_000)).toISOString().slice(0, 16) + ":00Z", limit: "100",
  };
  const key = params.toString();
  useEffect(() => setOlder(null), [key]);
  const events = useData(
    key,
    async (signal) => ({ page: await get<Page<Event>>("/v1/events" + query(filter), signal), since: filter.since, at: Date.now() }),
    paused || older !== null ? 0 : 3_000,
  );
  const data = events.data;
  const next = older === null ? (data?.page.next_cursor ?? null) : older.next;
  return (
    <>
      <div class="page-head">
        <h1>Events</h1>
        <Filters params={params} range={range} live={{ paused: paused || older !== null, set: (p) => { pause(p); if (!p) setOlder(null); }, at: data?.at ?? null }} />
        <div class="segmented" role="group" aria-label="Kind of event">
          <button type="button" aria-pressed={kind === null} onClick={() => setParams({ kind: null })}>
            all
          </button>
          {kinds.map((k) => (
            <button type="button" aria-pressed={kind === k} onClick={() => setParams({ kind: k })}>
              {kindName(k)}
            </button>
          ))}
        </div>
      </div>
      {events.error && <Trouble problem={events.error} retry={events.reload} />}
      {events.loading && <Loading rows={8} />}
      {data && data.page.items.length === 0 && (
        <Empty title="No events in this range">
          <p>Replays, 409s, takeovers and late completions appear here as they come. They are kept for seven days.</p>
        </Empty>
      )}
      {data && data.page.items.length > 0 && (
        <Card>
          <EventTable events={[...data.page.items, ...(older?.items ?? [])]} />
          {more.problem && <Trouble problem={more.problem} />}
          {next && (
            <p class="more">
              <button
                type="button"
                class="button"
                disabled={more.busy}
                onClick={() =>
                  more.run(async () => {
                    const page = await get<Page<Event>>("/v1/events" + query({ ...filter, since: data.since, cursor: next }));
                    setOlder({ items: [...(older?.items ?? []), ...page.items], next: page.next_cursor });
                  })
                }
              >
                Older events (stops the updates)
              </button>
            </p>
          )}
        </Card>
      )}
    </>
  );
}
