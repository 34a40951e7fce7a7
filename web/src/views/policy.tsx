import { useState } from "preact/hooks";
import { call, query } from "../api/client";
import type { Override, Page, Policy } from "../api/types";
import { useData } from "../data";
import { length } from "../format";
import { useNameOf, useNamespaces, useRole } from "../session";
import { Card, Dialog, Field, Loading, Outside, Trouble, useAction } from "../ui/basics";
import { Duration } from "../ui/duration";
import { Table } from "../ui/table";

// The members of a policy: how each is shown, said and edited.
interface Member {
  key: keyof Policy;
  name: string;
  hint: string;
  kind: "seconds" | "list" | "number" | "choice";
  choices?: (string | number)[];
}

const members: Member[] = [
  { key: "retention_seconds", name: "Retention", kind: "seconds", hint: "how long a response is replayed after it was completed" },
  { key: "lease_seconds", name: "Lease", kind: "seconds", hint: "longer than your own hard time-out, or renew" },
  { key: "on_lease_expiry", name: "When a lease ends", kind: "choice", choices: ["takeover", "hold"], hint: "takeover: the next begin runs it again. hold: nobody does until somebody decides; for money" },
  { key: "on_mismatch", name: "On mismatch", kind: "choice", choices: ["reject", "replay"], hint: "what another request under a completed key gets" },
  { key: "mismatch_status", name: "Status of a mismatch", kind: "number", choices: [409, 422, 400], hint: "what your clients expect" },
  { key: "store_errors", name: "Stored errors", kind: "choice", choices: ["all", "client", "none"], hint: "all: a stored 500 replays. client, none: such an answer releases, and the operation runs again" },
  { key: "store_body", name: "Stored bodies", kind: "choice", choices: ["all", "none"], hint: "none: for bodies that hold secrets" },
  { key: "strip_headers", name: "Headers not stored", kind: "list", hint: "one name a line" },
  { key: "keep_headers", name: "Only headers stored", kind: "list", hint: "one name a line; empty: all but those above" },
  { key: "ignore_pointers", name: "Ignored in JSON bodies", kind: "list", hint: "one JSON pointer a line, such as /sent_at; at most 32" },
];

type Value = string | number | string[];

function show(m: Member, value: Value): string {
  if (m.kind === "seconds") return length(value as number);
  if (m.kind === "list") return (value as string[]).join(", ") || "none";
  return String(value);
}

interface Loaded {
  policy: Policy;
  overrides: Override[];
  etag: string | null;
}

type Open = null | { what: "defaults" } | { what: "operation"; row: Override | null } | { what: "delete"; row: Override };

