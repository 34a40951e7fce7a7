// The printed link signs in once; the first view is small, and how quick it was
// is said: a machine that tests are busy on cannot judge it.
import { assert, config, open, scenario } from "./lib.mjs";

await scenario(async (browser) => {
  const { page, check } = await open(browser);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.enable");
  let received = 0;
  cdp.on("Network.loadingFinished", (e) => (received += e.encodedDataLength));
  await page.goto(config.url + "/dashboard#link=" + config.link);
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  await page.getByText("Nothing has been begun yet").waitFor();
  await page.getByText("curl -i").first().waitFor();
  assert.ok(received < 150_000, `the first view took ${received} bytes`);
  assert.ok(!page.url().includes("link="), "the link's secret is out of the address");

  const first = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  console.log(`first view: ${received} bytes, first paint after ${Math.round(first)} ms`);

  const again = await open(browser);
  await again.page.goto(config.url + "/dashboard#link=" + config.link);
  await again.page.getByText("This link has been used").waitFor();
  check();
  again.check();
});
