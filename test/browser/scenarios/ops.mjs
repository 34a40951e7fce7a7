// Ops sees the settings and can save none, by the page or past it.
import { assert, config, open, scenario, signIn } from "./lib.mjs";

await scenario(async (browser) => {
  const { page, check } = await open(browser);
  await signIn(page, config.ops, "/settings/retention");
  for (const name of ["Retention", "Policy", "Namespaces", "Credentials", "Audit", "Usage"]) {
    await page.getByLabel("Settings").getByRole("link", { name }).click();
    await page.getByText("Changing them needs a credential with the role").waitFor();
    const buttons = await page.locator("main .button:not(.quiet)").allTextContents();
    assert.deepEqual(buttons.filter((b) => !/Older|Show more|Try again/.test(b)), [], name);
  }
  const statuses = await page.evaluate(async () => {
    const calls = [
      ["PUT", "/v1/retention", { default_seconds: 7200 }],
      ["PATCH", "/v1/policy", { lease_seconds: 30 }],
      ["POST", "/v1/credentials", { name: "x", role: "ops" }],
      ["POST", "/v1/namespaces", { name: "x" }],
    ];
    const answers = [];
    for (const [method, path, body] of calls) {
      const r = await fetch(path, { method, headers: { "Onceward-Dashboard": "1", "Content-Type": "application/json", "If-Match": '"1"' }, body: JSON.stringify(body) });
      answers.push(r.status);
    }
    answers.push((await fetch("/v1/policy")).status); // the cookie without the header
    return answers;
  });
  assert.deepEqual(statuses, [403, 403, 403, 403, 403]);
  check();
});