export function Policies() {
  const admin = useRole() === "admin";
  const names = useNameOf();
  const [dialog, open] = useState<Open>(null);
  const loaded = useData("policies", async (signal): Promise<Loaded> => {
    const [policy, overrides] = await Promise.all([call<Policy>("/v1/policy", { signal }), call<Page<Override>>("/v1/policy/operations", { signal })]);
    // The older of two versions: a change between the two reads is then stale.
    const [a, b] = [policy.etag, overrides.etag];
    return { policy: policy.body, overrides: overrides.body.items, etag: a !== b && a && b ? (Number(a.slice(1, -1)) < Number(b.slice(1, -1)) ? a : b) : a };
  });
  const data = loaded.data;
  const close = () => open(null);
  const done = () => {
    close();
    loaded.reload();
  };
  return (
    <>
      {loaded.error && <Trouble problem={loaded.error} retry={loaded.reload} />}
      {loaded.loading && <Loading rows={6} />}
      {data && (
        <>
          <Card
            title="The tenant's defaults"
            aside={
              admin && (
                <button type="button" class="button" onClick={() => open({ what: "defaults" })}>
                  Change …
                </button>
              )
            }
          >
            <dl class="facts">
              {members.map((m) => (
                <div>
                  <dt title={m.hint}>{m.name}</dt>
                  <dd>
                    <Outside text={show(m, data.policy[m.key])} />
                  </dd>
                </div>
              ))}
            </dl>
          </Card>
          <Card
            title="By operation"
            aside={
              admin && (
                <button type="button" class="button primary" onClick={() => open({ what: "operation", row: null })}>
                  Add an operation …
                </button>
              )
            }
          >
            <p class="card-note muted">What a row does not name is the tenant's default. A row for one namespace comes before the row for all of them.</p>
            <Table
              caption="Policies by operation"
              rows={data.overrides}
              rowKey={(o) => o.operation + " " + o.namespace}
              columns={[
                { head: "Operation", class: "name", by: (o) => o.operation, cell: (o) => <Outside text={o.operation} /> },
                { head: "Namespace", class: "name", cell: (o) => (o.namespace ? <Outside text={names.namespace(o.namespace)} /> : <span class="muted">all</span>) },
                {
                  head: "What is its own", class: "wide-cell",
                  cell: (o) => (
                    <ul class="plain">
                      {members
                        .filter((m) => o[m.key] !== undefined)
                        .map((m) => (
                          <li>
                            <span class="muted">{m.name}:</span> <Outside text={show(m, o[m.key] as Value)} />
                          </li>
                        ))}
                    </ul>
                  ),
                },
                {
                  head: "Actions",
                  cell: (o) =>
                    admin && (
                      <span class="row-actions">
                        <button type="button" class="button small" aria-label={`Change ${o.operation}`} onClick={() => open({ what: "operation", row: o })}>
                          Change …
                        </button>
                        <button type="button" class="button small danger" aria-label={`Remove ${o.operation}`} onClick={() => open({ what: "delete", row: o })}>
                          Remove …
                        </button>
                      </span>
                    ),
                },
              ]}
            />
          </Card>
        </>
      )}
      {data && dialog?.what === "defaults" && <EditDefaults data={data} onClose={close} onDone={done} />}
      {data && dialog?.what === "operation" && <EditOperation data={data} row={dialog.row} onClose={close} onDone={done} />}
      {data && dialog?.what === "delete" && <Remove row={dialog.row} etag={data.etag} onClose={close} onDone={done} />}
    </>
  );
}

function Input({ m, value, onChange, id, by }: { m: Member; value: Value; onChange: (v: Value) => void; id: string; by: string }) {
  switch (m.kind) {
    case "seconds":
      return <Duration id={id} describedBy={by} value={value as number} onChange={onChange} />;
    case "list":
      return (
        <textarea
          id={id}
          aria-describedby={by}
          rows={3}
          class="mono"
          spellcheck={false}
          value={(value as string[]).join("\n")}
          onInput={(e) => onChange(e.currentTarget.value.split("\n").filter((l, i, all) => l !== "" || i === all.length - 1))}
        />
      );
    default:
      return (
        <select id={id} aria-describedby={by} value={String(value)} onChange={(e) => onChange(m.kind === "number" ? Number(e.currentTarget.value) : e.currentTarget.value)}>
          {m.choices!.map((c) => (
            <option value={c}>{c}</option>
          ))}
        </select>
      );
  }
}

const clean = (v: Value): Value => (Array.isArray(v) ? v.filter((x) => x !== "") : v);

