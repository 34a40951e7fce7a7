// Unknown records as a work list.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Found, KeyRecord } from "../api/types";
import { useData } from "../data";
import { count } from "../format";
import { useNameOf, useSession } from "../session";
import { Card, Empty, Loading, Trouble } from "../ui/basics";
import { Table, type Column } from "../ui/table";
import { recordColumns } from "./keys";
import { Resolve } from "./resolve";

export async function readUnknown(signal?: AbortSignal): Promise<Found> {
  return (await call<Found>("/v1/keys/search", { method: "POST", body: { state: "unknown", limit: 200 }, signal })).body;
}

export function Unknown() {
  const session = useSession();
  const names = useNameOf();
  const unknown = useData("unknown", readUnknown, 5_000);
  const [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const [resolving, resolve] = useState<KeyRecord[] | null>(null);
  const decides = (r: KeyRecord) =>
    session.role === "admin" || (session.role === "resolver" && (session.namespaces === null || session.namespaces.includes(r.namespace)));
  const records = unknown.data?.items ?? [];
  const mine = records.filter(decides);
  const picked = mine.filter((r) => chosen.has(r.id));
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    choose(next);
  };
  const columns: Column<KeyRecord>[] = [
    {
      head: "Choose",
      cell: (r) => <input type="checkbox" aria-label={`Choose ${r.key}`} disabled={!decides(r)} checked={chosen.has(r.id)} onChange={() => toggle(r.id)} />,
    },
    ...recordColumns(names).filter((c) => !["State", "Status", "Body", "Expires"].includes(c.head)),
    {
      head: "Decide",
      cell: (r) =>
        decides(r) ? (
          <button type="button" class="button small" onClick={() => resolve([r])}>
            Resolve …
          </button>
        ) : (
          <span class="muted">needs a resolver</span>
        ),
    },
  ];
  return (
    <>
      <div class="page-head">
        <h1>Unknown outcomes</h1>
        <p class="lead">
          These attempts may or may not have done their work. Nobody runs them again until their holder answers or somebody decides. Look where the work is
          done, then say what happened.
        </p>
      </div>
      {unknown.error && <Trouble problem={unknown.error} retry={unknown.reload} />}
      {unknown.loading && <Loading rows={5} />}
      {unknown.data && records.length === 0 && (
        <Empty title="Nothing waits for a decision">
          <p>Records come here when a lease under hold ends without an answer, or when their holder says that it does not know.</p>
        </Empty>
      )}
      {records.length > 0 && (
        <Card>
          <div class="bar">
            <button type="button" class="button" disabled={mine.length === 0} onClick={() => choose(picked.length === mine.length ? new Set() : new Set(mine.map((r) => r.id)))}>
              {picked.length === mine.length && mine.length > 0 ? "Choose none" : "Choose all"}
            </button>
            <button type="button" class="button primary" disabled={picked.length === 0} onClick={() => resolve(picked)}>
              Resolve {picked.length === 0 ? "the chosen" : count(picked.length)} …
            </button>
            <span class="muted">
              {count(records.length)}
              {unknown.data?.next_cursor ? " or more" : ""} wait, newest first
            </span>
          </div>
          <Table caption="Unknown records" columns={columns} rows={records} rowKey={(r) => r.id} page={200} />
        </Card>
      )}
      {resolving && (
        <Resolve
          records={resolving}
          onClose={() => resolve(null)}
          onDone={() => {
            choose(new Set());
            unknown.reload();
          }}
        />
      )}
    </>
  );
}
