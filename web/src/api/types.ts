// The shapes of the API that the dashboard reads: names for the types that are
// made of api/openapi.yaml (make web/check). The session alone is not part of
// the API: internal/api/dashboard_session.go has its shape.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Role = Schemas["CredentialRole"];

export interface Session {
  tenant: { id: string; name: string };
  credential: { id: string; name: string };
  role: Role;
  namespaces: string[] | null;
  started_at: string;
  ends_at: string;
  lasts_until: string;
  key_until: string | null;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export type Outcomes = Schemas["Outcomes"];
export type Step = Outcomes["step"];
export type Ages = Schemas["Ages"];
export type Group = Schemas["Group"];
export type Reading = Group["reading"][number];
export type Operations = Schemas["OperationFigures"];
export type Callers = Schemas["CallerFigures"];
export type Event = Schemas["Events"]["items"][number];
export type EventKind = Schemas["EventKind"];

export type KeyRecord = Omit<Schemas["Record"], "history"> & Partial<Pick<Schemas["Record"], "history">>; // found records have no history
export type State = KeyRecord["state"];
export type Attempt = Schemas["Attempt"];
export type StoredResponse = Schemas["StoredResponse"];
export type Late = Schemas["LateCompletion"];
export type Found = Omit<Schemas["SearchPage"], "items"> & { items: KeyRecord[] };

export type Namespace = Schemas["Namespace"];
export type Credential = Schemas["Credential"];
export type Issued = Schemas["IssuedCredential"];
export type Policy = Schemas["Policy"];
export type Override = Schemas["OperationPolicy"];
export type Retention = Schemas["Retention"];
export type Preview = Schemas["RetentionPreview"];
export type AuditEntry = Schemas["AuditEntry"];
export type Usage = Schemas["Usage"];
