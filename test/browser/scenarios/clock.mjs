// The days on which clocks change, seen in Amsterdam: 24 hours of UTC.
import { assert, config, open, scenario, signIn } from "./lib.mjs";

await scenario(async (browser) => {
  const { page, check } = await open(browser);
  await signIn(page, config.ops);
  for (const day of ["2026-10-25", "2026-03-29"]) {
    const next = new Date(Date.parse(day) + 86_400_000).toISOString();
    await page.goto(`${config.url}/dashboard?range=custom&from=${day}T00:00:00.000Z&to=${next}`);
    const chart = page.locator("section", { has: page.getByRole("heading", { name: "Outcomes over time" }) });
    await chart.getByText("per hour, UTC").waitFor();
    await chart.getByText("Numbers").click();
    const rows = await chart.locator("tbody tr").evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent.trim())));
    assert.deepEqual(
      rows.map((r) => [r[0], r[3]]), // replays
      Array.from({ length: 24 }, (_, h) => [`${day} ${String(h).padStart(2, "0")}:00:00 UTC`, h < 2 ? String(h + 3) : "0"]),
      day,
    );
    await chart.locator("thead").getByText("From (UTC)").waitFor();
    assert.equal(await page.getByLabel("From (UTC)").inputValue(), `${day}T00:00`);
  }
  check();
});
