import { useState } from "preact/hooks";
import { get, query } from "../api/client";
import type { AuditEntry, Page } from "../api/types";
import { useData } from "../data";
import { useNameOf } from "../session";
import { Card, Empty, Loading, Outside, Time, Trouble, useAction } from "../ui/basics";
import { Table } from "../ui/table";

export function Audit() {
  const names = useNameOf();
  const [actionName, setAction] = useState("");
  const [older, setOlder] = useState<{ items: AuditEntry[]; next: string | null } | null>(null);
  const more = useAction();
  const trail = useData("audit" + actionName, (signal) => get<Page<AuditEntry>>("/v1/audit" + query({ limit: "100", action: actionName || null }), signal));
  const rows = [...(trail.data?.items ?? []), ...(older?.items ?? [])];
  const next = older === null ? (trail.data?.next_cursor ?? null) : older.next;
  const nameOf = (kind: string, id: string) => (kind === "credential" ? names.credential(id) : kind === "namespace" ? names.namespace(id) : id);
  const known = [...new Set(rows.map((e) => e.action))].sort();
  return (
    <Card
      title="Who did what"
      aside={
        <label class="inline">
          <span>Action</span>
          <select
            value={actionName}
            onChange={(e) => {
              setOlder(null);
              setAction(e.currentTarget.value);
            }}
          >
            <option value="">all</option>
            {actionName !== "" && !known.includes(actionName) && <option>{actionName}</option>}
            {known.map((a) => (
              <option>{a}</option>
            ))}
          </select>
        </label>
      }
    >
      {trail.error && <Trouble problem={trail.error} retry={trail.reload} />}
      {trail.loading && <Loading rows={8} />}
      {trail.data && rows.length === 0 && <Empty title="Nothing is in the trail" />}
      {rows.length > 0 && (
        <Table
          caption="Audit trail"
          rows={rows}
          rowKey={(e) => e.id}
          page={100}
          columns={[
            { head: "At", by: (e) => e.at, cell: (e) => <Time at={e.at} /> },
            {
              head: "Who", class: "name",
              cell: (e) => (
                <>
                  <Outside text={e.actor.kind === "credential" ? names.credential(e.actor.name) : e.actor.name} />
                  {e.actor.role && <span class="muted"> ({e.actor.role})</span>}
                </>
              ),
            },
            { head: "Action", by: (e) => e.action, cell: (e) => <code>{e.action}</code> },
            {
              head: "To what", class: "name",
              cell: (e) => (
                <>
                  {e.object.kind} {e.object.id && <Outside text={nameOf(e.object.kind, e.object.id)} />}
                </>
              ),
            },
            { head: "Reason", class: "name", cell: (e) => (e.reason ? <Outside text={e.reason} /> : <span class="muted">–</span>) },
            { head: "From what to what", class: "wide-cell", cell: (e) => <Diff before={e.before} after={e.after} nameOf={nameOf} /> },
            { head: "From", cell: (e) => (e.address ? <code>{e.address}</code> : <span class="muted">–</span>) },
          ]}
        />
      )}
      {more.problem && <Trouble problem={more.problem} />}
      {next && (
        <p class="more">
          <button
            type="button"
            class="button"
            disabled={more.busy}
            onClick={() =>
              more.run(async () => {
                const page = await get<Page<AuditEntry>>("/v1/audit" + query({ limit: "100", action: actionName || null, cursor: next }));
                setOlder({ items: [...(older?.items ?? []), ...page.items], next: page.next_cursor });
              })
            }
          >
            Older entries
          </button>
        </p>
      )}
    </Card>
  );
}

// Diff shows the members that differ, as text.
function Diff({ before, after, nameOf }: { before: unknown; after: unknown; nameOf: (kind: string, id: string) => string }) {
  if (before === null && after === null) return <span class="muted">–</span>;
  const b = isObject(before) ? before : before === null ? {} : { value: before };
  const a = isObject(after) ? after : after === null ? {} : { value: after };
  const members = [...new Set([...Object.keys(b), ...Object.keys(a)])].filter((k) => JSON.stringify(b[k]) !== JSON.stringify(a[k]));
  const text = (k: string, v: unknown) => JSON.stringify(k === "namespace" && typeof v === "string" ? nameOf("namespace", v) : v);
  return (
    <ul class="plain diff">
      {members.map((k) => (
        <li>
          {k !== "value" && <span class="muted">{k} </span>}
          {k in b && (
            <>
              <del>
                <Outside text={text(k, b[k])} />
              </del>{" "}
            </>
          )}
          {k in a && (
            <ins>
              <Outside text={text(k, a[k])} />
            </ins>
          )}
        </li>
      ))}
    </ul>
  );
}

const isObject = (v: unknown): v is { [name: string]: unknown } => typeof v === "object" && v !== null && !Array.isArray(v);
