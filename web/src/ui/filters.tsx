// The filters of the views with figures, all of them in the address.
import { useEffect, useState } from "preact/hooks";
import type { Callers, Operations } from "../api/types";
import { get, query } from "../api/client";
import { useData } from "../data";
import { useNamespaces } from "../session";
import { chooseRange, type Range, type RangeName } from "../range";
import { setParams } from "../router";

interface Props {
  params: URLSearchParams;
  range: Range;
  live?: { paused: boolean; set(paused: boolean): void; at: number | null };
  only?: ("operation" | "caller")[];
}

const ranges: [RangeName, string][] = [
  ["1h", "1 h"],
  ["24h", "24 h"],
  ["7d", "7 d"],
  ["custom", "custom"],
];

export function Filters({ params, range, live, only = ["operation", "caller"] }: Props) {
  const namespaces = useNamespaces();
  return (
    <form class="filters" role="search" aria-label="Filters" onSubmit={(e) => e.preventDefault()}>
      <div class="segmented" role="group" aria-label="Time range">
        {ranges.map(([name, label]) => (
          <button type="button" aria-pressed={range.name === name} onClick={() => chooseRange(name, range)}>
            {label}
          </button>
        ))}
      </div>
      {range.name === "custom" && <CustomRange range={range} />}
      <label class="inline">
        <span>Namespace</span>
        <select value={params.get("namespace") ?? ""} onChange={(e) => setParams({ namespace: e.currentTarget.value || null })}>
          <option value="">all</option>
          {namespaces.map((n) => (
            <option value={n.id}>{n.name}</option>
          ))}
        </select>
      </label>
      {only.includes("operation") && <Name what="operation" range={range} params={params} />}
      {only.includes("caller") && <Name what="caller" range={range} params={params} />}
      {live && (
        <div class="live">
          <button type="button" class="button" aria-pressed={live.paused} onClick={() => live.set(!live.paused)}>
            {live.paused ? "▶ Resume" : "❚❚ Pause"}
          </button>
          <span class="muted">{live.paused ? "paused" : live.at ? `as of ${new Date(live.at).toISOString().slice(11, 19)} UTC` : ""}</span>
        </div>
      )}
    </form>
  );
}

// Name filters by an operation or a caller, with those of the range to choose
// from. The empty caller is one too: it is reached from the list of callers.
function Name({ what, range, params }: { what: "operation" | "caller"; range: Range; params: URLSearchParams }) {
  const now = params.get(what);
  const [text, setText] = useState(now ?? "");
  const [wanted, want] = useState(false);
  useEffect(() => setText(now ?? ""), [now]);
  const path = what === "operation" ? "operations" : "callers";
  const list = useData(wanted ? `${path} ${range.from.slice(0, 13)}` : "", async (signal) =>
    wanted ? get<Operations | Callers>(`/v1/analytics/${path}` + query({ from: range.from, to: range.to, limit: "200" }), signal) : null,
  );
  const id = `names-${what}`;
  const commit = () => {
    if (text !== (now ?? "")) setParams({ [what]: text === "" ? null : text });
  };
  return (
    <label class="inline">
      <span>{what === "operation" ? "Operation" : "Caller"}</span>
      <span class="clearable">
        <input
          type="text"
          list={id}
          value={text}
          placeholder={now === "" ? "(the empty caller)" : "all"}
          spellcheck={false}
          autocomplete="off"
          onFocus={() => want(true)}
          onInput={(e) => setText(e.currentTarget.value)}
          onChange={commit}
          onKeyDown={(e) => e.key === "Enter" && commit()}
        />
        {now !== null && (
          <button type="button" class="clear" aria-label={`Show every ${what}`} onClick={() => setParams({ [what]: null })}>
            ✕
          </button>
        )}
      </span>
      <datalist id={id}>
        {list.data?.items.map((i) => <option value={"operation" in i ? i.operation : i.caller} />)}
      </datalist>
    </label>
  );
}

function CustomRange({ range }: { range: Range }) {
  const set = (name: "from" | "to") => (e: { currentTarget: HTMLInputElement }) => {
    const at = Date.parse(e.currentTarget.value + "Z");
    if (Number.isFinite(at)) setParams({ range: "custom", from: range.from, to: range.to, [name]: new Date(at).toISOString() });
  };
  return (
    <>
      <label class="inline">
        <span>From (UTC)</span>
        <input type="datetime-local" value={range.from.slice(0, 16)} max={range.to.slice(0, 16)} onChange={set("from")} />
      </label>
      <label class="inline">
        <span>To (UTC)</span>
        <input type="datetime-local" value={range.to.slice(0, 16)} min={range.from.slice(0, 16)} onChange={set("to")} />
      </label>
    </>
  );
}
