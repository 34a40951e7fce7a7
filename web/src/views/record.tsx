// A record's life: what it is now, how it came there, what can be decided.
import { useState } from "preact/hooks";
import { call, get } from "../api/client";
import type { Attempt, KeyRecord, Late, StoredResponse } from "../api/types";
import { useData } from "../data";
import { bytes, count } from "../format";
import { go, href } from "../router";
import { useNameOf, useRole } from "../session";
import { Card, Chip, Dialog, Field, Loading, Outside, Time, Trouble, useAction } from "../ui/basics";
import { Resolve } from "./resolve";

export function RecordPage({ id }: { id: string }) {
  const role = useRole();
  const names = useNameOf();
  const [dialog, open] = useState<"" | "forget" | "resolve">("");
  const record = useData("record " + id, (signal) => get<KeyRecord>(`/v1/keys/${encodeURIComponent(id)}`, signal), 5_000);
  const r = record.data;
  const close = () => open("");
  return (
    <>
      <div class="page-head">
        <p class="crumb">
          <a href={href("/keys")}>Keys</a> /
        </p>
        <h1 class="long mono">{r ? <Outside text={r.key} /> : "Record"}</h1>
        {r && (
          <div class="actions">
            <Chip kind={r.state}>{r.state.replace("_", " ")}</Chip>
            {r.state === "unknown" && (role === "resolver" || role === "admin") && (
              <button type="button" class="button primary" onClick={() => open("resolve")}>
                Resolve …
              </button>
            )}
            {role === "admin" && (
              <button type="button" class="button danger" onClick={() => open("forget")}>
                Forget …
              </button>
            )}
          </div>
        )}
      </div>
      {record.error && <Trouble problem={record.error} retry={record.reload} />}
      {record.loading && <Loading rows={6} />}
      {r && (
        <>
          <div class="columns">
            <Card title="The record">
              <Facts record={r} namespace={names.namespace(r.namespace)} />
            </Card>
            <Card title="Its life" aside={r.history && r.history.length > 1 && <span class="muted">the last {count(r.history.length)} attempts</span>}>
              <Life record={r} credentialName={names.credential} />
            </Card>
          </div>
          {role === "admin" ? <Response key={r.id + r.fence} record={r} credentialName={names.credential} /> : (
            <Card title="Stored response">
              <p class="muted">Stored responses are shown to the role admin only, and every look is in the audit trail.</p>
            </Card>
          )}
        </>
      )}
      {r && dialog === "forget" && <Forget record={r} onClose={close} />}
      {r && dialog === "resolve" && <Resolve records={[r]} onClose={close} onDone={record.reload} />}
    </>
  );
}

