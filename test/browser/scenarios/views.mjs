// Every view, light and dark and narrow, kept as pictures to look at.
import { config, open, scenario, shot, signIn, until } from "./lib.mjs";

const views = {
  overview: "?range=1h", operations: "/operations?range=1h", callers: "/callers?range=1h",
  operation: "/operation?range=1h&operation=" + encodeURIComponent("POST /v1/refunds"), events: "/events?range=1h", keys: "/keys",
  record: "/keys/" + config.completed, unknown: "/unknown", retention: "/settings/retention", policy: "/settings/policy",
  namespaces: "/settings/namespaces", credentials: "/settings/credentials", audit: "/settings/audit", usage: "/settings/usage",
};

await scenario(async (browser) => {
  for (const [name, options] of Object.entries({
    light: { colorScheme: "light" }, dark: { colorScheme: "dark" },
    narrow: { colorScheme: "light", viewport: { width: 360, height: 740 } }, wall: { colorScheme: "dark", viewport: { width: 2560, height: 1440 } },
  })) {
    const { page, context, check } = await open(browser, options);
    await page.goto(config.url + "/dashboard");
    await page.getByLabel("API key").waitFor();
    if (name === "light" || name === "dark") await shot(page, `signin-${name}`);
    await signIn(page, config.admin);
    for (const [view, path] of Object.entries(views)) {
      if (name === "wall" && view !== "overview") continue;
      await page.goto(config.url + "/dashboard" + path);
      await page.getByRole("button", { name: "Sign out" }).waitFor();
      await until(async () => (await page.locator(".skeleton").count()) === 0, view + " is still loading");
      if (view === "keys") {
        await page.getByRole("button", { name: "Search" }).click();
        await page.locator("tbody tr").first().waitFor();
      }
      if (view === "record") {
        await page.getByRole("button", { name: "Show them" }).click();
        await page.locator(".body").first().waitFor();
      }
      await shot(page, `${view}-${name}`);
      if (view === "unknown" && name !== "wall") {
        await page.getByRole("button", { name: "Resolve …" }).first().click();
        await page.getByText("It happened.", { exact: true }).click();
        await page.screenshot({ path: `${config.artifacts}/resolve-${name}.png` });
      }
    }
    check();
    await context.close();
  }
});
