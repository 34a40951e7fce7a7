import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, Problem, setGate } from "./api/client";
import type { Credential, Namespace, Page, Session } from "./api/types";
import { useData } from "./data";
import { count } from "./format";
import { base, followLinks, go, href, usePlace, type Place } from "./router";
import { NamesContext, readSession, renew, SessionContext, signIn, signOut } from "./session";
import { setTheme, theme, type Theme } from "./theme";
import { Empty, Loading, Outside, Trouble } from "./ui/basics";
import { Mark } from "./ui/mark";
import { Events } from "./views/events";
import { GroupPage } from "./views/group";
import { Groups } from "./views/groups";
import { Keys } from "./views/keys";
import { Overview } from "./views/overview";
import { RecordPage } from "./views/record";
import { Settings } from "./views/settings";
import { PresentKey, SignIn } from "./views/signin";
import { readUnknown, Unknown } from "./views/unknown";

// A link of `make run` has its secret behind the #, which no server and no log
// ever sees. It is used up at once and taken out of the address.
async function begin(): Promise<Session> {
  const link = new URLSearchParams(location.hash.slice(1)).get("link");
  if (link === null) return readSession();
  history.replaceState(null, "", location.pathname + location.search);
  return signIn({ link });
}

type Known = { session: Session } | { session: null; why: Problem | null } | null;

export function App() {
  const [known, set] = useState<Known>(null);
  const [asking, ask] = useState<((presented: boolean) => void) | null>(null);

  useEffect(() => {
    setGate({
      signedOut: () => set({ session: null, why: new Problem(401, "unauthenticated", "The session has ended: it was signed out, its credential was revoked, or nobody used it for an hour.", null) }),
      presentKey: () => new Promise((done) => ask(() => done)),
    });
    begin().then(
      (session) => set({ session }),
      (error: Problem) => set({ session: null, why: error.code === "unauthenticated" && !error.message.startsWith("This link") ? null : error }),
    );
    document.addEventListener("click", followLinks);
    return () => document.removeEventListener("click", followLinks);
  }, []);

  if (known === null) return <main class="signin"><Loading /></main>;
  if (known.session === null) return <SignIn why={known.why} onDone={(session) => set({ session })} />;
  const session = known.session;
  const closeAsking = (presented: boolean) => {
    asking?.(presented);
    ask(null);
  };
  return (
    <SessionContext.Provider value={session}>
      <Shell key={session.tenant.id + session.role} session={session} onSignedOut={() => set({ session: null, why: null })} />
      {asking && (
        <PresentKey
          onClose={() => closeAsking(false)}
          onDone={(s) => {
            // Another tenant's key must not carry out what was filled in for this one.
            const same = s.tenant.id === session.tenant.id;
            set({ session: s });
            closeAsking(same);
          }}
        />
      )}
    </SessionContext.Provider>
  );
}

function Shell({ session, onSignedOut }: { session: Session; onSignedOut: () => void }) {
  const place = usePlace();
  const main = useRef<HTMLElement>(null);
  const names = useData("names", async (signal) => {
    const [namespaces, credentials] = await Promise.all([get<Page<Namespace>>("/v1/namespaces", signal), get<Page<Credential>>("/v1/credentials", signal)]);
    return { namespaces: namespaces.items, credentials: credentials.items };
  });
  const reload = names.reload;
  const context = useMemo(() => ({ namespaces: names.data?.namespaces ?? [], credentials: names.data?.credentials ?? [], reload }), [names.data, reload]);
  const unknown = useData("unknown count", readUnknown, 30_000);
  useRenewal();

  const title = titleOf(place);
  useEffect(() => {
    document.title = `${title} · ${session.tenant.name} · Onceward`;
  }, [title, session.tenant.name]);
  const first = useRef(true);
  useEffect(() => {
    // A new view is announced, and the keyboard starts at its top.
    if (!first.current) main.current?.focus({ preventScroll: true });
    first.current = false;
    // On a narrow screen the links scroll: the current one is where it is seen.
    for (const link of document.querySelectorAll<HTMLElement>("nav a[aria-current]")) link.parentElement!.scrollLeft = link.offsetLeft - link.parentElement!.offsetLeft - 40;
  }, [place.path]);

  const waiting = unknown.data ? unknown.data.items.length : 0;
  const links: [string, string, string?][] = [
    ["/", "Overview"],
    ["/operations", "Operations"],
    ["/callers", "Callers"],
    ["/events", "Events"],
    ["/keys", "Keys"],
    ["/unknown", "Unknown", waiting > 0 ? count(waiting) + (unknown.data?.next_cursor ? "+" : "") : undefined],
    ["/settings/retention", "Settings"],
  ];
  return (
    <NamesContext.Provider value={context}>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus(); }}>
        To the content
      </a>
      <header class="top">
        <a class="brand" href={base}>
          <Mark /> <span>Onceward</span>
        </a>
        <nav aria-label="Views">
          {links.map(([path, name, badge]) => (
            <a href={href(path)} aria-current={isCurrent(path, place.path) ? "page" : undefined}>
              {name}
              {badge && <span class="badge" aria-label={`${badge} wait`}>{badge}</span>}
            </a>
          ))}
        </nav>
        <div class="who">
          <span class="who-name" title={`${session.credential.id}, ${session.role}`}>
            <b><Outside text={session.tenant.name} /></b>
            <span class="muted"><Outside text={session.credential.name} /> · {session.role}</span>
          </span>
          <ThemeChoice />
          <SignOut onDone={onSignedOut} />
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {names.error && <Trouble problem={names.error} retry={names.reload} />}
        <View place={place} />
      </main>
      <footer class="foot muted">
        All times are UTC; yours is shown on hover. <a href="/docs" target="_blank" rel="noreferrer">API reference</a>
      </footer>
    </NamesContext.Provider>
  );
}