function Facts({ record: r, namespace }: { record: KeyRecord; namespace: string }) {
  const metadata = Object.entries(r.metadata);
  return (
    <dl class="facts">
      <div>
        <dt>Operation</dt>
        <dd>
          <a href={href("/operation", { operation: r.operation })}>
            <Outside text={r.operation} />
          </a>
        </dd>
      </div>
      <div>
        <dt>Caller</dt>
        <dd>
          <a href={href("/caller", { caller: r.caller })}>
            <Outside text={r.caller} empty="(the empty caller)" />
          </a>
        </dd>
      </div>
      <div>
        <dt>Namespace</dt>
        <dd>
          <Outside text={namespace} />
        </dd>
      </div>
      <div>
        <dt>Id</dt>
        <dd class="mono">{r.id}</dd>
      </div>
      <div>
        <dt>Attempt</dt>
        <dd>{r.attempt}</dd>
      </div>
      <div>
        <dt>Fence</dt>
        <dd class="mono">{r.fence}</dd>
      </div>
      <div>
        <dt>Lease</dt>
        <dd>
          {r.lease_expires_at ? (
            <>
              until <Time at={r.lease_expires_at} />, then {r.on_lease_expiry}
            </>
          ) : (
            <span class="muted">none is held; the last one: {r.on_lease_expiry}</span>
          )}
        </dd>
      </div>
      <div>
        <dt>Created</dt>
        <dd>
          <Time at={r.created_at} />
        </dd>
      </div>
      <div>
        <dt>Completed</dt>
        <dd>
          <Time at={r.completed_at} />
        </dd>
      </div>
      <div>
        <dt>Expires</dt>
        <dd>{r.expires_at ? <Time at={r.expires_at} /> : "never, while its outcome is open"}</dd>
      </div>
      <div>
        <dt>Response</dt>
        <dd>{r.status === null ? <span class="muted">none stored</span> : `${r.status}, ${bytes(r.body_bytes)}`}</dd>
      </div>
      {r.recovery_point !== undefined && (
        <div>
          <dt>Recovery point</dt>
          <dd>
            {r.recovery_point === null ? (
              <span class="muted">none</span>
            ) : (
              <>
                <Outside text={r.recovery_point.name} />
                {r.recovery_point.data !== undefined && <pre class="code">{JSON.stringify(r.recovery_point.data, null, 2)}</pre>}
              </>
            )}
          </dd>
        </div>
      )}
      {metadata.map(([name, value]) => (
        <div>
          <dt class="mono">{name}</dt>
          <dd>
            <Outside text={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const endings: { [how: string]: string } = {
  completed: "completed",
  released: "released: the next attempt may run",
  lapsed: "its lease ended without an answer",
  taken_over: "taken over by the next attempt",
  unknown: "declared unknown",
};

function Life({ record: r, credentialName }: { record: KeyRecord; credentialName: (id: string) => string }) {
  const attempts: Attempt[] = [...(r.history ?? [])].sort((a, b) => b.attempt - a.attempt);
  if (attempts.length === 0) return <p class="muted">No attempt is known.</p>;
  return (
    <ol class="life">
      {attempts.map((a) => (
        <li class={a.ended_at ? "" : "life-now"}>
          <p>
            <strong>Attempt {a.attempt}</strong>
            {" · "}
            {a.how ? (endings[a.how] ?? a.how.replaceAll("_", " ")) : a.ended_at ? "ended" : r.state === "in_progress" ? "running" : r.state.replace("_", " ")}
          </p>
          <p class="muted">
            begun <Time at={a.begun_at} />
            {a.ended_at && (
              <>
                , ended <Time at={a.ended_at} />
              </>
            )}
            {" by "}
            <Outside text={credentialName(a.credential)} />
            {a.trace_id && (
              <>
                , trace <code>{a.trace_id}</code>
              </>
            )}
          </p>
        </li>
      ))}
    </ol>
  );
}

function Response({ record: r, credentialName }: { record: KeyRecord; credentialName: (id: string) => string }) {
  const [shown, show] = useState<KeyRecord | null>(null);
  const action = useAction();
  return (
    <Card title="Stored response and late results">
      {shown === null ? (
        <p>
          <button
            type="button"
            class="button"
            disabled={action.busy}
            onClick={() => action.run(async () => show((await call<KeyRecord>(`/v1/keys/${r.id}?include=response,late`)).body))}
          >
            Show them
          </button>{" "}
          <span class="muted">The look is written to the audit trail.</span>
        </p>
      ) : (
        <>
          {shown.response ? <Stored response={shown.response} /> : <p class="muted">No response is stored.</p>}
          {shown.late?.map((l) => <LateResult late={l} credentialName={credentialName} />)}
          {shown.late?.length === 0 && <p class="muted">No late result came.</p>}
        </>
      )}
      {action.problem && <Trouble problem={action.problem} />}
    </Card>
  );
}

function Stored({ response }: { response: StoredResponse }) {
  return (
    <div class="stored">
      <p>
        <strong>{response.status}</strong>
      </p>
      <table>
        <caption class="visually-hidden">Headers</caption>
        <tbody>
          {response.headers.map(([name, value]) => (
            <tr>
              <th scope="row" class="mono">
                {name}
              </th>
              <td class="mono">
                <Outside text={value} empty="" />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {response.body_omitted ? (
        <p class="muted">
          The body was not stored{response.body_ref ? `; it is kept at ${response.body_ref}` : ""}.
        </p>
      ) : (
        <pre class="code body" tabIndex={0} aria-label="Body, as text">
          {response.body ?? response.body_base64 ?? ""}
        </pre>
      )}
      {response.body_base64 && <p class="muted">The body is no text; this is its base64.</p>}
    </div>
  );
}

function LateResult({ late: l, credentialName }: { late: Late; credentialName: (id: string) => string }) {
  return (
    <div class="notice notice-warn">
      <div>
        <strong>A late result: {l.status}</strong>, <Time at={l.at} />, by <Outside text={credentialName(l.credential)} />, {bytes(l.body_bytes)}. It was
        not stored: the work may have been done twice.
        <pre class="code body">{l.body_head ?? l.body_head_base64 ?? ""}</pre>
      </div>
    </div>
  );
}

function Forget({ record: r, onClose }: { record: KeyRecord; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [force, setForce] = useState(false);
  const action = useAction();
  const live = r.state === "in_progress";
  return (
    <Dialog title="Forget this record" onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          action.run(async () => {
            await call(`/v1/keys/${r.id}/forget`, { method: "POST", body: { fence: r.fence, reason, force } });
            onClose();
            go(href("/keys"));
          });
        }}
      >
        <p>
          The record of key <span class="mono"><Outside text={r.key} /></span>, operation <Outside text={r.operation} />, attempt {r.attempt}, is removed with its
          stored response. <strong>The next begin with this key runs the operation again.</strong>
        </p>
        {live && (
          <label class="check">
            <input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} /> An attempt holds it at this moment: forget it all
            the same
          </label>
        )}
        <Field label="Reason" hint="3 to 500 characters, for the audit trail">
          {(id, by) => <textarea id={id} aria-describedby={by} required minLength={3} maxLength={500} rows={2} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />}
        </Field>
        {action.problem && <Trouble problem={action.problem} />}
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Keep it
          </button>
          <button class="button danger" disabled={action.busy || reason.trim().length < 3 || (live && !force)}>
            Forget this record
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
