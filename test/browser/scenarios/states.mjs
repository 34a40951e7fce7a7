// The states that a view can be in beside the usual one.
import { assert, config, figure, open, scenario, signIn, until } from "./lib.mjs";

const rows = (page) => page.locator("tbody tr");
const begin = (key) =>
  fetch(config.url + "/v1/keys", {
    method: "POST",
    headers: { Authorization: "Bearer " + config.service, "Content-Type": "application/json" },
    body: JSON.stringify({ key, operation: "POST /v1/once-more", request: { method: "POST", path: "/v1/charges" } }),
  });

await scenario(async (browser) => {
  const { page, context, check } = await open(browser);
  await signIn(page, config.ops);

  // Very many operations, one with the longest name that there is.
  await page.getByRole("link", { name: "Operations", exact: true }).click();
  await until(async () => (await rows(page).count()) === 25, "a page of operations");
  await page.getByRole("button", { name: /Show more/ }).click();
  await until(async () => (await rows(page).count()) === 125, "a hundred more");
  await page.getByRole("button", { name: /Show more/ }).click();
  await page.getByRole("button", { name: /Show more/ }).waitFor({ state: "detached" });
  await page.getByText(config.long).waitFor({ state: "attached" });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), "the longest name widens the page");

  // Sorting, by mouse and by keyboard; the third time it is as it came.
  const first = async () => (await rows(page).first().locator("td").first().textContent()).trim();
  const asItCame = await first();
  const byName = page.getByRole("button", { name: "Operation", exact: true });
  await byName.click();
  assert.equal(await page.getByRole("columnheader", { name: "Operation", exact: true }).getAttribute("aria-sort"), "descending");
  const down = await first();
  await byName.press("Enter");
  assert.equal(await page.getByRole("columnheader", { name: "Operation", exact: true }).getAttribute("aria-sort"), "ascending");
  assert.notEqual(await first(), down);
  await byName.press("Enter");
  assert.equal(await first(), asItCame);
  await page.getByRole("button", { name: "Replays", exact: true }).click();
  assert.equal(await first(), "GET /one-replay");

  // One single replay; B113: its percentiles are its age, and in its bucket.
  await page.goto(config.url + "/dashboard/operation?operation=" + encodeURIComponent("GET /one-replay"));
  await figure(page, "Replays", "1");
  await page.getByText("One replay: the percentiles are its age.").waitFor();
  const ages = page.locator("section", { has: page.getByRole("heading", { name: "How late replays come" }) });
  const percentiles = await ages.locator(".percentiles dd").allTextContents();
  assert.deepEqual(percentiles.slice(0, 3), Array(3).fill(percentiles[0]));
  assert.match(percentiles[0], /^4\d s$/);
  await ages.getByText("Numbers").click();
  assert.equal((await ages.getByRole("row", { name: "30 s to 1 min" }).locator("td").textContent()).trim(), "1");

  // No traffic in a range; the range is in the address, and so it is after Back.
  await page.goto(config.url + "/dashboard?range=custom&from=2026-03-01T00:00:00.000Z&to=2026-03-02T00:00:00.000Z");
  await page.getByText("No traffic in this range").waitFor();
  assert.equal(await page.getByLabel("From (UTC)").inputValue(), "2026-03-01T00:00");

  // Loading, then an error that can be tried again.
  let fail = true;
  let go;
  const held = new Promise((done) => (go = done));
  await page.route("**/v1/analytics/callers*", async (route) => {
    await held;
    if (!fail) return route.continue();
    return route.fulfill({ status: 400, contentType: "application/problem+json", body: JSON.stringify({ code: "invalid_request", detail: "For the test." }) });
  });
  await page.goto(config.url + "/dashboard/callers");
  await page.getByRole("status", { name: "Loading" }).waitFor();
  go();
  await page.getByRole("alert").getByText("For the test.").waitFor();
  fail = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await rows(page).first().waitFor();

  // Updates come by themselves, not while paused, and again after it.
  await page.clock.install({ time: new Date() });
  await page.goto(config.url + "/dashboard/operation?operation=" + encodeURIComponent("POST /v1/once-more"));
  await page.getByText("No traffic in this range").waitFor();
  assert.equal((await begin("key-of-the-update-1")).status, 201);
  await until(async () => {
    await page.clock.fastForward(6_000);
    return (await page.locator('[data-figure="Begins"]').textContent({ timeout: 300 })) === "1";
  }, "the figure comes by itself");
  const asked = [];
  page.on("request", (r) => r.url().includes("/v1/analytics/") && asked.push(r.url()));
  await page.getByRole("button", { name: /Pause/ }).click();
  await page.getByText("paused", { exact: true }).waitFor();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done())));
  asked.length = 0;
  await page.clock.fastForward(60_000);
  assert.deepEqual(asked, [], "reads while paused");
  await page.getByRole("button", { name: /Resume/ }).click();
  await until(() => Promise.resolve(asked.length > 0), "it goes on reading");

  // Offline: what was known stays, and it comes back by itself.
  await page.getByText("as of").waitFor();
  await context.setOffline(true);
  await until(async () => {
    await page.clock.fastForward(6_000);
    return page.getByRole("alert").getByText("Offline.").first().isVisible();
  }, "offline is said");
  assert.equal((await page.locator('[data-figure="Begins"]').textContent()).trim(), "1");
  await context.setOffline(false);
  await until(async () => {
    await page.clock.fastForward(6_000);
    return (await page.getByRole("alert").count()) === 0;
  }, "it is over");

  // What was searched for stands in no address.
  await page.goto(config.url + "/dashboard/keys");
  await page.getByLabel("Key", { exact: true }).fill("key-of-the-update-1");
  await page.getByLabel("Metadata").fill("order=secret-42");
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByText("No record is found").waitFor();
  await page.getByLabel("Metadata").fill("");
  await page.getByRole("button", { name: "Search" }).click();
  await rows(page).getByRole("link").first().click();
  await page.getByRole("heading", { name: "key-of-the-update-1" }).waitFor();
  const address = await page.evaluate(() => JSON.stringify([location.href, performance.getEntries().map((e) => e.name)]));
  assert.doesNotMatch(address, /key-of|secret-42/);
  check();

  // A resolver of one namespace decides there and nowhere else.
  const resolver = await open(browser);
  await signIn(resolver.page, config.resolver, "/unknown");
  await until(async () => (await rows(resolver.page).count()) === 2, "two wait");
  assert.equal(await resolver.page.getByText("needs a resolver").count(), 1);
  assert.equal(await resolver.page.getByRole("button", { name: "Resolve …" }).count(), 1);
  resolver.check();
});
