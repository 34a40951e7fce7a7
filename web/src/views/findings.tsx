// What stands out, in words: which operation has a client that misbehaves, who
// it is, and why. It comes before any chart.
import { get, query } from "../api/client";
import type { Callers, Group, Operations, Reading } from "../api/types";
import { useData } from "../data";
import { count, percent } from "../format";
import type { Range } from "../range";
import { href } from "../router";
import { Outside } from "../ui/basics";

interface Finding {
  operation: string;
  group: Group;
  reading: Reading;
}

// The worst first: work that may have been done twice, then what refuses or
// repeats work, then what costs time.
const severity = ["late_work", "reused_keys", "short_leases", "eager_retries", "reused_owners", "network_trouble"];

const titles: { [code: string]: string } = {
  late_work: "work may have been done twice",
  reused_keys: "keys are reused for other requests",
  short_leases: "leases end before the work does",
  eager_retries: "a retry loop goes on",
  reused_owners: "owners are reused",
  network_trouble: "answers get lost on the way",
};

// measure is the figure by which a caller shows the same behaviour.
const measure: { [code: string]: (g: Group) => number } = {
  late_work: (g) => g.late_completions,
  reused_keys: (g) => g.conflicts.fingerprint_mismatch,
  short_leases: (g) => g.takeovers,
  eager_retries: (g) => g.replay_ages.buckets.filter((b) => b.le === null || b.le > 30).reduce((n, b) => n + b.count, 0),
  reused_owners: (g) => g.resumed,
  network_trouble: (g) => g.replay_ages.buckets.filter((b) => b.le !== null && b.le <= 5).reduce((n, b) => n + b.count, 0),
};

export function findingsOf(operations: Operations): Finding[] {
  const found = operations.items.flatMap((group) => group.reading.map((reading) => ({ operation: group.operation, group, reading })));
  const rank = (f: Finding) => {
    const i = severity.indexOf(f.reading.code);
    return i < 0 ? severity.length : i;
  };
  return found.sort((a, b) => rank(a) - rank(b) || b.reading.count - a.reading.count);
}

const most = 4;

export function Findings({ operations, params, range }: { operations: Operations; params: URLSearchParams; range: Range }) {
  const found = findingsOf(operations);
  if (found.length === 0) {
    const rate = operations.total.conflict_rate;
    return (
      <section class="findings findings-none" aria-label="What stands out">
        <p>
          <strong>Nothing stands out.</strong> {count(operations.total.begins)} begins, {percent(rate)} of them refused, and no operation shows one of
          the known patterns of a client that misbehaves.
        </p>
      </section>
    );
  }
  return (
    <section class="findings" aria-labelledby="findings-title">
      <h2 id="findings-title">What stands out</h2>
      <ol>
        {found.slice(0, most).map((f) => (
          <FindingRow key={f.operation + f.reading.code} finding={f} params={params} range={range} />
        ))}
      </ol>
      {found.length > most && <p class="muted">{count(found.length - most)} more below, with their operations.</p>}
    </section>
  );
}

function FindingRow({ finding: f, params, range }: { finding: Finding; params: URLSearchParams; range: Range }) {
  const by = measure[f.reading.code];
  const filter = { from: range.from, to: range.to, namespace: params.get("namespace"), operation: f.operation, limit: "100" };
  const callers = useData(`${f.operation} ${f.reading.code} ${params} ${f.reading.count}`, (signal) => get<Callers>("/v1/analytics/callers" + query(filter), signal));
  const ranked = by === undefined ? [] : [...(callers.data?.items ?? [])].map((c) => ({ caller: c.caller, n: by(c) })).sort((a, b) => b.n - a.n);
  const total = by === undefined ? 0 : by(f.group);
  const top = ranked[0];
  return (
    <li class={`finding finding-${f.reading.code}`}>
      <p class="finding-title">
        <a href={href("/operation", { operation: f.operation })}>
          <Outside text={f.operation} />
        </a>
        : {titles[f.reading.code] ?? f.reading.code}
      </p>
      <p>
        {f.reading.text}
        {top && top.n > 0 && total > 0 && (
          <>
            {" "}
            {top.n >= total * 0.5 ? "Mostly" : "First of all"} caller{" "}
            <a href={href("/caller", { caller: top.caller, operation: null })}>
              <Outside text={top.caller} empty="(the empty one)" />
            </a>
            : {count(top.n)} of {count(total)}.
          </>
        )}
      </p>
    </li>
  );
}
