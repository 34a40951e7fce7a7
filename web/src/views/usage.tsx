// Use per day, against the limits.
import { get, Problem, query } from "../api/client";
import type { Outcomes } from "../api/types";
import { useData } from "../data";
import { bytes, count } from "../format";
import { Card, Empty, Loading, Trouble } from "../ui/basics";
import { Table } from "../ui/table";

interface Report {
  items: { [member: string]: unknown }[];
  limits?: { [member: string]: unknown };
}

const day = 86_400_000;

export function Usage() {
  const to = Math.floor(Date.now() / day) * day + day;
  const from = to - 30 * day;
  const span = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  const usage = useData("usage", (signal) =>
    get<Report>("/v1/usage" + query(span), signal).catch((error: unknown) => {
      if (error instanceof Problem && error.status === 404) return null; // an older service
      throw error;
    }),
  );
  const begins = useData("usage begins", (signal) => get<Outcomes>("/v1/analytics/outcomes" + query({ ...span, step: "day" }), signal));
  return (
    <>
      {usage.error && <Trouble problem={usage.error} retry={usage.reload} />}
      {usage.data?.limits && (
        <Card title="Limits">
          <dl class="facts">
            {members(usage.data.limits).map(([name, value]) => (
              <div>
                <dt>{word(name)}</dt>
                <dd>{show(name, value)}</dd>
              </div>
            ))}
          </dl>
        </Card>
      )}
      {usage.data && usage.data.items.length > 0 && (
        <Card title="Use per day (UTC)">
          <Table
            caption="Use per day"
            rows={[...usage.data.items].reverse()}
            rowKey={(d) => JSON.stringify(d)}
            page={40}
            columns={members(usage.data.items[0]!).map(([name]) => ({
              head: word(name),
              number: typeof usage.data!.items[0]![name] === "number",
              cell: (d: { [member: string]: unknown }) => show(name, d[name]),
            }))}
          />
        </Card>
      )}
      <Card title="Begins per day (UTC)">
        {begins.error && <Trouble problem={begins.error} retry={begins.reload} />}
        {begins.loading && <Loading />}
        {begins.data && begins.data.total.begins === 0 && <Empty title="Nothing was begun in the last 30 days" />}
        {begins.data && begins.data.total.begins > 0 && (
          <Table
            caption="Begins per day"
            rows={[...begins.data.items].reverse().filter((d) => d.begins > 0)}
            rowKey={(d) => d.at}
            page={40}
            columns={[
              { head: "Day", cell: (d) => d.at.slice(0, 10), by: (d) => d.at },
              { head: "Begins", number: true, by: (d) => d.begins, cell: (d) => count(d.begins) },
              { head: "New attempts", number: true, by: (d) => d.acquired, cell: (d) => count(d.acquired) },
              { head: "Replays", number: true, by: (d) => d.replays, cell: (d) => count(d.replays) },
            ]}
          />
        )}
      </Card>
    </>
  );
}

// members flattens what is nested, one level deep.
function members(o: { [member: string]: unknown }): [string, unknown][] {
  return Object.entries(o).flatMap(([name, value]): [string, unknown][] =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.entries(value as object).map(([inner, v]) => [`${name} ${inner}`, v])
      : [[name, value]],
  );
}

const word = (name: string): string => name.replaceAll("_", " ");

function show(name: string, value: unknown): string {
  if (value === null || value === undefined) return "no limit";
  if (typeof value !== "number") return String(value);
  return /bytes/.test(name) ? bytes(value) : count(value);
}