function SignOut({ onDone }: { onDone: () => void }) {
  const [failed, fail] = useState(false);
  const out = useCallback(() => {
    signOut().then(() => {
      go(base, true);
      onDone();
    }, () => fail(true));
  }, [onDone]);
  return (
    <button type="button" class="button small" onClick={out}>
      {failed ? "Not signed out: try again" : "Sign out"}
    </button>
  );
}

function ThemeChoice() {
  const [t, set] = useState<Theme>(theme);
  return (
    <select
      class="theme"
      aria-label="Colours"
      value={t}
      onChange={(e) => {
        const next = e.currentTarget.value as Theme;
        set(next);
        setTheme(next);
      }}
    >
      <option value="system">auto</option>
      <option value="light">light</option>
      <option value="dark">dark</option>
    </select>
  );
}

const renewEvery = 4 * 60_000;

// useRenewal keeps the session while somebody uses the page: what it reads by
// itself does not count.
function useRenewal(): void {
  useEffect(() => {
    let last = Date.now();
    const used = () => {
      if (Date.now() - last < renewEvery) return;
      last = Date.now();
      renew().catch(() => {}); // the next reading says so if the session has ended
    };
    const kinds = ["pointerdown", "keydown"] as const;
    for (const kind of kinds) addEventListener(kind, used, { passive: true });
    return () => {
      for (const kind of kinds) removeEventListener(kind, used);
    };
  }, []);
}

const sections: { [path: string]: string } = {
  "/": "/", "/operations": "/operations", "/operation": "/operations", "/callers": "/callers", "/caller": "/callers",
  "/events": "/events", "/keys": "/keys", "/unknown": "/unknown", "/settings": "/settings/retention",
};

function isCurrent(link: string, path: string): boolean {
  return sections["/" + (path.split("/")[1] ?? "")] === link;
}

function titleOf(place: Place): string {
  const section = "/" + (place.path.split("/")[1] ?? "");
  const names: { [path: string]: string } = {
    "/": "Overview", "/operations": "Operations", "/operation": place.params.get("operation") ?? "Operation", "/callers": "Callers", "/caller": "Caller",
    "/events": "Events", "/keys": "Keys", "/unknown": "Unknown outcomes", "/settings": "Settings",
  };
  return names[section] ?? "Not found";
}

function View({ place }: { place: Place }) {
  const [, section, id] = place.path.split("/");
  switch (section) {
    case "":
      return <Overview place={place} />;
    case "operations":
      return <Groups key="operations" place={place} what="operation" />;
    case "callers":
      return <Groups key="callers" place={place} what="caller" />;
    case "operation":
      return <GroupPage key={"operation " + place.params.get("operation")} place={place} what="operation" />;
    case "caller":
      return <GroupPage key={"caller " + place.params.get("caller")} place={place} what="caller" />;
    case "events":
      return <Events place={place} />;
    case "keys":
      return id ? <RecordPage key={id} id={id} /> : <Keys />;
    case "unknown":
      return <Unknown />;
    case "settings":
      return <Settings place={place} />;
    default:
      return (
        <Empty title="There is no such page">
          <a href={href("/")}>To the overview</a>
        </Empty>
      );
  }
}
