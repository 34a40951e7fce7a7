// The address is the state: the path is the view, the query its filters. Keys
// and metadata never stand in it: they are personal, and addresses are shared.
import { useEffect, useState } from "preact/hooks";

export const base = "/dashboard";

export interface Place {
  path: string; // below /dashboard, with a slash first
  params: URLSearchParams;
}

const listeners = new Set<() => void>();

export function here(): Place {
  const path = location.pathname.slice(base.length) || "/";
  return { path, params: new URLSearchParams(location.search) };
}

export function usePlace(): Place {
  const [place, set] = useState(here);
  useEffect(() => {
    const changed = () => set(here());
    listeners.add(changed);
    addEventListener("popstate", changed);
    return () => {
      listeners.delete(changed);
      removeEventListener("popstate", changed);
    };
  }, []);
  return place;
}

export function go(to: string, replace = false): void {
  if (replace) history.replaceState(null, "", to);
  else {
    history.pushState(null, "", to);
    scrollTo(0, 0);
  }
  for (const changed of listeners) changed();
}

// href is an address within the dashboard. The range and the namespace go with
// whoever walks on; the other filters only where they are named.
export function href(path: string, params: Record<string, string | null | undefined> = {}): string {
  const kept = new URLSearchParams();
  const now = new URLSearchParams(location.search);
  for (const name of ["range", "from", "to", "namespace"]) {
    const value = now.get(name);
    if (value !== null) kept.set(name, value);
  }
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined) kept.delete(name);
    else kept.set(name, value);
  }
  const q = kept.toString();
  return base + (path === "/" ? "" : path) + (q === "" ? "" : "?" + q);
}

// setParams changes filters in place; null removes one.
export function setParams(changes: Record<string, string | null>): void {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) params.delete(name);
    else params.set(name, value);
  }
  const q = params.toString();
  go(location.pathname + (q === "" ? "" : "?" + q), true);
}

// followLinks lets plain links within the dashboard change the view without
// loading the page again.
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin || !link.pathname.startsWith(base)) return;
  event.preventDefault();
  go(link.pathname + link.search);
}
