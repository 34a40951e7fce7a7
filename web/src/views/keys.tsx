// Finding records. What is searched for stays out of the address: keys and
// metadata are personal.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Found, KeyRecord, State } from "../api/types";
import { bytes } from "../format";
import { href } from "../router";
import { useNameOf, useNamespaces } from "../session";
import { Card, Chip, Empty, Field, Outside, Time, Trouble, useAction } from "../ui/basics";
import { Table, type Column } from "../ui/table";

export const states: State[] = ["in_progress", "lapsed", "unknown", "open", "completed"];

interface Form {
  key: string;
  caller: string;
  operation: string;
  namespace: string;
  state: string;
  metadata: string;
}

const blank: Form = { key: "", caller: "", operation: "", namespace: "", state: "", metadata: "" };

export function recordColumns(names: ReturnType<typeof useNameOf>): Column<KeyRecord>[] {
  return [
    { head: "Key", class: "name", by: (r) => r.key, cell: (r) => <a class="mono" href={href(`/keys/${r.id}`)}><Outside text={r.key} /></a> },
    { head: "State", by: (r) => r.state, cell: (r) => <Chip kind={r.state}>{r.state.replace("_", " ")}</Chip> },
    { head: "Operation", class: "name", by: (r) => r.operation, cell: (r) => <Outside text={r.operation} /> },
    { head: "Caller", class: "name", by: (r) => r.caller, cell: (r) => <Outside text={r.caller} empty="(empty)" /> },
    { head: "Namespace", class: "name", by: (r) => names.namespace(r.namespace), cell: (r) => <Outside text={names.namespace(r.namespace)} /> },
    { head: "Attempt", number: true, by: (r) => r.attempt, cell: (r) => r.attempt },
    { head: "Status", number: true, by: (r) => r.status, cell: (r) => r.status ?? "–" },
    { head: "Body", number: true, by: (r) => r.body_bytes, cell: (r) => (r.status === null ? "–" : bytes(r.body_bytes)) },
    { head: "Created", by: (r) => r.created_at, cell: (r) => <Time at={r.created_at} /> },
    { head: "Expires", by: (r) => r.expires_at, cell: (r) => (r.expires_at ? <Time at={r.expires_at} /> : "never") },
  ];
}

export function Keys() {
  const namespaces = useNamespaces();
  const names = useNameOf();
  const [form, setForm] = useState<Form>(blank);
  const [asked, setAsked] = useState<object | null>(null);
  const [found, setFound] = useState<Found | null>(null);
  const action = useAction();
  const set = (name: keyof Form) => (e: { currentTarget: HTMLInputElement | HTMLSelectElement }) => setForm({ ...form, [name]: e.currentTarget.value });

  const search = (cursor: string | null) =>
    action.run(async () => {
      const filter = cursor === null ? filterOf(form) : asked!;
      const { body } = await call<Found>("/v1/keys/search", { method: "POST", body: { ...filter, limit: 50, ...(cursor === null ? {} : { cursor }) } });
      setAsked(filter);
      setFound(cursor === null ? body : { ...body, items: [...found!.items, ...body.items] });
    });

  return (
    <>
      <div class="page-head">
        <h1>Keys</h1>
      </div>
      <Card>
        <form
          class="search"
          role="search"
          aria-label="Find records"
          onSubmit={(e) => {
            e.preventDefault();
            search(null);
          }}
        >
          <Field label="Key" hint="the whole key, byte for byte">
            {(id, by) => <input id={id} aria-describedby={by} value={form.key} onInput={set("key")} spellcheck={false} autocomplete="off" />}
          </Field>
          <Field label="Operation">{(id) => <input id={id} value={form.operation} onInput={set("operation")} spellcheck={false} autocomplete="off" />}</Field>
          <Field label="Caller">{(id) => <input id={id} value={form.caller} onInput={set("caller")} spellcheck={false} autocomplete="off" />}</Field>
          <Field label="Metadata" hint="name=value, several with commas">
            {(id, by) => <input id={id} aria-describedby={by} value={form.metadata} onInput={set("metadata")} spellcheck={false} autocomplete="off" />}
          </Field>
          <Field label="Namespace">
            {(id) => (
              <select id={id} value={form.namespace} onChange={set("namespace")}>
                <option value="">all</option>
                {namespaces.map((n) => (
                  <option value={n.id}>{n.name}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="State">
            {(id) => (
              <select id={id} value={form.state} onChange={set("state")}>
                <option value="">any</option>
                {states.map((s) => (
                  <option value={s}>{s.replace("_", " ")}</option>
                ))}
              </select>
            )}
          </Field>
          <div class="search-go">
            <button class="button primary" disabled={action.busy}>
              {action.busy ? "Searching …" : "Search"}
            </button>
          </div>
        </form>
      </Card>
      {action.problem && <Trouble problem={action.problem} />}
      {found === null && !action.problem && (
        <Empty title="Find a record">
          <p>By its whole key, or the newest by operation, caller, metadata, namespace and state. Everything left empty finds the newest of all.</p>
        </Empty>
      )}
      {found && found.items.length === 0 && (
        <Empty title="No record is found">
          <p>It may have expired, or never have been begun. Keys are compared byte for byte.</p>
        </Empty>
      )}
      {found && found.items.length > 0 && (
        <Card>
          <p class="card-note muted">Newest first. The search is {found.lag_seconds < 0.5 ? "up to date" : `${found.lag_seconds.toFixed(1)} s behind`}.</p>
          <Table caption="Records" columns={recordColumns(names)} rows={found.items} rowKey={(r) => r.id} page={50} />
          {found.next_cursor && (
            <p class="more">
              <button type="button" class="button" disabled={action.busy} onClick={() => search(found.next_cursor)}>
                Older records
              </button>
            </p>
          )}
        </Card>
      )}
    </>
  );
}

function filterOf(form: Form): object {
  const filter: { [name: string]: unknown } = {};
  for (const name of ["key", "caller", "operation", "namespace", "state"] as const) if (form[name] !== "") filter[name] = form[name];
  const pairs = form.metadata.split(",").map((p) => p.trim()).filter((p) => p !== "");
  if (pairs.length > 0) {
    filter["metadata"] = Object.fromEntries(
      pairs.map((p) => {
        const i = p.indexOf("=");
        return i < 0 ? [p, ""] : [p.slice(0, i).trim(), p.slice(i + 1).trim()];
      }),
    );
  }
  return filter;
}
