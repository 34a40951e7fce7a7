// The small parts that every view is made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "../api/client";
import * as f from "../format";

// Outside is text from outside: names, keys, operations. It is never markup,
// and what could turn the text around it about is shown instead of obeyed.
export function Outside({ text, empty = "(none)" }: { text: string | null | undefined; empty?: string }) {
  if (text === null || text === undefined || text === "") return <span class="muted">{empty}</span>;
  const parts = text.split(/([\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff])/);
  return (
    <bdi class="outside">
      {parts.map((part, i) =>
        i % 2 === 1 ? (
          <span class="hidden-char" title="an invisible character">
            U+{part.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}
          </span>
        ) : (
          part
        ),
      )}
    </bdi>
  );
}

export function Time({ at, short = false }: { at: string | null; short?: boolean }) {
  if (!at) return <span class="muted">–</span>;
  return (
    <time dateTime={at} title={`${at.slice(0, 10)} ${at.slice(11, 26)} UTC · ${f.local(at)}`}>
      {short ? f.utcShort(at) : f.utc(at)}
    </time>
  );
}

export function Card(p: { title?: ComponentChildren; aside?: ComponentChildren; class?: string; children: ComponentChildren; id?: string }) {
  const id = useId();
  return (
    <section class={`card ${p.class ?? ""}`} aria-labelledby={p.title ? id : undefined} id={p.id}>
      {p.title && (
        <header class="card-head">
          <h2 id={id}>{p.title}</h2>
          {p.aside && <div class="card-aside">{p.aside}</div>}
        </header>
      )}
      {p.children}
    </section>
  );
}

export function Chip({ kind, children }: { kind: string; children: ComponentChildren }) {
  return <span class={`chip chip-${kind}`}>{children}</span>;
}

// Trouble says what went wrong and offers to try again. Beside old data it is
// one line.
export function Trouble({ problem, retry }: { problem: Problem; retry?: () => void }) {
  const title =
    problem.status === 0 ? "Offline" : problem.status === 403 ? "Not permitted" : problem.status === 404 ? "Not found" : "This did not work";
  return (
    <div class={`notice ${problem.status === 0 ? "notice-warn" : "notice-bad"}`} role="alert">
      <div>
        <strong>{title}.</strong> {problem.message}
        {problem.fields.length > 0 && (
          <ul>
            {problem.fields.map((x) => (
              <li>
                {(x.pointer || x.parameter) && <code>{x.pointer ?? x.parameter}</code>} {x.reason}
              </li>
            ))}
          </ul>
        )}
        {problem.requestId && problem.status >= 500 && (
          <div class="muted">
            Request <code>{problem.requestId}</code>
          </div>
        )}
      </div>
      {retry && problem.status !== 403 && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ rows = 3 }: { rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, () => (
        <div class="skeleton" />
      ))}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h3>{title}</h3>
      {children}
    </div>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, set] = useState<"" | "copied" | "select it and copy by hand">("");
  useEffect(() => {
    if (done === "") return;
    const t = setTimeout(() => set(""), 2500);
    return () => clearTimeout(t);
  }, [done]);
  return (
    <button
      type="button"
      class="button"
      onClick={() => {
        const say = (ok: boolean) => set(ok ? "copied" : "select it and copy by hand");
        if (!navigator.clipboard) return say(false);
        navigator.clipboard.writeText(text).then(
          () => say(true),
          () => say(false),
        );
      }}
    >
      <span aria-live="polite">{done || label}</span>
    </button>
  );
}

export function Field(p: { label: string; hint?: ComponentChildren; error?: string; children: (id: string, describedBy: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{p.label}</label>
      {p.children(id, id + "-hint")}
      <div class="hint" id={id + "-hint"}>
        {p.error ? <span class="bad">{p.error}</span> : p.hint}
      </div>
    </div>
  );
}

export function Dialog(p: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // With the element, not after the next picture: what had the focus then is
  // what gets it back.
  useLayoutEffect(() => {
    const dialog = ref.current!;
    const before = document.activeElement as HTMLElement | null;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={p.wide ? "wide" : ""}
      aria-labelledby={id}
      onCancel={(e: Event) => {
        e.preventDefault();
        p.onClose();
      }}
    >
      <header class="dialog-head">
        <h2 id={id}>{p.title}</h2>
        <button type="button" class="button quiet" aria-label="Close" onClick={p.onClose}>
          ✕
        </button>
      </header>
      {p.children}
    </dialog>
  );
}

// Submit runs an action once at a time and shows what it was refused for.
export function useAction(): { busy: boolean; problem: Problem | null; run(action: () => Promise<void>): void; clear(): void } {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  return {
    busy,
    problem,
    clear: () => setProblem(null),
    run(action) {
      if (busy) return;
      setBusy(true);
      setProblem(null);
      action()
        .catch((error: unknown) => setProblem(error as Problem))
        .finally(() => setBusy(false));
    },
  };
}
