// Deciding unknown records, one or many: it happened, and this is its response;
// or it did not, and the next begin may run it.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { KeyRecord } from "../api/types";
import { count } from "../format";
import { Dialog, Field, Outside, Trouble, useAction } from "../ui/basics";

interface Result {
  status: number;
  problem?: { detail: string };
}

const batch = 200; // the most that one call decides

export function Resolve({ records, onClose, onDone }: { records: KeyRecord[]; onClose: () => void; onDone: () => void }) {
  const [how, setHow] = useState<"" | "complete" | "retry">("");
  const [reason, setReason] = useState("");
  const [status, setStatus] = useState("200");
  const [contentType, setContentType] = useState("application/json");
  const [body, setBody] = useState("");
  const [failed, setFailed] = useState<{ record: KeyRecord; detail: string }[] | null>(null);
  const action = useAction();
  const many = records.length > 1;
  const what = many ? `${count(records.length)} records` : "this record";

  const decide = () =>
    action.run(async () => {
      const decision = (r: KeyRecord) => ({
        fence: r.fence,
        reason,
        action: how,
        ...(how === "complete" ? { response: { status: Number(status), headers: contentType === "" ? [] : [["Content-Type", contentType]], body } } : {}),
      });
      if (!many) {
        await call(`/v1/keys/${records[0]!.id}/resolution`, { method: "POST", body: decision(records[0]!) });
        onDone();
        onClose();
        return;
      }
      const bad: { record: KeyRecord; detail: string }[] = [];
      for (let i = 0; i < records.length; i += batch) {
        const some = records.slice(i, i + batch);
        const answer = await call<{ results: Result[] }>("/v1/resolutions/batch", {
          method: "POST",
          body: { resolutions: some.map((r) => ({ id: r.id, ...decision(r) })) },
        });
        answer.body.results.forEach((result, n) => {
          if (result.status !== 200) bad.push({ record: some[n]!, detail: result.problem?.detail ?? `status ${result.status}` });
        });
      }
      onDone();
      if (bad.length === 0) onClose();
      else setFailed(bad);
    });

  if (failed) {
    return (
      <Dialog title={`${count(records.length - failed.length)} of ${count(records.length)} are resolved`} onClose={onClose}>
        <ul class="plain">
          {failed.map((f) => (
            <li>
              <span class="mono">
                <Outside text={f.record.key} />
              </span>
              : {f.detail}
            </li>
          ))}
        </ul>
        <footer class="dialog-foot">
          <button type="button" class="button primary" onClick={onClose}>
            Close
          </button>
        </footer>
      </Dialog>
    );
  }

  return (
    <Dialog title={many ? `Resolve ${count(records.length)} unknown records` : "Resolve this unknown record"} onClose={onClose} wide>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          decide();
        }}
      >
        {many ? (
          <p>
            Each of them gets the same decision: <Outside text={records.slice(0, 3).map((r) => r.key).join(", ")} />
            {records.length > 3 && ` and ${count(records.length - 3)} more`}.
          </p>
        ) : (
          <p>
            Key <span class="mono"><Outside text={records[0]!.key} /></span>, operation <Outside text={records[0]!.operation} />, caller{" "}
            <Outside text={records[0]!.caller} empty="(empty)" />, attempt {records[0]!.attempt}. Find out first, where the work is done, whether it happened.
          </p>
        )}
        <fieldset>
          <legend>What happened?</legend>
          <label class="choice">
            <input type="radio" name="how" checked={how === "complete"} onChange={() => setHow("complete")} />
            <span>
              <strong>It happened.</strong> Store a response; every later begin gets it as a replay, and nobody runs it again.
            </span>
          </label>
          <label class="choice">
            <input type="radio" name="how" checked={how === "retry"} onChange={() => setHow("retry")} />
            <span>
              <strong>It did not happen.</strong> Open {what}; the next begin with the same request runs it.
            </span>
          </label>
        </fieldset>
        {how === "complete" && (
          <div class="two">
            <Field label="Status">
              {(id) => <input id={id} type="number" min={200} max={599} required value={status} onInput={(e) => setStatus(e.currentTarget.value)} />}
            </Field>
            <Field label="Content-Type">{(id) => <input id={id} value={contentType} onInput={(e) => setContentType(e.currentTarget.value)} />}</Field>
            <div class="span">
              <Field label="Body" hint="exactly these characters are stored">
                {(id, by) => <textarea id={id} aria-describedby={by} class="mono" rows={5} value={body} onInput={(e) => setBody(e.currentTarget.value)} spellcheck={false} />}
              </Field>
            </div>
          </div>
        )}
        <Field label="Reason" hint="3 to 500 characters, for the audit trail">
          {(id, by) => <textarea id={id} aria-describedby={by} required minLength={3} maxLength={500} rows={2} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />}
        </Field>
        {action.problem && <Trouble problem={action.problem} />}
        <footer class="dialog-foot">
          <button type="button" class="button" onClick={onClose}>
            Decide later
          </button>
          <button class={`button ${how === "retry" ? "danger" : "primary"}`} disabled={action.busy || how === "" || reason.trim().length < 3}>
            {how === "complete" ? `Complete ${what} with ${status}` : how === "retry" ? `Open ${what}: it runs again` : "Choose what happened"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
