// What every scenario needs: Debian's Chromium, one page per signed-in person,
// and the proof that the page asked nobody else and broke no rule of its own
// content security policy. A scenario that throws fails its Go test.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const config = JSON.parse(process.env.BROWSER_CONFIG);
const { chromium } = createRequire(join(config.web, "package.json"))("playwright-core");

export { assert, config };
export const wait = 20_000; // the longest that anything may take on a busy machine

export async function scenario(run) {
  const browser = await chromium.launch({ executablePath: config.chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  try {
    await run(browser);
  } finally {
    await browser.close();
  }
}

// open makes a page of its own profile, in a zone with two offsets a year.
export async function open(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, timezoneId: "Europe/Amsterdam", locale: "en-GB", ...options });
  context.setDefaultTimeout(wait);
  const page = await context.newPage();
  const faults = [];
  page.on("request", (r) => {
    const url = new URL(r.url());
    if (url.origin !== new URL(config.url).origin && url.protocol !== "data:") faults.push(`asked ${url.origin}`);
    if (/owk_|key-|hostile/.test(decodeURIComponent(url.search)) && !url.searchParams.has("operation") && !url.searchParams.has("caller")) faults.push(`a key in an address: ${url.search}`);
  });
  page.on("response", (r) => {
    if (r.headers()["access-control-allow-origin"]) faults.push(`CORS header from ${r.url()}`);
    if (r.status() >= 500) faults.push(`${r.status()} from ${new URL(r.url()).pathname}`);
  });
  page.on("pageerror", (e) => faults.push(`the page failed: ${e.stack}`));
  page.on("dialog", (d) => {
    faults.push(`text from outside ran: ${d.message()}`);
    void d.dismiss();
  });
  page.on("console", (m) => {
    if (m.type() === "error" && !/Failed to load resource/.test(m.text())) faults.push(`console: ${m.text()}`);
  });
  const check = () => assert.deepEqual(faults, [], "what the page must not do");
  return { context, page, check };
}

export async function signIn(page, credential, path = "") {
  await page.goto(config.url + "/dashboard" + path);
  await page.getByLabel("API key").fill(credential);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Sign out" }).waitFor();
}

// figure waits until a tile shows a value: figures come within seconds.
export async function figure(page, name, want) {
  const tile = page.locator(`[data-figure="${name}"]`);
  await until(async () => (await tile.textContent())?.trim() === want, async () => `${name} is ${await tile.textContent()}, want ${want}`);
}

export async function until(holds, say) {
  const end = Date.now() + wait;
  for (;;) {
    if (await holds().catch(() => false)) return;
    if (Date.now() > end) assert.fail(typeof say === "function" ? await say() : say);
    await new Promise((r) => setTimeout(r, 50));
  }
}

export async function shot(page, name) {
  mkdirSync(config.artifacts, { recursive: true });
  await page.screenshot({ path: join(config.artifacts, name + ".png"), fullPage: true });
}
