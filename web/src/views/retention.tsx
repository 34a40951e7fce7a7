// How long responses are kept. Nothing is saved before its preview was seen.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Preview, Retention } from "../api/types";
import { useData } from "../data";
import { bytes, count, length } from "../format";
import { useRole } from "../session";
import { Card, Chip, Field, Loading, Outside, Time, Trouble, useAction } from "../ui/basics";
import { Duration } from "../ui/duration";

interface Row {
  operation: string;
  seconds: number;
}

export function RetentionPage() {
  const retention = useData("retention", (signal) => call<Retention>("/v1/retention", { signal }), 0);
  const [saved, setSaved] = useState(0);
  const r = retention.data;
  return (
    <>
      {retention.error && <Trouble problem={retention.error} retry={retention.reload} />}
      {retention.loading && <Loading rows={5} />}
      {saved > 0 && (
        <p class="notice notice-good" role="status">
          Saved. It is in force everywhere within five seconds.
        </p>
      )}
      {r?.body.change && <Change change={r.body.change} etag={r.etag} reload={retention.reload} />}
      {r && (
        <Editor
          key={r.etag}
          retention={r.body}
          etag={r.etag}
          onSaved={() => {
            setSaved(saved + 1);
            retention.reload();
          }}
          onStale={retention.reload}
        />
      )}
    </>
  );
}

function Editor({ retention: r, etag, onSaved, onStale }: { retention: Retention; etag: string | null; onSaved: () => void; onStale: () => void }) {
  const admin = useRole() === "admin";
  const [byDefault, setDefault] = useState(r.default_seconds);
  const [rows, setRows] = useState<Row[]>(() => Object.entries(r.operations).map(([operation, seconds]) => ({ operation, seconds })));
  const [fresh, setFresh] = useState("");
  const [preview, setPreview] = useState<Preview | null>(null);
  const [existing, setExisting] = useState(false);
  const [reason, setReason] = useState("");
  const action = useAction();

  const setting = () => ({ default_seconds: byDefault, operations: Object.fromEntries(rows.map((x) => [x.operation, x.seconds])) });
  const changed = JSON.stringify(setting()) !== JSON.stringify({ default_seconds: r.default_seconds, operations: r.operations });
  const edit = (f: () => void) => {
    f();
    setPreview(null);
    action.clear();
  };
  const limits = `${length(r.min_seconds)} to ${length(r.max_seconds)}`;

  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        if (preview === null)
          action.run(async () => setPreview((await call<Preview>("/v1/retention/preview", { method: "POST", body: setting() })).body));
        else
          action.run(async () => {
            await call("/v1/retention", {
              method: "PUT",
              ifMatch: etag,
              body: { ...setting(), ...(existing ? { apply_to_existing: true, preview_id: preview.preview_id, reason } : {}) },
            });
            onSaved();
          });
      }}
    >
      <Card title="How long a response is kept" aside={<span class="muted">may be {limits}</span>}>
        <Field label="By default" hint="A response is replayed for at least this long after it was completed. Choose longer than your clients go on retrying.">
          {(id, by) => <Duration id={id} describedBy={by} value={byDefault} disabled={!admin} onChange={(s) => edit(() => setDefault(s))} />}
        </Field>
        <h3>By operation</h3>
        {rows.length === 0 && <p class="muted">No operation has a retention of its own.</p>}
        <ul class="plain rows">
          {rows.map((row, i) => (
            <li key={row.operation}>
              <span class="grow mono">
                <Outside text={row.operation} />
              </span>
              <Duration
                label={`Retention of ${row.operation}`}
                value={row.seconds}
                disabled={!admin}
                onChange={(s) => edit(() => setRows(rows.map((x, n) => (n === i ? { ...x, seconds: s } : x))))}
              />
              {admin && (
                <button type="button" class="button small" onClick={() => edit(() => setRows(rows.filter((_, n) => n !== i)))}>
                  As by default
                </button>
              )}
            </li>
          ))}
        </ul>
        {admin && (
          <div class="bar">
            <input aria-label="Operation to add" placeholder="POST /v1/charges" value={fresh} onInput={(e) => setFresh(e.currentTarget.value)} spellcheck={false} />
            <button
              type="button"
              class="button"
              disabled={fresh === "" || rows.some((x) => x.operation === fresh)}
              onClick={() =>
                edit(() => {
                  setRows([...rows, { operation: fresh, seconds: byDefault }]);
                  setFresh("");
                })
              }
            >
              Give it a retention of its own
            </button>
          </div>
        )}
      </Card>
      {admin && (
        <>
          {preview && (
            <Card title="What this would do" class="preview">
              <dl class="tiles">
                <div class="tile">
                  <dt>Records shortened</dt>
                  <dd class="tile-value" data-figure="shortened">
                    {count(preview.shortened_records)}
                  </dd>
                </div>
                <div class="tile">
                  <dt>Records that would go</dt>
                  <dd class="tile-value" data-figure="pruned">
                    {count(preview.pruned_records)}
                  </dd>
                </div>
                <div class="tile">
                  <dt>Bytes that would go</dt>
                  <dd class="tile-value">{bytes(preview.pruned_bytes)}</dd>
                </div>
                <div class="tile">
                  <dt>Replays that would have been lost</dt>
                  <dd class={`tile-value ${preview.lost_replays > 0 ? "bad" : ""}`} data-figure="lost">
                    {count(preview.lost_replays)}
                  </dd>
                  <dd class="tile-delta">of {count(preview.replays)} lately</dd>
                </div>
              </dl>
              {preview.lost_replays > 0 && (
                <p class="notice notice-warn">
                  Each lost replay is a retry that would have run its operation a second time. Keep responses longer than clients retry.
                </p>
              )}
              {preview.shortened_records > 0 && (
                <label class="check">
                  <input type="checkbox" checked={existing} onChange={(e) => setExisting(e.currentTarget.checked)} /> Shorten the records that exist as well: starts
                  after {length(r.grace_seconds)}, and can be cancelled until then. Without it they keep their time.
                </label>
              )}
              {existing && (
                <Field label="Reason" hint="3 to 500 characters, for the audit trail">
                  {(id, by) => <input id={id} aria-describedby={by} required minLength={3} maxLength={500} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />}
                </Field>
              )}
              <p class="muted">
                This preview is good until <Time at={preview.expires_at} />.
              </p>
            </Card>
          )}
          {action.problem && <Trouble problem={action.problem} retry={action.problem.status === 412 ? onStale : undefined} />}
          <div class="bar">
            {preview === null ? (
              <button class="button primary" disabled={!changed || action.busy}>
                {action.busy ? "Counting …" : "Preview the change"}
              </button>
            ) : (
              <button class={`button ${existing ? "danger" : "primary"}`} disabled={action.busy || (existing && reason.trim().length < 3)}>
                {existing ? `Save, and shorten ${count(preview.shortened_records)} records` : "Save for records to come"}
              </button>
            )}
            {changed && (
              <button type="button" class="button" onClick={onStale}>
                Back to what is in force
              </button>
            )}
          </div>
        </>
      )}
    </form>
  );
}

