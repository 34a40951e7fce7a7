// Use per day, against the limits.
import { get } from "../api/client";
import type { Usage as Report } from "../api/types";
import { useData } from "../data";
import { bytes, count } from "../format";
import { Card, Empty, Loading, Time, Trouble } from "../ui/basics";
import { Table } from "../ui/table";

export function Usage() {
  const usage = useData("usage", (signal) => get<Report>("/v1/usage", signal), 60_000);
  const u = usage.data;
  return (
    <>
      {usage.error && <Trouble problem={usage.error} retry={usage.reload} />}
      {usage.loading && <Loading rows={5} />}
      {u && (
        <>
          <Card title="Held now, against the limits" aside={<span class="muted">counted <Time at={u.counted_at} /></span>}>
            <dl class="facts">
              <Against name="Live records" used={u.live_records} limit={u.limits.max_live_records} show={count} />
              <Against name="Stored bytes" used={u.stored_bytes} limit={u.limits.max_stored_bytes} show={bytes} />
              <Rate name="Requests per second" limit={u.limits.requests_per_second} />
              <Rate name="Requests per second and namespace" limit={u.limits.namespace_requests_per_second} />
              <Rate name="Begins per second and caller" limit={u.limits.caller_requests_per_second} />
              <div>
                <dt>New keys</dt>
                <dd>at most {count(u.limits.new_keys_per_minute)} per minute and caller</dd>
              </div>
              <div>
                <dt>One body</dt>
                <dd>at most {bytes(u.limits.body_limit_bytes)}</dd>
              </div>
            </dl>
          </Card>
          <Card title="Per day (UTC)">
            {u.days.length === 0 ? (
              <Empty title="No use in the last 30 days" />
            ) : (
              <Table
                caption="Use per day"
                rows={u.days}
                rowKey={(d) => d.day}
                page={31}
                columns={[
                  { head: "Day", by: (d) => d.day, cell: (d) => d.day },
                  { head: "Requests", number: true, by: (d) => d.requests, cell: (d) => count(d.requests) },
                  { head: "New records", number: true, by: (d) => d.new_records, cell: (d) => count(d.new_records) },
                  { head: "Refused by a limit", number: true, by: (d) => d.limited, cell: (d) => <span class={d.limited > 0 ? "bad" : ""}>{count(d.limited)}</span> },
                ]}
              />
            )}
          </Card>
        </>
      )}
    </>
  );
}

function Rate({ name, limit }: { name: string; limit: number | null }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{limit === null ? "no limit" : `at most ${count(limit)}`}</dd>
    </div>
  );
}

function Against({ name, used, limit, show }: { name: string; used: number; limit: number | null; show: (n: number) => string }) {
  const share = limit === null || limit === 0 ? null : used / limit;
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <span class={share !== null && share > 0.9 ? "bad" : ""}>{show(used)}</span>
        <span class="muted">{limit === null ? ", no limit" : ` of ${show(limit)}`}</span>
        {share !== null && <meter min={0} max={1} low={0.75} high={0.9} optimum={0} value={Math.min(1, share)} aria-label={`${name}: share of the limit`} />}
      </dd>
    </div>
  );
}
