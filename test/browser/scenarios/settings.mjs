// Everything an admin sets beside what admin.mjs does, looked at from outside
// as well: by the API, with the admin's own key.
import { assert, config, figure, open, scenario, signIn, until } from "./lib.mjs";

const api = async (path, key = config.admin) => (await fetch(config.url + path, { headers: { Authorization: "Bearer " + key } })).json();

await scenario(async (browser) => {
  const { page, context, check } = await open(browser, { permissions: ["clipboard-read", "clipboard-write"] });
  await signIn(page, config.admin, "/settings/policy");
  const dialog = page.getByRole("dialog");

  // Policy: the tenant's defaults, then one operation's own.
  await page.getByRole("button", { name: "Change …", exact: true }).click();
  await dialog.getByLabel("When a lease ends").selectOption("hold");
  await dialog.getByLabel("Ignored in JSON bodies").fill("/sent_at\n/nonce");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  const policy = await api("/v1/policy");
  assert.equal(policy.on_lease_expiry, "hold");
  assert.deepEqual(policy.ignore_pointers, ["/sent_at", "/nonce"]);
  await page.getByRole("button", { name: "Add an operation" }).click();
  await dialog.getByLabel("Operation", { exact: true }).fill("POST /v1/mails");
  await dialog.getByLabel("On mismatch", { exact: true }).check();
  await dialog.getByLabel("On mismatch of the operation").selectOption("replay");
  await dialog.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Change POST /v1/mails" }).waitFor();
  assert.deepEqual((await api("/v1/policy/operations")).items.map((o) => [o.operation, o.on_mismatch]), [["POST /v1/mails", "replay"]]);
  await page.getByRole("button", { name: "Remove POST /v1/mails" }).click();
  await dialog.getByText("goes by the tenant's defaults again").waitFor();
  await dialog.getByRole("button", { name: "Remove it" }).click();
  await page.getByRole("button", { name: "Change POST /v1/mails" }).waitFor({ state: "detached" });
  assert.deepEqual((await api("/v1/policy/operations")).items, []);

  // Namespaces: one is made, and renamed.
  await page.getByLabel("Settings").getByRole("link", { name: "Namespaces" }).click();
  await page.getByRole("button", { name: "Make a namespace" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("staging");
  await dialog.getByRole("button", { name: "Make it" }).click();
  await page.getByRole("button", { name: "Rename staging" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill("test");
  await dialog.getByRole("button", { name: "Rename", exact: true }).click();
  await page.getByRole("button", { name: "Rename test" }).waitFor();
  assert.ok((await api("/v1/namespaces")).items.some((n) => n.name === "test"));

  // Credentials: both keys work after a rotation, and the new one is copied.
  await page.getByLabel("Settings").getByRole("link", { name: "Credentials" }).click();
  await page.getByRole("button", { name: "Rotate ops" }).click();
  await dialog.getByLabel("Both keys work for").selectOption({ label: "an hour" });
  await dialog.getByRole("button", { name: "Rotate it" }).click();
  const secret = (await page.locator("[data-secret]").textContent()).trim();
  await dialog.getByRole("button", { name: "Copy the key" }).click();
  await dialog.getByText("copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), secret);
  await dialog.getByRole("button", { name: "I have it" }).click();
  for (const key of [secret, config.ops]) await until(async () => Array.isArray((await api("/v1/credentials", key)).items), "a key of a rotated credential works");
  await page.getByText("replaced, goes on until").waitFor();

  // Retention: what exists is shortened after a grace, until which it is cancelled.
  await page.getByLabel("Settings").getByRole("link", { name: "Retention" }).click();
  await page.getByLabel("Unit", { exact: true }).selectOption({ label: "hours" });
  await page.getByLabel("By default").fill("2");
  await page.getByRole("button", { name: "Preview the change" }).click();
  await figure(page, "shortened", config.completed);
  await page.getByLabel("Shorten the records that exist as well").check();
  const save = page.getByRole("button", { name: `Save, and shorten ${config.completed} records` });
  assert.equal(await save.isDisabled(), true, "no shortening without a reason");
  await page.getByLabel("Reason").fill("a smaller database");
  await save.click();
  await page.getByRole("button", { name: "Cancel it: no record is shortened" }).click();
  await page.getByText("cancelled", { exact: true }).waitFor();
  const retention = await api("/v1/retention");
  assert.deepEqual([retention.default_seconds, retention.change.state, retention.change.records_changed], [7200, "cancelled", 0]);

  // Forgetting names what happens, and wants a reason.
  await page.goto(config.url + "/dashboard/keys/" + config.record);
  await page.getByRole("button", { name: "Forget …" }).click();
  await dialog.getByText("The next begin with this key runs the operation again.").waitFor();
  const forget = dialog.getByRole("button", { name: "Forget this record" });
  assert.equal(await forget.isDisabled(), true, "no forgetting without a reason");
  await dialog.getByLabel("Reason").fill("made by mistake");
  await forget.click();
  await page.getByText("Find a record").waitFor();
  await page.goto(config.url + "/dashboard/keys/" + config.record);
  await page.getByText("Not found.").waitFor();

  // All of it is in the trail, with its reason; use stands against the limits.
  await page.goto(config.url + "/dashboard/settings/audit");
  for (const text of ["made by mistake", "a smaller database", "namespace.rename", "credential.rotate"]) await page.locator("tbody").getByText(text).first().waitFor();
  await page.getByLabel("Action").selectOption("credential.rotate");
  await until(async () => (await page.locator("tbody tr").count()) === 1, "one rotation");
  await page.getByLabel("Settings").getByRole("link", { name: "Usage" }).click();
  await page.getByText("of 1,000").waitFor();
  await page.getByRole("meter", { name: "Live records: share of the limit" }).waitFor();
  await until(async () => Number((await page.locator("tbody td.num").nth(1).textContent()).replace(",", "")) === config.made, "new records of the day");
  check();
  await context.close();
});
