// A whole length of time, as a number and a unit.
import { useState } from "preact/hooks";

const units: [string, number][] = [
  ["seconds", 1],
  ["minutes", 60],
  ["hours", 3600],
  ["days", 86400],
];

const fit = (s: number): number => [...units].reverse().find(([, u]) => s >= u && s % u === 0)?.[1] ?? 1;

export function Duration(p: { id?: string; label?: string; describedBy?: string; value: number; disabled?: boolean; onChange: (seconds: number) => void }) {
  const [unit, setUnit] = useState(() => fit(p.value));
  return (
    <span class="duration">
      <input
        id={p.id}
        aria-label={p.label}
        aria-describedby={p.describedBy}
        type="number"
        min={1}
        step="any"
        required
        disabled={p.disabled}
        value={Number((p.value / unit).toFixed(4))}
        onInput={(e) => {
          const n = Number(e.currentTarget.value);
          if (Number.isFinite(n)) p.onChange(Math.round(n * unit));
        }}
      />
      <select
        aria-label={`Unit${p.label ? ` of ${p.label}` : ""}`}
        value={unit}
        disabled={p.disabled}
        onChange={(e) => {
          const next = Number(e.currentTarget.value);
          const n = p.value / unit;
          setUnit(next);
          p.onChange(Math.round(n * next));
        }}
      >
        {units.map(([name, s]) => (
          <option value={s}>{name}</option>
        ))}
      </select>
    </span>
  );
}
