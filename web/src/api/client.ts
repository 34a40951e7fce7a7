// Every call of the dashboard goes through here: the cookie opens /v1 only with
// this header, and answers are never cached.

export class Problem extends Error {
  constructor(
    readonly status: number, // 0: no answer came
    readonly code: string,
    detail: string,
    readonly requestId: string | null,
    readonly fields: { pointer?: string; parameter?: string; reason: string }[] = [],
  ) {
    super(detail);
  }
}

export interface Answer<T> {
  body: T;
  etag: string | null;
}

interface Options {
  method?: string;
  body?: unknown;
  ifMatch?: string | null;
  signal?: AbortSignal;
}

// What the page does when the service wants somebody to identify: set once by
// the app.
interface Gate {
  signedOut(): void;
  presentKey(): Promise<boolean>;
}
let gate: Gate = { signedOut() {}, presentKey: async () => false };
export function setGate(g: Gate): void {
  gate = g;
}

const offline = "No answer from Onceward. Your connection, or the service, is away; what is shown may be old.";

export async function call<T>(path: string, options: Options = {}): Promise<Answer<T>> {
  try {
    return await send<T>(path, options);
  } catch (error) {
    if (error instanceof Problem && error.code === "reauthenticate" && (await gate.presentKey())) {
      return await send<T>(path, options);
    }
    if (error instanceof Problem && error.code === "unauthenticated" && path.startsWith("/v1/")) gate.signedOut();
    throw error;
  }
}

export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> => (await call<T>(path, { signal })).body;

async function send<T>(path: string, o: Options): Promise<Answer<T>> {
  const headers: Record<string, string> = { "Onceward-Dashboard": "1", Accept: "application/json" };
  if (o.body !== undefined) headers["Content-Type"] = "application/json";
  if (o.ifMatch) headers["If-Match"] = o.ifMatch;
  let response: Response;
  let text: string;
  try {
    response = await fetch(path, {
      method: o.method ?? "GET",
      headers,
      body: o.body === undefined ? undefined : JSON.stringify(o.body),
      credentials: "same-origin",
      cache: "no-store",
      signal: o.signal,
    });
    text = await response.text();
  } catch (error) {
    if (o.signal?.aborted) throw error;
    throw new Problem(0, "offline", offline, null);
  }
  let body: unknown = null;
  try {
    body = text === "" ? null : JSON.parse(text);
  } catch {
    throw new Problem(response.status, "unreadable", "The answer was not understood. Load the page again.", response.headers.get("Request-Id"));
  }
  if (!response.ok) throw problemOf(response, body);
  return { body: body as T, etag: response.headers.get("ETag") };
}

function problemOf(response: Response, body: unknown): Problem {
  const p = (body ?? {}) as { code?: string; detail?: string; title?: string; request_id?: string; errors?: Problem["fields"] };
  return new Problem(
    response.status,
    p.code ?? "unreadable",
    p.detail ?? p.title ?? `The service answered ${response.status}.`,
    p.request_id ?? response.headers.get("Request-Id"),
    p.errors ?? [],
  );
}

export function query(params: Record<string, string | null | undefined>): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== null && value !== undefined) q.set(name, value);
  const text = q.toString();
  return text === "" ? "" : "?" + text;
}
