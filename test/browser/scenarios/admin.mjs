// What an admin sets: retention with its preview, credentials, unknown records;
// and how a session begins and ends.
import { assert, config, figure, open, scenario, signIn, until } from "./lib.mjs";

await scenario(async (browser) => {
  const { page, context, check } = await open(browser);

  // A service credential is told what it may not.
  await page.goto(config.url + "/dashboard");
  await page.getByLabel("API key").fill(config.service);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This is a service credential").waitFor();
  assert.deepEqual(await context.cookies(), []);

  await signIn(page, config.admin);
  const [cookie] = await context.cookies();
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, "Strict");
  assert.equal(await page.evaluate(() => document.cookie), "");
  assert.ok(!page.url().includes("owk_"));

  // Retention: no change without its preview.
  await page.goto(config.url + "/dashboard/settings/retention");
  await page.getByLabel("By default").fill("2");
  await page.getByLabel("Unit", { exact: true }).first().selectOption({ label: "hours" });
  assert.equal(await page.getByRole("button", { name: /^Save/ }).count(), 0);
  await page.getByLabel("By default").fill("2");
  await page.getByRole("button", { name: "Preview the change" }).click();
  await figure(page, "lost", config.preview.lost);
  await figure(page, "pruned", config.preview.pruned);
  await page.getByRole("button", { name: "Save for records to come" }).click();
  await page.getByText("Saved.").waitFor();
  await page.reload();
  await until(async () => (await page.getByLabel("By default").inputValue()) === "2", "two hours are in force");

  // A credential: issued into a namespace chosen, shown once, revoked.
  await page.getByRole("link", { name: "Credentials" }).click();
  await page.getByRole("button", { name: "Issue a credential" }).click();
  await page.getByLabel("Name", { exact: true }).fill("billing of the test");
  const issue = page.getByRole("button", { name: "Issue it" });
  assert.equal(await issue.isDisabled(), true, "no service credential without a namespace");
  await page.locator("dialog").getByLabel("Namespace", { exact: true }).selectOption({ label: "live" });
  await issue.click();
  const secret = (await page.locator("[data-secret]").textContent()).trim();
  assert.match(secret, /^owk_/);
  await page.getByRole("button", { name: "I have it" }).click();
  assert.ok(!(await page.content()).includes(secret), "the key is gone from the page");
  const begin = () =>
    fetch(config.url + "/v1/keys", {
      method: "POST",
      headers: { Authorization: "Bearer " + secret, "Content-Type": "application/json" },
      body: JSON.stringify({ key: "key-of-the-new-one", request: { method: "POST", path: "/v1/charges" } }),
    });
  assert.equal((await begin()).status, 201);
  await page.getByRole("button", { name: "Revoke billing of the test" }).click();
  await page.getByRole("button", { name: "Revoke it" }).click();
  await until(async () => (await begin()).status === 401, "the revoked key is refused");

  // Unknown records, one and many.
  await page.getByRole("link", { name: /^Unknown/ }).click();
  await until(async () => (await page.locator("tbody tr").count()) === 3, "three wait");
  await page.getByRole("button", { name: "Resolve …" }).first().click();
  await page.getByText("It happened.", { exact: true }).click();
  await page.getByLabel("Body", { exact: true }).fill('{"paid":true}');
  await page.getByLabel("Reason").fill("found at the bank");
  await page.getByRole("button", { name: "Complete this record with 200" }).click();
  await until(async () => (await page.locator("tbody tr").count()) === 2, "two wait");
  await page.getByRole("button", { name: "Choose all" }).click();
  await page.getByRole("button", { name: "Resolve 2 …" }).click();
  await page.getByText("It did not happen.", { exact: true }).click();
  await page.getByLabel("Reason").fill("never reached the bank");
  await page.getByRole("button", { name: "Open 2 records" }).click();
  await page.getByText("Nothing waits for a decision").waitFor();

  // The stored response is asked for, and the look is in the trail.
  await page.goto(config.url + "/dashboard/keys/" + config.completed);
  await page.getByRole("button", { name: "Show them" }).click();
  await page.getByText(config.body).waitFor();
  await page.goto(config.url + "/dashboard/settings/audit");
  await page.locator("tbody").getByText("response.read").first().waitFor();
  await page.locator("tbody").getByText("found at the bank").first().waitFor();

  // Signing out ends the session and not only the page.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  await context.addCookies([cookie]);
  await page.goto(config.url + "/dashboard");
  await page.getByLabel("API key").waitFor();
  check();
});
