// The overview shows exactly what the test's own traffic made, filtered or not.
import { assert, config, figure, open, scenario, signIn, until } from "./lib.mjs";

await scenario(async (browser) => {
  const { page, check } = await open(browser);
  await signIn(page, config.ops);
  const all = config.figures.all;
  await figure(page, "Begins", all.begins);
  await figure(page, "Replays", all.replays);
  await figure(page, "409 rate", all.rate);
  await figure(page, "Takeovers", all.takeovers);
  await figure(page, "Late completions", all.late);

  // The table behind the histogram adds up, and a bound belongs to its bucket.
  const ages = page.locator("section", { has: page.getByRole("heading", { name: "How late replays come" }) });
  await ages.getByText("Numbers").click();
  for (const [bucket, n] of Object.entries(config.figures.ages)) {
    assert.equal((await ages.getByRole("row", { name: bucket }).locator("td").textContent()).trim(), n, bucket);
  }
  assert.equal((await ages.locator("tfoot td").textContent()).trim(), all.replays);

  // What stands out names the operation, the client, and why.
  const findings = page.locator(".findings");
  await findings.getByText("keys are reused for other requests").waitFor();
  await findings.getByText("POST /v1/refunds").first().waitFor();
  await findings.getByText("cus_importer").first().waitFor();

  // A filter stands in the address, and what it counts is what is shown.
  await page.getByLabel("Operation", { exact: true }).fill("POST /v1/refunds");
  await page.getByLabel("Operation", { exact: true }).press("Enter");
  await figure(page, "Begins", config.figures.refunds.begins);
  await figure(page, "409 rate", config.figures.refunds.rate);
  assert.match(page.url(), /operation=POST/);
  await page.reload();
  await figure(page, "Begins", config.figures.refunds.begins);

  // Times are UTC whatever the browser's zone, and local on hover.
  await page.goto(config.url + "/dashboard/events?range=1h");
  const time = page.locator("tbody time").first();
  const at = await time.getAttribute("datetime");
  assert.equal(await time.textContent(), at.slice(0, 10) + " " + at.slice(11, 19) + " UTC");
  assert.match(await time.getAttribute("title"), / here$/);

  // An event leads to its record, and the record to its life.
  await page.getByRole("button", { name: "takeover" }).click();
  await until(async () => (await page.locator("tbody tr").count()) === Number(all.takeovers), "one row for each takeover");
  await page.locator("tbody a.mono").first().click();
  await page.getByText("Attempt 2").waitFor();
  await page.getByText("Stored responses are shown to the role admin only").waitFor();

  // Pausing stops the reading.
  await page.goto(config.url + "/dashboard?range=1h");
  await figure(page, "Begins", all.begins);
  await page.getByRole("button", { name: /Pause/ }).click();
  await page.getByText("paused", { exact: true }).waitFor();
  check();
});
