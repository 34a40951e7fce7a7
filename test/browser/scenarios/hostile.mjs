// Names, keys, callers and bodies from outside are text wherever they stand.
import { assert, config, open, scenario, signIn, until } from "./lib.mjs";

await scenario(async (browser) => {
  const { page, check } = await open(browser, { viewport: { width: 360, height: 740 } });
  await signIn(page, config.admin);
  const views = ["?range=1h", "/operations", "/callers", "/events", "/keys/" + config.record, "/unknown", "/settings/credentials", "/settings/namespaces", "/settings/audit", "/settings/policy",
    "/operation?operation=" + encodeURIComponent(config.operation)];
  for (const view of views) {
    await page.goto(config.url + "/dashboard" + view);
    await page.getByRole("button", { name: "Sign out" }).waitFor();
    await page.locator("main h1").waitFor();
    await until(async () => (await page.locator(".skeleton").count()) === 0, view + " is still loading");
    assert.equal(await page.locator("main img, main script, main iframe, main a[href^='javascript']").count(), 0, view);
    const wide = await page.evaluate(() => {
      const width = document.documentElement.clientWidth;
      if (document.documentElement.scrollWidth <= width) return [];
      const sticksOut = (e) => e.getBoundingClientRect().right > width && !e.closest(".table-wrap, .top nav, .tabs");
      return [...document.querySelectorAll("body *")].filter(sticksOut).map((e) => e.tagName + "." + e.className);
    });
    assert.deepEqual(wide, [], `${view} is wider than a screen of 360 px`);
  }
  await page.goto(config.url + "/dashboard/keys/" + config.record);
  await page.getByRole("button", { name: "Show them" }).click();
  await page.getByText("<script>alert('body')</script>").waitFor();
  await page.goto(config.url + "/dashboard/settings/credentials");
  await page.getByText("U+202E").first().waitFor(); // shown, not obeyed
  check();
});
