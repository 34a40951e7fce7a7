// The shapes of the API that the dashboard reads, by wire contract sections 5
// and 6. `npm run check` holds them against the types that are made from
// api/openapi.yaml (see contract.ts).

export type Role = "service" | "ops" | "resolver" | "admin";

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

export interface Figures {
  begins: number;
  acquired: number;
  resumed: number;
  replays: number;
  conflicts: { in_progress: number; fingerprint_mismatch: number; outcome_unknown: number };
  conflict_rate: number | null;
  takeovers: number;
  releases: number;
  late_completions: number;
  resolutions: number;
  declared_unknown: number;
}

export interface Capped {
  operations: boolean;
  callers: boolean;
}

export interface Outcomes {
  from: string;
  to: string;
  step: Step;
  items: (Figures & { at: string })[];
  total: Figures;
  names_capped: Capped;
}

export type Step = "minute" | "hour" | "day";

export interface Ages {
  count: number;
  buckets: { le: number | null; count: number }[];
  p50: number | null;
  p90: number | null;
  p99: number | null;
}

export type ReplayAges = Ages & { from: string; to: string; names_capped: Capped };

export interface Reading {
  code: string;
  text: string;
  count: number;
  of: number;
}

export type Group = Figures & { replay_ages: Ages; reading: Reading[] };

export interface Groups<T> {
  from: string;
  to: string;
  items: (Group & T)[];
  other: Group;
  total: Group;
  names_capped: Capped;
}

export type Operations = Groups<{ operation: string }>;
export type Callers = Groups<{ caller: string }>;

export interface Event {
  at: string;
  kind: string;
  namespace: string;
  id: string;
  operation: string;
  caller: string;
  key: string;
  credential: string;
  trace_id: string | null;
  attempt: number | null;
  age_seconds: number | null;
  original_status: number | null;
}

export type State = "in_progress" | "lapsed" | "unknown" | "open" | "completed";

export interface Attempt {
  attempt: number;
  begun_at: string | null;
  ended_at: string | null;
  how: string | null;
  credential: string;
  trace_id: string | null;
}

export interface StoredResponse {
  status: number;
  headers: [string, string][];
  body?: string;
  body_base64?: string;
  body_omitted?: boolean;
  body_ref?: string | null;
}

export interface Late {
  at: string;
  fence: number;
  status: number;
  header_names: string[];
  body_bytes: number;
  body_sha256: string;
  body_head?: string;
  body_head_base64?: string;
  credential: string;
  trace_id: string | null;
}

export interface KeyRecord {
  id: string;
  namespace: string;
  caller: string;
  operation: string;
  key: string;
  state: State;
  attempt: number;
  fence: number;
  lease_expires_at: string | null;
  on_lease_expiry: string;
  recovery_point?: { name: string; data?: unknown } | null;
  metadata: { [name: string]: string };
  status: number | null;
  body_bytes: number;
  created_at: string | null;
  completed_at: string | null;
  expires_at: string | null;
  history?: Attempt[];
  response?: StoredResponse | null;
  late?: Late[];
}

export type Found = Page<KeyRecord> & { lag_seconds: number };

export interface Namespace {
  id: string;
  name: string;
  key_scope: "operation" | "namespace";
}

export interface Credential {
  id: string;
  name: string;
  role: Role;
  namespace: string | null;
  namespaces: string[] | null;
  created_at: string;
  last_used_at: string | null;
  replaced_at: string | null;
  expires_at: string | null;
  revoked_at: string | null;
}

export type Issued = Credential & { secret: string };

export interface Policy {
  retention_seconds: number;
  lease_seconds: number;
  on_mismatch: string;
  mismatch_status: number;
  on_lease_expiry: string;
  store_errors: string;
  store_body: string;
  strip_headers: string[];
  keep_headers: string[];
  ignore_pointers: string[];
}

export type Override = Partial<Policy> & { operation: string; namespace: string | null };

export interface Retention {
  default_seconds: number;
  operations: { [operation: string]: number };
  min_seconds: number;
  max_seconds: number;
  grace_seconds: number;
  change: {
    id: string;
    state: string;
    reason: string | null;
    asked_at: string;
    starts_at: string | null;
    finished_at: string | null;
    records_seen: number;
    records_changed: number;
  } | null;
}

export interface Preview {
  preview_id: string;
  expires_at: string;
  shortened_records: number;
  pruned_records: number;
  pruned_bytes: number;
  lost_replays: number;
  replays: number;
}

export interface AuditEntry {
  id: string;
  at: string;
  actor: { kind: string; name: string; role: string | null };
  action: string;
  object: { kind: string; id: string | null };
  reason: string | null;
  before: unknown;
  after: unknown;
  request_id: string | null;
  address: string | null;
}
