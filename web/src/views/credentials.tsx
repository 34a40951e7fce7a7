import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Credential, Issued } from "../api/types";
import { useNameOf, useNames, useRole, useSession } from "../session";
import { Card, Chip, Copy, Dialog, Field, Outside, Time, Trouble, useAction } from "../ui/basics";
import { Table } from "../ui/table";
import { IssueCredential } from "./issue";

type Open = null | { what: "issue" } | { what: "rotate" | "revoke"; credential: Credential } | { what: "secret"; issued: Issued };

const ended = (c: Credential): string | null =>
  c.revoked_at ? "revoked" : c.expires_at && Date.parse(c.expires_at) <= Date.now() ? (c.replaced_at ? "replaced" : "expired") : null;

export function Credentials() {
  const { credentials, reload } = useNames();
  const names = useNameOf();
  const admin = useRole() === "admin";
  const mine = useSession().credential.id;
  const [dialog, open] = useState<Open>(null);
  const [all, showAll] = useState(false);
  const shown = credentials.filter((c) => all || ended(c) === null);
  const close = () => open(null);
  const issued = (i: Issued) => {
    reload();
    open({ what: "secret", issued: i });
  };
  return (
    <Card
      title="Credentials"
      aside={
        <>
          <label class="check">
            <input type="checkbox" checked={all} onChange={(e) => showAll(e.currentTarget.checked)} /> with those that have ended
          </label>
          {admin && (
            <button type="button" class="button primary" onClick={() => open({ what: "issue" })}>
              Issue a credential …
            </button>
          )}
        </>
      }
    >
      <Table
        caption="Credentials"
        rows={shown}
        rowKey={(c) => c.id}
        columns={[
          {
            head: "Name", class: "name", by: (c) => c.name,
            cell: (c) => (
              <>
                <Outside text={c.name} /> {c.id === mine && <span class="chip">you</span>}
              </>
            ),
          },
          { head: "Role", by: (c) => c.role, cell: (c) => c.role },
          {
            head: "Namespace", class: "name",
            cell: (c) => (c.role === "service" ? <Outside text={names.namespace(c.namespace)} /> : c.namespaces ? c.namespaces.map((n) => names.namespace(n)).join(", ") : <span class="muted">all</span>),
          },
          { head: "Id", cell: (c) => <code>{c.id}</code> },
          { head: "Created", by: (c) => c.created_at, cell: (c) => <Time at={c.created_at} /> },
          { head: "Last used", by: (c) => c.last_used_at, cell: (c) => (c.last_used_at ? <Time at={c.last_used_at} /> : <span class="muted">never</span>) },
          {
            head: "Ends",
            cell: (c) => {
              const how = ended(c);
              if (how) return <Chip kind="lapsed">{how}</Chip>;
              return c.expires_at ? (
                <>
                  {c.replaced_at && "replaced, goes on until "}
                  <Time at={c.expires_at} />
                </>
              ) : (
                <span class="muted">never</span>
              );
            },
          },
          {
            head: "Actions",
            cell: (c) =>
              admin &&
              ended(c) === null && (
                <span class="row-actions">
                  <button type="button" class="button small" disabled={c.replaced_at !== null} aria-label={`Rotate ${c.name}`} onClick={() => open({ what: "rotate", credential: c })}>
                    Rotate …
                  </button>
                  <button type="button" class="button small danger" aria-label={`Revoke ${c.name}`} onClick={() => open({ what: "revoke", credential: c })}>
                    Revoke …
                  </button>
                </span>
              ),
          },
        ]}
      />
      {dialog?.what === "issue" && <IssueCredential onClose={close} onIssued={issued} />}
      {dialog?.what === "rotate" && <Rotate credential={dialog.credential} onClose={close} onIssued={issued} />}
      {dialog?.what === "revoke" && <Revoke credential={dialog.credential} onClose={close} onDone={reload} />}
      {dialog?.what === "secret" && <Secret issued={dialog.issued} onClose={close} />}
    </Card>
  );
}

function Secret({ issued, onClose }: { issued: Issued; onClose: () => void }) {
  return (
    <Dialog title="The API key, shown this once" onClose={onClose}>
      <p>
        Put the key of <strong><Outside text={issued.name} /></strong> where its program reads it. It is stored nowhere and cannot be shown again.
      </p>
      <pre class="code secret" tabIndex={0} aria-label="API key" data-secret>
        {issued.secret}
      </pre>
      <footer class="dialog-foot">
        <Copy text={issued.secret} label="Copy the key" />
        <button type="button" class="button primary" onClick={onClose}>
          I have it
        </button>
      </footer>
    </Dialog>
  );
}

const overlaps: [string, number][] = [
  ["at once: the old key is refused", 0],
  ["an hour", 3600],
  ["a day", 86400],
  ["a week", 604800],
  ["30 days", 2592000],
];

function Rotate({ credential: c, onClose, onIssued }: { credential: Credential; onClose: () => void; onIssued: (i: Issued) => void }) {
  const [overlap, setOverlap] = useState(86400);
  const action = useAction();
  return (
    <Dialog title={`Rotate a credential`} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          action.run(async () => onIssued((await call<Issued>(`/v1/credentials/${c.id}/rotate`, { method: "POST", body: { overlap_seconds: overlap } })).body));
        }}
      >
        <p>
          <strong><Outside text={c.name} /></strong> gets a new key{c.role === "service" && " in the same namespace, so that no record is lost"}. The old key goes on for the overlap.
        </p>
        <Field label="Both keys work for">
          {(id) => (
            <select id={id} value={overlap} onChange={(e) => setOverlap(Number(e.currentTarget.value))}>
              {overlaps.map(([name, s]) => (
                <option value={s}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        {action.problem && <Trouble problem={action.problem} />}
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button class="button primary" disabled={action.busy}>
            Rotate it
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Revoke({ credential: c, onClose, onDone }: { credential: Credential; onClose: () => void; onDone: () => void }) {
  const action = useAction();
  return (
    <Dialog title="Revoke a credential" onClose={onClose}>
      <p>
        The key of <strong><Outside text={c.name} /></strong> (<code>{c.id}</code>) is refused everywhere within five seconds, for good.
        {c.role === "service" && " A program that still uses it cannot begin or complete anything from then on: what it holds lapses."}
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
              await call(`/v1/credentials/${c.id}`, { method: "DELETE" });
              onDone();
              onClose();
            })
          }
        >
          Revoke it
        </button>
      </footer>
    </Dialog>
  );
}
