import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Issued, Role } from "../api/types";
import { useNamespaces } from "../session";
import { Dialog, Field, Trouble, useAction } from "../ui/basics";
import { scopeHint } from "./namespaces";

const roles: [Role, string][] = [
  ["service", "your code: begins and completes, in one namespace"],
  ["ops", "people on call: look at everything but stored responses, change nothing"],
  ["resolver", "ops, and decides unknown records"],
  ["admin", "everything, in all namespaces; neither begins nor completes"],
];

export function IssueCredential({ onClose, onIssued }: { onClose: () => void; onIssued: (i: Issued) => void }) {
  const namespaces = useNamespaces();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("service");
  const [namespace, setNamespace] = useState("");
  const [made, setMade] = useState({ name: "", key_scope: "operation" });
  const [some, setSome] = useState<ReadonlySet<string>>(new Set());
  const [expires, setExpires] = useState("");
  const action = useAction();
  const fresh = namespace === "+";
  const complete = name !== "" && (role !== "service" || (fresh ? made.name !== "" : namespace !== ""));
  return (
    <Dialog title="Issue a credential" onClose={onClose} wide>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          action.run(async () => {
            const body = {
              name,
              role,
              ...(role === "service" ? (fresh ? { create_namespace: made } : { namespace }) : {}),
              ...(role === "resolver" && some.size > 0 ? { namespaces: [...some] } : {}),
              ...(expires === "" ? {} : { expires_at: expires + ":00Z" }),
            };
            onIssued((await call<Issued>("/v1/credentials", { method: "POST", body })).body);
          });
        }}
      >
        <Field label="Name" hint="unique: which program or person, and where">
          {(id, by) => <input id={id} aria-describedby={by} required maxLength={100} value={name} onInput={(e) => setName(e.currentTarget.value)} autocomplete="off" />}
        </Field>
        <fieldset>
          <legend>Role</legend>
          {roles.map(([r, what]) => (
            <label class="choice">
              <input type="radio" name="role" checked={role === r} onChange={() => setRole(r)} />
              <span>
                <strong>{r}</strong>: {what}
              </span>
            </label>
          ))}
        </fieldset>
        {role === "service" && (
          <Field
            label="Namespace"
            hint="Keys are compared within it, and only there. A program that retries under another credential must share its namespace, or its retries run twice; live and test must not share one."
          >
            {(id, by) => (
              <select id={id} aria-describedby={by} required value={namespace} onChange={(e) => setNamespace(e.currentTarget.value)}>
                <option value="">choose one</option>
                {namespaces.map((n) => (
                  <option value={n.id}>{n.name}</option>
                ))}
                <option value="+">a new one …</option>
              </select>
            )}
          </Field>
        )}
        {role === "service" && fresh && (
          <div class="two">
            <Field label="Name of the namespace">
              {(id) => <input id={id} required maxLength={100} value={made.name} onInput={(e) => setMade({ ...made, name: e.currentTarget.value })} />}
            </Field>
            <Field label="Key scope" hint={scopeHint}>
              {(id, by) => (
                <select id={id} aria-describedby={by} value={made.key_scope} onChange={(e) => setMade({ ...made, key_scope: e.currentTarget.value })}>
                  <option>operation</option>
                  <option>namespace</option>
                </select>
              )}
            </Field>
          </div>
        )}
        {role === "resolver" && (
          <fieldset>
            <legend>Decides in (none chosen: everywhere)</legend>
            {namespaces.map((n) => (
              <label class="check">
                <input
                  type="checkbox"
                  checked={some.has(n.id)}
                  onChange={() => {
                    const next = new Set(some);
                    if (!next.delete(n.id)) next.add(n.id);
                    setSome(next);
                  }}
                />{" "}
                {n.name}
              </label>
            ))}
          </fieldset>
        )}
        <Field label="Ends (UTC, optional)">
          {(id) => <input id={id} type="datetime-local" value={expires} onInput={(e) => setExpires(e.currentTarget.value)} />}
        </Field>
        {action.problem && <Trouble problem={action.problem} />}
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button class="button primary" disabled={action.busy || !complete}>
            Issue it
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
