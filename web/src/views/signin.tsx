import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../api/client";
import type { Session } from "../api/types";
import { signIn } from "../session";
import { Dialog, Field, Trouble, useAction } from "../ui/basics";
import { Mark } from "../ui/mark";

export function SignIn({ why, onDone }: { why: Problem | null; onDone: (s: Session) => void }) {
  return (
    <main class="signin">
      <div class="card">
        <p class="brand">
          <Mark /> Onceward
        </p>
        <h1>Sign in</h1>
        <p class="muted">With a credential of the role ops, resolver or admin. It is sent once and not kept by this page.</p>
        {why && <Trouble problem={why} />}
        <Paste label="Sign in" onDone={onDone} />
      </div>
    </main>
  );
}

function Paste({ label, onDone }: { label: string; onDone: (s: Session) => void }) {
  const [credential, set] = useState("");
  const action = useAction();
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        action.run(async () => {
          const session = await signIn({ credential });
          set("");
          onDone(session);
        });
      }}
    >
      <Field label="API key" hint="begins with owk_">
        {(id, by) => (
          <input
            id={id}
            ref={input}
            aria-describedby={by}
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            value={credential}
            onInput={(e) => set(e.currentTarget.value)}
          />
        )}
      </Field>
      {action.problem && <Trouble problem={action.problem} />}
      <button class="button primary block" disabled={action.busy || credential === ""}>
        {action.busy ? "Signing in …" : label}
      </button>
    </form>
  );
}

// PresentKey asks for the key again: a session opens what changes credentials
// and records only within ten minutes of it.
export function PresentKey({ onDone, onClose }: { onDone: (s: Session) => void; onClose: () => void }) {
  return (
    <Dialog title="Paste your API key again" onClose={onClose}>
      <p>
        This change needs the key itself, presented within the last ten minutes. What you have filled in stays; the change goes on when you are signed in.
      </p>
      <Paste label="Go on" onDone={onDone} />
    </Dialog>
  );
}