function EditDefaults({ data, onClose, onDone }: { data: Loaded; onClose: () => void; onDone: () => void }) {
  const [form, setForm] = useState<Policy>({ ...data.policy });
  const action = useAction();
  const changes = Object.fromEntries(members.filter((m) => JSON.stringify(clean(form[m.key])) !== JSON.stringify(data.policy[m.key])).map((m) => [m.key, clean(form[m.key])]));
  return (
    <Dialog title="The tenant's defaults" onClose={onClose} wide>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          action.run(async () => {
            await call("/v1/policy", { method: "PATCH", ifMatch: data.etag, body: changes });
            onDone();
          });
        }}
      >
        <p class="muted">In force on every process within five seconds, for attempts and answers from then on.</p>
        <div class="two">
          {members.map((m) => (
            <Field label={m.name} hint={m.hint}>
              {(id, by) => <Input m={m} id={id} by={by} value={form[m.key]} onChange={(v) => setForm({ ...form, [m.key]: v })} />}
            </Field>
          ))}
        </div>
        {action.problem && <Trouble problem={action.problem} />}
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button class="button primary" disabled={action.busy || Object.keys(changes).length === 0}>
            Save
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function EditOperation({ data, row, onClose, onDone }: { data: Loaded; row: Override | null; onClose: () => void; onDone: () => void }) {
  const namespaces = useNamespaces();
  const [operation, setOperation] = useState(row?.operation ?? "");
  const [namespace, setNamespace] = useState(row?.namespace ?? "");
  const [form, setForm] = useState<Partial<Policy>>(() => Object.fromEntries(members.filter((m) => row?.[m.key] !== undefined).map((m) => [m.key, row![m.key]])) as Partial<Policy>);
  const action = useAction();
  return (
    <Dialog title={row ? "Change an operation's policy" : "A policy for one operation"} onClose={onClose} wide>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          action.run(async () => {
            const body = { operation, ...(namespace ? { namespace } : {}), ...Object.fromEntries(Object.entries(form).map(([k, v]) => [k, clean(v as Value)])) };
            await call("/v1/policy/operations", { method: "PUT", ifMatch: data.etag, body });
            onDone();
          });
        }}
      >
        <div class="two">
          <Field label="Operation" hint="exactly as your code names it">
            {(id, by) => <input id={id} aria-describedby={by} required disabled={row !== null} value={operation} onInput={(e) => setOperation(e.currentTarget.value)} spellcheck={false} />}
          </Field>
          <Field label="Namespace">
            {(id) => (
              <select id={id} disabled={row !== null} value={namespace} onChange={(e) => setNamespace(e.currentTarget.value)}>
                <option value="">all</option>
                {namespaces.map((n) => (
                  <option value={n.id}>{n.name}</option>
                ))}
              </select>
            )}
          </Field>
        </div>
        <fieldset>
          <legend>Its own; what is not ticked is the tenant's default</legend>
          {members.map((m) => {
            const own = form[m.key] !== undefined;
            return (
              <div class="own">
                <label class="check">
                  <input
                    type="checkbox"
                    checked={own}
                    onChange={() => {
                      const next = { ...form };
                      if (own) delete next[m.key];
                      else Object.assign(next, { [m.key]: data.policy[m.key] });
                      setForm(next);
                    }}
                  />{" "}
                  {m.name}
                </label>
                {own ? (
                  <Field label={`${m.name} of the operation`} hint={m.hint}>
                    {(id, by) => <Input m={m} id={id} by={by} value={form[m.key]!} onChange={(v) => setForm({ ...form, [m.key]: v })} />}
                  </Field>
                ) : (
                  <span class="muted">
                    <Outside text={show(m, data.policy[m.key])} />
                  </span>
                )}
              </div>
            );
          })}
        </fieldset>
        {action.problem && <Trouble problem={action.problem} />}
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button class="button primary" disabled={action.busy || operation === "" || Object.keys(form).length === 0}>
            Save
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Remove({ row, etag, onClose, onDone }: { row: Override; etag: string | null; onClose: () => void; onDone: () => void }) {
  const names = useNameOf();
  const action = useAction();
  return (
    <Dialog title="Remove an operation's policy" onClose={onClose}>
      <p>
        <strong><Outside text={row.operation} /></strong> in {row.namespace ? <Outside text={names.namespace(row.namespace)} /> : "all namespaces"} goes by the
        tenant's defaults again. Records that exist keep what they were begun with.
      </p>
      {action.problem && <Trouble problem={action.problem} />}
      <footer class="dialog-foot">
        <button type="button" class="button" onClick={onClose}>
          Keep it
        </button>
        <button
          type="button"
          class="button danger"
          disabled={action.busy}
          onClick={() =>
            action.run(async () => {
              await call("/v1/policy/operations" + query({ operation: row.operation, namespace: row.namespace }), { method: "DELETE", ifMatch: etag });
              onDone();
            })
          }
        >
          Remove it
        </button>
      </footer>
    </Dialog>
  );
}
