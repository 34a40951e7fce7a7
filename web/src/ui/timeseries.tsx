// Charts over time, by uPlot; the numbers behind each are a table that anybody
// can open.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { utc } from "../format";

export interface Series {
  name: string;
  color: string; // a custom property of the style sheet, such as --c-replay
  values: (number | null)[];
}

interface Props {
  title: string;
  at: string[]; // the start of each step
  stepSeconds: number;
  series: Series[]; // stacked in this order, the first at the bottom
  format: (value: number) => string;
  height?: number;
}

export function TimeSeries({ title, at, stepSeconds, series, format, height = 190 }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef<Series[]>(series);
  latest.current = series;
  const formatter = useRef(format);
  formatter.current = format;
  const [off, setOff] = useState<ReadonlySet<string>>(new Set());
  const [point, setPoint] = useState<number | null>(null);
  const theme = useTheme();
  const names = series.map((s) => s.name).join("|");
  const shown = series.filter((s) => !off.has(s.name));

  const drawn = useRef<{ data: uPlot.AlignedData }>({ data: [[]] });
  drawn.current.data = stack(at, stepSeconds, shown);
  const empty = series.every((s) => s.values.every((v) => !v));

  useEffect(() => {
    const element = box.current!;
    const css = getComputedStyle(document.documentElement);
    const color = (name: string) => css.getPropertyValue(name).trim();
    const bars = uPlot.paths.bars!({ size: [0.82, 60], gap: 1 });
    const u = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height,
        tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"),
        legend: { show: false },
        padding: [10, 20, 0, 0],
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        scales: {
          x: { range: (_u, min, max) => [min - stepSeconds / 2, max + stepSeconds / 2] },
          y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
        },
        axes: [
          { stroke: color("--muted"), grid: { show: false }, ticks: { stroke: color("--line"), size: 4 }, font: "12px system-ui", space: 64, size: 30, gap: 4,
            values: (_u, splits) => labels(splits, stepSeconds) },
          { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui", size: 58, space: 34,
            values: (_u, splits) => splits.map((v) => (v === null ? "" : formatter.current(v))) },
        ],
        // Drawn from the top of the stack down, each over the one before.
        series: [
          {},
          ...[...shown].reverse().map((s) => ({ label: s.name, fill: color(s.color), stroke: color(s.color), width: 0, paths: bars, points: { show: false } })),
        ],
        hooks: { setCursor: [(v) => setPoint(v.cursor.idx ?? null)] },
      },
      drawn.current.data,
      element,
    );
    plot.current = u;
    const resized = new ResizeObserver(() => u.setSize({ width: Math.max(200, element.clientWidth), height }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [names, [...off].join("|"), stepSeconds, height, theme]);

  useEffect(() => plot.current?.setData(drawn.current.data), [series, at]);

  const i = point !== null && point < at.length ? point : null;
  return (
    <figure class="chart">
      <div class="legend">
        {series.map((s) => (
          <button
            type="button"
            class="legend-item"
            aria-pressed={!off.has(s.name)}
            title={off.has(s.name) ? "Show it" : "Hide it"}
            onClick={() => {
              const next = new Set(off);
              if (!next.delete(s.name) && next.size < series.length - 1) next.add(s.name);
              setOff(next);
            }}
          >
            <span class={`swatch swatch${s.color}`} aria-hidden="true" />
            {s.name}
            <b>{i === null ? "" : format(s.values[i] ?? 0)}</b>
          </button>
        ))}
        <span class="legend-at">{i === null ? "" : utc(at[i]!)}</span>
      </div>
      <div class={`plot ${empty ? "plot-empty" : ""}`} ref={box} role="img" aria-label={`${title}: a chart, its numbers are in the table below`} />
      <details class="numbers">
        <summary>Numbers</summary>
        <div class="table-wrap numbers-table" tabIndex={0} role="region" aria-label={`${title}: numbers`}>
          <table>
            <caption class="visually-hidden">{title}</caption>
            <thead>
              <tr>
                <th scope="col">From (UTC)</th>
                {series.map((s) => (
                  <th scope="col" class="num">
                    {s.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {at.map((t, row) => (
                <tr key={t}>
                  <th scope="row">{utc(t)}</th>
                  {series.map((s) => (
                    <td class="num">{format(s.values[row] ?? 0)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

function stack(at: string[], stepSeconds: number, series: Series[]): uPlot.AlignedData {
  const x = at.map((t) => Date.parse(t) / 1000 + stepSeconds / 2);
  const sums: number[][] = [];
  let below = at.map(() => 0);
  for (const s of series) {
    below = below.map((b, i) => b + (s.values[i] ?? 0));
    sums.push(below);
  }
  return [x, ...sums.reverse()];
}

const two = (n: number): string => String(n).padStart(2, "0");

function labels(splits: number[], stepSeconds: number): string[] {
  let day = "";
  return splits.map((ts) => {
    const d = new Date(ts * 1000);
    const date = `${d.getUTCDate()} ${d.toLocaleString("en", { month: "short", timeZone: "UTC" })}`;
    const time = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`;
    const first = date !== day;
    day = date;
    if (stepSeconds >= 86400) return date;
    return time === "00:00" ? date : first && splits.length < 3 ? `${date} ${time}` : time;
  });
}

// useTheme changes when light turns to dark: what is on a canvas is drawn anew.
export function useTheme(): string {
  const [theme, set] = useState(() => current());
  useEffect(() => {
    const changed = () => set(current());
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", changed);
    const watch = new MutationObserver(changed);
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      media.removeEventListener("change", changed);
      watch.disconnect();
    };
  }, []);
  return theme;
}

const current = (): string => document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
