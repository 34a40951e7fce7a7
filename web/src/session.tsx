// Who is signed in, and what of the tenant every view needs.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { call } from "./api/client";
import type { Credential, Namespace, Role, Session } from "./api/types";

export const SessionContext = createContext<Session | null>(null);

export interface Names {
  namespaces: Namespace[];
  credentials: Credential[];
  reload(): void;
}
export const NamesContext = createContext<Names>({ namespaces: [], credentials: [], reload() {} });

export function useSession(): Session {
  return useContext(SessionContext)!;
}

export const useRole = (): Role => useSession().role;
export const useNamespaces = (): Namespace[] => useContext(NamesContext).namespaces;
export const useNames = (): Names => useContext(NamesContext);

// The name of a credential or namespace, where it is known.
export function useNameOf(): { credential(id: string): string; namespace(id: string | null): string } {
  const names = useNames();
  return {
    credential: (id) => names.credentials.find((c) => c.id === id)?.name ?? id,
    namespace: (id) => (id === null ? "every namespace" : (names.namespaces.find((n) => n.id === id)?.name ?? id)),
  };
}

const path = "/dashboard/session";
export const readSession = async (): Promise<Session> => (await call<Session>(path)).body;
export const signIn = async (by: { credential: string } | { link: string }): Promise<Session> => (await call<Session>(path, { method: "POST", body: by })).body;
export const renew = async (): Promise<Session> => (await call<Session>(path, { method: "PATCH" })).body;
export const signOut = async (): Promise<void> => void (await call(path, { method: "DELETE" }));
