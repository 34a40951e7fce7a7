import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Namespace } from "../api/types";
import { useNames, useRole } from "../session";
import { Card, Dialog, Field, Outside, Trouble, useAction } from "../ui/basics";
import { Table } from "../ui/table";

export const scopeHint = "operation: the same key under two operations is two records. namespace: a key is one record whatever the operation. It never changes.";

export function Namespaces() {
  const { namespaces, reload } = useNames();
  const admin = useRole() === "admin";
  const [dialog, open] = useState<null | Namespace | "new">(null);
  return (
    <Card
      title="Namespaces"
      aside={
        admin && (
          <button type="button" class="button primary" onClick={() => open("new")}>
            Make a namespace …
          </button>
        )
      }
    >
      <p class="card-note muted">Two namespaces never see each other's keys. Live and test are two at least; every service credential belongs to one.</p>
      <Table
        caption="Namespaces"
        rows={namespaces}
        rowKey={(n) => n.id}
        columns={[
          { head: "Name", class: "name", by: (n) => n.name, cell: (n) => <Outside text={n.name} /> },
          { head: "Key scope", by: (n) => n.key_scope, cell: (n) => n.key_scope },
          { head: "Id", cell: (n) => <code>{n.id}</code> },
          {
            head: "Actions",
            cell: (n) =>
              admin && (
                <button type="button" class="button small" aria-label={`Rename ${n.name}`} onClick={() => open(n)}>
                  Rename …
                </button>
              ),
          },
        ]}
      />
      {dialog && <Edit namespace={dialog === "new" ? null : dialog} onClose={() => open(null)} onDone={reload} />}
    </Card>
  );
}

function Edit({ namespace, onClose, onDone }: { namespace: Namespace | null; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(namespace?.name ?? "");
  const [scope, setScope] = useState("operation");
  const action = useAction();
  return (
    <Dialog title={namespace ? "Rename a namespace" : "Make a namespace"} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          action.run(async () => {
            if (namespace) await call(`/v1/namespaces/${namespace.id}`, { method: "PATCH", body: { name } });
            else await call("/v1/namespaces", { method: "POST", body: { name, key_scope: scope } });
            onDone();
            onClose();
          });
        }}
      >
        <Field label="Name" hint="1 to 100 characters; records and credentials keep their namespace whatever it is called">
          {(id, by) => <input id={id} aria-describedby={by} required maxLength={100} value={name} onInput={(e) => setName(e.currentTarget.value)} />}
        </Field>
        {!namespace && (
          <Field label="Key scope" hint={scopeHint}>
            {(id, by) => (
              <select id={id} aria-describedby={by} value={scope} onChange={(e) => setScope(e.currentTarget.value)}>
                <option>operation</option>
                <option>namespace</option>
              </select>
            )}
          </Field>
        )}
        {action.problem && <Trouble problem={action.problem} />}
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button class="button primary" disabled={action.busy || name === ""}>
            {namespace ? "Rename" : "Make it"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
