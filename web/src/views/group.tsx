// The page of one operation or one caller.
import { useState } from "preact/hooks";
import { get, query } from "../api/client";
import type { Event, Override, Page, Policy } from "../api/types";
import { useData } from "../data";
import { length } from "../format";
import { rangeOf } from "../range";
import { href, type Place } from "../router";
import { useNameOf } from "../session";
import { Card, Empty, Loading, Outside, Trouble } from "../ui/basics";
import { Filters } from "../ui/filters";
import { EventTable } from "./events";
import { GroupTable } from "./groups";
import { Charts, every, readFigures, Tiles } from "./overview";

export function GroupPage({ place, what }: { place: Place; what: "operation" | "caller" }) {
  const [paused, pause] = useState(false);
  const params = place.params;
  const name = params.get(what);
  const figures = useData(place.path + params, (signal) => readFigures(params, signal), paused ? 0 : every);
  const events = useData(
    "events" + params,
    (signal) =>
      get<Page<Event>>(
        "/v1/events" + query({ operation: params.get("operation"), caller: params.get("caller"), namespace: params.get("namespace"), limit: "10" }),
        signal,
      ),
    paused ? 0 : every,
  );
  if (name === null) return <Empty title={`Which ${what}?`}>Choose one from the list.</Empty>;
  const data = figures.data;
  const mine = what === "operation" ? data?.now.items.find((g) => g.operation === name) : data?.callers.items.find((g) => g.caller === name);
  return (
    <>
      <div class="page-head">
        <p class="crumb">
          <a href={href(what === "operation" ? "/operations" : "/callers")}>{what === "operation" ? "Operations" : "Callers"}</a> /
        </p>
        <h1 class="long">
          <Outside text={name} empty="(the empty caller)" />
        </h1>
        <Filters
          params={params}
          range={data?.range ?? rangeOf(params, Date.now())}
          live={{ paused, set: pause, at: data?.at ?? null }}
          only={[what === "operation" ? "caller" : "operation"]}
        />
      </div>
      {figures.error && <Trouble problem={figures.error} retry={figures.reload} />}
      {figures.loading && <Loading rows={6} />}
      {data && data.now.total.begins === 0 && <Empty title="No traffic in this range" />}
      {data && data.now.total.begins > 0 && (
        <>
          {mine && mine.reading.length > 0 && (
            <section class="findings" aria-label="What the figures say">
              <ul>
                {mine.reading.map((r) => (
                  <li class={`finding finding-${r.code}`}>
                    <p>{r.text}</p>
                  </li>
                ))}
              </ul>
            </section>
          )}
          <Tiles now={data.now.total} before={data.before} />
          <Charts figures={data} />
          <Card title={what === "operation" ? "Its callers, worst first" : "Its operations, worst first"}>
            {what === "operation" ? (
              <GroupTable what="caller" groups={data.callers.items} other={data.callers.other} />
            ) : (
              <GroupTable what="operation" groups={data.now.items} other={data.now.other} />
            )}
          </Card>
        </>
      )}
      <div class="columns">
        {what === "operation" && <PolicyOf operation={name} />}
        <Card title="Last events" aside={<a href={href("/events", { [what]: name })}>All of them</a>}>
          {events.error && <Trouble problem={events.error} retry={events.reload} />}
          {events.loading && <Loading />}
          {events.data && (events.data.items.length === 0 ? <Empty title="No single events in the last seven days" /> : <EventTable events={events.data.items} brief />)}
        </Card>
      </div>
    </>
  );
}

function PolicyOf({ operation }: { operation: string }) {
  const names = useNameOf();
  const policy = useData("policy", async (signal) => {
    const [defaults, overrides] = await Promise.all([get<Policy>("/v1/policy", signal), get<Page<Override>>("/v1/policy/operations", signal)]);
    return { defaults, overrides: overrides.items };
  });
  const rows = policy.data?.overrides.filter((o) => o.operation === operation) ?? [];
  const d = policy.data?.defaults;
  const wide = rows.find((o) => o.namespace === null);
  const row = (name: string, key: keyof Policy, show: (v: never) => string) => {
    if (!d) return null;
    const own = wide?.[key];
    return (
      <div>
        <dt>{name}</dt>
        <dd>
          {show((own ?? d[key]) as never)} {own === undefined ? <span class="muted">tenant's default</span> : <span class="chip">its own</span>}
        </dd>
      </div>
    );
  };
  return (
    <Card title="Policy in force" aside={<a href={href("/settings/policy")}>All policies</a>}>
      {policy.error && <Trouble problem={policy.error} retry={policy.reload} />}
      {policy.loading && <Loading />}
      {d && (
        <dl class="facts">
          {row("Retention", "retention_seconds", (v: number) => length(v))}
          {row("Lease", "lease_seconds", (v: number) => length(v))}
          {row("When a lease ends", "on_lease_expiry", String)}
          {row("On mismatch", "on_mismatch", String)}
          {row("Stored errors", "store_errors", String)}
          {row("Stored bodies", "store_body", String)}
          {rows
            .filter((o) => o.namespace !== null)
            .map((o) => (
              <div>
                <dt>
                  In <Outside text={names.namespace(o.namespace)} />
                </dt>
                <dd>has a policy of its own</dd>
              </div>
            ))}
        </dl>
      )}
    </Card>
  );
}
