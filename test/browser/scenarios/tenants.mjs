// Two tenants look at the same widgets at the same instant: each sees its own
// totals, in every round (cold profiles first, then warm).
import { assert, config, figure, open, scenario, signIn } from "./lib.mjs";

await scenario(async (browser) => {
  const people = await Promise.all([config.a, config.b].map(async (who) => ({ who, ...(await open(browser)) })));
  await Promise.all(
    people.map(async ({ page, who }) => {
      await signIn(page, who.ops, "?range=1h");
      await figure(page, "Begins", who.begins);
      await figure(page, "409 rate", who.rate);
      assert.ok((await page.content()).includes(who.caller));
    }),
  );
  for (const { page, who } of people) {
    const other = people.find((p) => p.who !== who).who;
    assert.ok(!(await page.content()).includes(other.caller), "a caller of the other tenant");
  }
  // The same reads from both pages, side by side, far more often than the page does.
  const rounds = await Promise.all(
    people.map(({ page, who }) =>
      page.evaluate(
        async ([n, want]) => {
          let wrong = 0;
          const headers = { "Onceward-Dashboard": "1" };
          for (let i = 0; i < n; i++) {
            const answers = await Promise.all(
              ["outcomes?step=hour", "operations?limit=10", "callers?limit=10", "replay-ages?"].map(async (path) => {
                const r = await fetch("/v1/analytics/" + path, { headers });
                return [await r.json(), r.headers.get("Cache-Control")];
              }),
            );
            const [outcomes, operations, callers] = answers.map(([body]) => body.total?.begins);
            if (outcomes !== want || operations !== want || callers !== want || answers.some(([, cache]) => cache !== "no-store")) wrong++;
          }
          return wrong;
        },
        [config.rounds, Number(who.begins)],
      ),
    ),
  );
  assert.deepEqual(rounds, [0, 0], "rounds in which a total was another's");
  for (const { check } of people) check();
});