function Change({ change: c, etag, reload }: { change: NonNullable<Retention["change"]>; etag: string | null; reload: () => void }) {
  const admin = useRole() === "admin";
  const action = useAction();
  const waiting = c.finished_at === null && c.starts_at !== null && Date.parse(c.starts_at) > Date.now();
  return (
    <Card title="The last change of existing records" aside={<Chip kind={waiting ? "unknown" : "completed"}>{c.state}</Chip>}>
      <dl class="facts">
        <div>
          <dt>Asked</dt>
          <dd>
            <Time at={c.asked_at} />
          </dd>
        </div>
        <div>
          <dt>Starts</dt>
          <dd>
            <Time at={c.starts_at} />
          </dd>
        </div>
        <div>
          <dt>Records</dt>
          <dd>
            {count(c.records_changed)} shortened of {count(c.records_seen)} seen
          </dd>
        </div>
        {c.reason && (
          <div>
            <dt>Reason</dt>
            <dd>
              <Outside text={c.reason} />
            </dd>
          </div>
        )}
      </dl>
      {admin && waiting && (
        <button
          type="button"
          class="button danger"
          disabled={action.busy}
          onClick={() =>
            action.run(async () => {
              await call("/v1/retention/change", { method: "DELETE", ifMatch: etag });
              reload();
            })
          }
        >
          Cancel it: no record is shortened
        </button>
      )}
      {action.problem && <Trouble problem={action.problem} />}
    </Card>
  );
}
