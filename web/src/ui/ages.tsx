// The ages of replays: the contract's buckets as columns of one width, with the
// percentiles and the two marks that matter.
import { count, percent, seconds } from "../format";
import type { Ages } from "../api/types";

// zone says what an age up to this bound points at.
function zone(le: number | null): "network" | "between" | "loop" {
  if (le !== null && le <= 5) return "network";
  return le !== null && le <= 30 ? "between" : "loop";
}

function bounds(ages: Ages, i: number): string {
  const le = ages.buckets[i]!.le;
  const above = i === 0 ? 0 : ages.buckets[i - 1]!.le;
  if (le === null) return `over ${seconds(above)}`;
  return i === 0 ? `up to ${seconds(le)}` : `${seconds(above)} to ${seconds(le)}`;
}

// place is where an age stands on the axis, as a share of its width: within its
// bucket by the logarithm.
function place(ages: Ages, age: number): number {
  const n = ages.buckets.length;
  const i = ages.buckets.findIndex((b) => b.le === null || age <= b.le);
  const high = ages.buckets[i]!.le;
  const low = i === 0 ? 0.01 : ages.buckets[i - 1]!.le!;
  const within = high === null ? 0.5 : Math.log(Math.max(age, low) / low) / Math.log(high / low);
  return (i + Math.min(1, Math.max(0, within))) / n;
}

export function AgeHistogram({ ages }: { ages: Ages }) {
  const most = Math.max(1, ...ages.buckets.map((b) => b.count));
  const n = ages.buckets.length;
  const mark = (le: number) => (ages.buckets.findIndex((b) => b.le === le) + 1) / n;
  const share = (from: number, to: number) =>
    ages.count === 0 ? 0 : ages.buckets.filter((b) => (b.le ?? Infinity) > from && (b.le ?? Infinity) <= to).reduce((sum, b) => sum + b.count, 0) / ages.count;
  const marks: [string, number | null][] = [
    ["p50", ages.p50],
    ["p90", ages.p90],
    ["p99", ages.p99],
  ];
  return (
    <figure class="chart">
      <dl class="percentiles">
        {marks.map(([name, age]) => (
          <div>
            <dt>{name}</dt>
            <dd>{seconds(age)}</dd>
          </div>
        ))}
        <div class="grow" />
        <div>
          <dt>
            <span class="swatch swatch--c-network" aria-hidden="true" /> within 5 s
          </dt>
          <dd>{ages.count === 0 ? "–" : percent(share(0, 5))}</dd>
        </div>
        <div>
          <dt>
            <span class="swatch swatch--c-loop" aria-hidden="true" /> over 30 s
          </dt>
          <dd>{ages.count === 0 ? "–" : percent(share(30, Infinity))}</dd>
        </div>
      </dl>
      <div class="ages" role="img" aria-label="Replays by age: a histogram, its numbers are in the table below">
        <div class="ages-zones" aria-hidden="true">
          <span style={{ width: `${mark(5) * 100}%` }}>network</span>
          <span style={{ width: `${(mark(30) - mark(5)) * 100}%` }} />
          <span style={{ width: `${(1 - mark(30)) * 100}%` }}>retry loop</span>
        </div>
        <div class={`ages-plot ${ages.count === 0 ? "plot-empty" : ""}`}>
          {ages.buckets.map((b, i) => (
            <div class="ages-column" title={`${bounds(ages, i)}: ${count(b.count)}`}>
              <span class="ages-count">{b.count > 0 ? count(b.count) : ""}</span>
              <div class={`ages-bar ages-${zone(b.le)}`} style={{ height: `${b.count === 0 ? 0 : Math.max(1.5, (b.count / most) * 100)}%` }} />
            </div>
          ))}
          <div class="ages-mark" style={{ left: `${mark(5) * 100}%` }} />
          <div class="ages-mark" style={{ left: `${mark(30) * 100}%` }} />
          {marks.map(([name, age]) =>
            age === null ? null : (
              <div class={`ages-p ages-${name}`} style={{ left: `${place(ages, age) * 100}%` }} title={`${name}: ${seconds(age)}`}>
                <span>{name}</span>
              </div>
            ),
          )}
        </div>
        <div class="ages-axis" aria-hidden="true">
          {ages.buckets.map((b) => (
            <span class={b.le === 5 || b.le === 30 ? "strong" : ""}>{b.le === null ? "∞" : axis(b.le)}</span>
          ))}
        </div>
      </div>
      <details class="numbers">
        <summary>Numbers</summary>
        <table>
          <caption class="visually-hidden">Replays by age</caption>
          <thead>
            <tr>
              <th scope="col">Age</th>
              <th scope="col" class="num">
                Replays
              </th>
            </tr>
          </thead>
          <tbody>
            {ages.buckets.map((b, i) => (
              <tr>
                <th scope="row">{bounds(ages, i)}</th>
                <td class="num">{count(b.count)}</td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">all</th>
              <td class="num">{count(ages.count)}</td>
            </tr>
          </tfoot>
        </table>
      </details>
    </figure>
  );
}

const axis = (s: number): string => (s < 60 ? `${s}s` : s < 3600 ? `${s / 60}m` : s < 86400 ? `${s / 3600}h` : `${s / 86400}d`);

// MiniAges is the same for a row of a table.
export function MiniAges({ ages }: { ages: Ages }) {
  if (ages.count === 0) return <span class="muted">no replays</span>;
  const most = Math.max(...ages.buckets.map((b) => b.count));
  const label = ages.buckets.flatMap((b, i) => (b.count > 0 ? [`${bounds(ages, i)}: ${count(b.count)}`] : [])).join(", ");
  return (
    <svg class="mini" viewBox={`0 0 ${ages.buckets.length * 7} 26`} role="img" aria-label={`Ages of replays: ${label}`}>
      <title>{label}</title>
      <line x1="0" y1="25.5" x2={ages.buckets.length * 7} y2="25.5" class="mini-base" />
      {ages.buckets.map((b, i) => {
        const h = b.count === 0 ? 0 : Math.max(2, (b.count / most) * 24);
        return <rect x={i * 7 + 0.5} y={25 - h} width="6" height={h} class={`fill-${zone(b.le)}`} />;
      })}
    </svg>
  );
}

// Shares is how the begins of a row ended, as one bar.
export function Shares({ parts, total }: { parts: { name: string; kind: string; n: number }[]; total: number }) {
  if (total === 0) return <span class="muted">–</span>;
  const label = parts.filter((p) => p.n > 0).map((p) => `${p.name} ${count(p.n)}`).join(", ");
  let x = 0;
  return (
    <svg class="shares" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={label}>
      <title>{label}</title>
      {parts.map((p) => {
        const w = (p.n / total) * 100;
        const at = x;
        x += w;
        return w > 0 ? <rect x={at} y="0" width={w} height="10" class={`fill-${p.kind}`} /> : null;
      })}
    </svg>
  );
}
