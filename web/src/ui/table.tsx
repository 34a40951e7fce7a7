// Tables that sort by any column, by mouse and by keyboard, and page through
// very many rows. On a narrow screen each row is a block of its own; the roles
// are said, because such a block is no longer a row by itself.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { count } from "../format";

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  by?: (row: T) => number | string | null; // sorts; null sorts last
  number?: boolean;
  class?: string;
}

interface Props<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  page?: number;
  foot?: ComponentChildren;
}

export function Table<T>({ caption, columns, rows, rowKey, page = 25, foot }: Props<T>) {
  const [sort, setSort] = useState<{ column: number; down: boolean } | null>(null); // null: as the rows came
  const [shown, setShown] = useState(page);
  const by = sort === null ? undefined : columns[sort.column]?.by;
  const sorted = by === undefined ? rows : [...rows].sort((a, b) => order(by(a), by(b), sort!.down));
  const some = sorted.slice(0, shown);
  return (
    <div class="table-wrap" tabIndex={0} role="region" aria-label={caption}>
      <table class="sheet" role="table">
        <caption class="visually-hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((c, i) => (
              <th
                scope="col"
                role="columnheader"
                class={`${c.number ? "num" : ""} ${c.class ?? ""}`}
                aria-sort={sort?.column === i ? (sort.down ? "descending" : "ascending") : undefined}
              >
                {c.by ? (
                  <button
                    type="button"
                    class="sort"
                    onClick={() => setSort(sort?.column === i ? (sort.down ? { column: i, down: false } : null) : { column: i, down: true })}
                  >
                    {c.head}
                    <span aria-hidden="true">{sort?.column === i ? (sort.down ? " ↓" : " ↑") : ""}</span>
                  </button>
                ) : (
                  c.head
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {some.map((row) => (
            <tr key={rowKey(row)} role="row">
              {columns.map((c) => (
                <td role="cell" class={`${c.number ? "num" : ""} ${c.class ?? ""}`} data-head={c.head}>
                  {c.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {foot}
      </table>
      {sorted.length > shown && (
        <p class="more">
          <button type="button" class="button" onClick={() => setShown(shown + 100)}>
            Show more: {count(sorted.length - shown)} are left
          </button>
        </p>
      )}
    </div>
  );
}

function order(a: number | string | null, b: number | string | null, down: boolean): number {
  if (a === b) return 0;
  if (a === null) return 1;
  if (b === null) return -1;
  const sign = down ? -1 : 1;
  return typeof a === "string" && typeof b === "string" ? sign * -a.localeCompare(b) : sign * ((a as number) < (b as number) ? -1 : 1);
}
