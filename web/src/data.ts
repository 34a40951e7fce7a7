// Reading from the API in a view: old figures stay until new ones are there, so
// that nothing flickers; an error stands beside them, with what was known.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api/client";

export interface Loaded<T> {
  data: T | null;
  error: Problem | null;
  loading: boolean; // nothing has been shown for this yet
  reload(): void;
}

// useData reads again when key changes, and every `every` ms while the page is
// seen; 0 never.
export function useData<T>(key: string, read: (signal: AbortSignal) => Promise<T>, every = 0): Loaded<T> {
  const [state, set] = useState<{ key: string; data: T | null; error: Problem | null }>({ key: "", data: null, error: null });
  const [turn, setTurn] = useState(0);
  const reader = useRef(read);
  reader.current = read;
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const run = async () => {
      if (document.hidden && every > 0) return schedule();
      try {
        const data = await reader.current(stop.signal);
        if (!stop.signal.aborted) set({ key, data, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(-1, "bug", `The page failed: ${String(error)}`, null);
        set((old) => ({ key, data: old.key === key ? old.data : null, error: problem }));
      }
      schedule();
    };
    const schedule = () => {
      if (every > 0 && !stop.signal.aborted) timer = window.setTimeout(run, every);
    };
    const shown = () => {
      if (document.hidden || every === 0) return;
      clearTimeout(timer);
      void run();
    };
    document.addEventListener("visibilitychange", shown);
    void run();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [key, every, turn]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  return { data: state.data, error: state.error, loading: state.data === null && state.error === null, reload };
}
