// Operations and callers: the same figures, worst first.
import { get, query } from "../api/client";
import type { Callers, Group, Operations } from "../api/types";
import { useData } from "../data";
import { compact, count, percent, seconds } from "../format";
import { rangeOf } from "../range";
import { href, type Place } from "../router";
import { MiniAges, Shares } from "../ui/ages";
import { Card, Empty, Loading, Outside, Trouble } from "../ui/basics";
import { Filters } from "../ui/filters";
import { Table, type Column } from "../ui/table";

type What = "operation" | "caller";
type Row = Group & { operation?: string; caller?: string };

export const shares = (g: Group) => [
  { name: "acquired", kind: "acquired", n: g.acquired },
  { name: "resumed", kind: "resumed", n: g.resumed },
  { name: "replays", kind: "replay", n: g.replays },
  { name: "in progress", kind: "progress", n: g.conflicts.in_progress },
  { name: "mismatch", kind: "mismatch", n: g.conflicts.fingerprint_mismatch },
  { name: "unknown", kind: "unknown", n: g.conflicts.outcome_unknown },
];

const refused = (g: Group) => g.conflicts.in_progress + g.conflicts.fingerprint_mismatch + g.conflicts.outcome_unknown;

export function GroupTable({ what, groups, other, brief = false }: { what: What; groups: Row[]; other: Group | null; brief?: boolean }) {
  const name = (row: Row) => (what === "operation" ? row.operation : row.caller) ?? "";
  const to = (row: Row) => (what === "operation" ? href("/operation", { operation: name(row) }) : href("/caller", { caller: name(row) }));
  const all: Column<Row>[] = [
    {
      head: what === "operation" ? "Operation" : "Caller",
      class: "name",
      by: name,
      cell: (row) => (
        <a href={to(row)}>
          <Outside text={name(row)} empty="(the empty caller)" />
        </a>
      ),
    },
    { head: "Begins", number: true, by: (g) => g.begins, cell: (g) => <span title={count(g.begins)}>{compact(g.begins)}</span> },
    { head: "409 rate", number: true, by: (g) => g.conflict_rate, cell: (g) => <span class={(g.conflict_rate ?? 0) > 0.05 ? "bad" : ""}>{percent(g.conflict_rate)}</span> },
    { head: "How begins ended", cell: (g) => <Shares parts={shares(g)} total={g.begins} /> },
    { head: "Replays", number: true, by: (g) => g.replays, cell: (g) => compact(g.replays) },
    { head: "Ages of replays", cell: (g) => <MiniAges ages={g.replay_ages} /> },
    { head: "p50", number: true, by: (g) => g.replay_ages.p50, cell: (g) => seconds(g.replay_ages.p50) },
    { head: "p99", number: true, by: (g) => g.replay_ages.p99, cell: (g) => seconds(g.replay_ages.p99) },
    { head: "Mismatches", number: true, by: (g) => g.conflicts.fingerprint_mismatch, cell: (g) => count(g.conflicts.fingerprint_mismatch) },
    { head: "Takeovers", number: true, by: (g) => g.takeovers, cell: (g) => count(g.takeovers) },
    { head: "Late", number: true, by: (g) => g.late_completions, cell: (g) => <span class={g.late_completions > 0 ? "bad" : ""}>{count(g.late_completions)}</span> },
  ];
  const columns = brief ? all.filter((c) => [what === "operation" ? "Operation" : "Caller", "Begins", "409 rate", "How begins ended", "Ages of replays"].includes(c.head)) : all;
  if (groups.length === 0) return <Empty title={`No ${what} in this range`} />;
  return (
    <Table
      caption={what === "operation" ? "Operations" : "Callers"}
      columns={columns}
      rows={groups}
      rowKey={name}
      foot={
        other && (other.begins > 0 || other.late_completions > 0) ? (
          <tfoot role="rowgroup">
            <tr role="row">
              <td role="cell" class="name">
                all others together
              </td>
              {columns.slice(1).map((c) => (
                <td role="cell" class={c.number ? "num" : ""} data-head={c.head}>
                  {c.cell(other as Row)}
                </td>
              ))}
            </tr>
          </tfoot>
        ) : undefined
      }
    />
  );
}

export function Groups({ place, what }: { place: Place; what: What }) {
  const params = place.params;
  const path = what === "operation" ? "operations" : "callers";
  const read = async (signal: AbortSignal) => {
    const range = rangeOf(params, Date.now());
    const filter = { from: range.from, to: range.to, namespace: params.get("namespace"), limit: "1000", operation: params.get("operation"), caller: params.get("caller") };
    return { range, groups: await get<Operations | Callers>(`/v1/analytics/${path}` + query(filter), signal) };
  };
  const { data, error, loading, reload } = useData(path + params.toString(), read, 15_000);
  const worst = data ? Math.max(0, ...data.groups.items.map(refused)) : 0;
  return (
    <>
      <div class="page-head">
        <h1>{what === "operation" ? "Operations" : "Callers"}</h1>
        <Filters params={params} range={data?.range ?? rangeOf(params, Date.now())} only={[what === "operation" ? "caller" : "operation"]} />
      </div>
      {error && <Trouble problem={error} retry={reload} />}
      {loading && <Loading rows={8} />}
      {data && (
        <Card>
          <p class="card-note muted">
            {count(data.groups.items.length)} {path}, {worst > 0 ? "worst first: by refused begins, then by replays" : "by replays"}. A column's name sorts by it.
            {(what === "operation" ? data.groups.names_capped.operations : data.groups.names_capped.callers) &&
              " There were more names than are counted apart on one day: the rest is in the last row."}
          </p>
          <GroupTable what={what} groups={data.groups.items} other={data.groups.other} />
        </Card>
      )}
    </>
  );
}
