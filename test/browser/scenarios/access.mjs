// What a screen reader reads, what weak eyes can tell apart, and what is done
// with a keyboard alone.
import { assert, config, open, scenario, signIn, until } from "./lib.mjs";

const views = ["?range=1h", "/operations?range=1h", "/operation?range=1h&operation=" + encodeURIComponent("POST /v1/charges"), "/callers", "/events?range=1h", "/keys",
  "/keys/" + config.completed, "/unknown", "/settings/retention", "/settings/policy", "/settings/namespaces", "/settings/credentials", "/settings/audit", "/settings/usage"];

// faultsOfContrast measures text against what is painted behind it (WCAG 2.2,
// 1.4.3): 4.5 to 1, large text 3 to 1. Disabled controls are exempt.
function faultsOfContrast() {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const c = rgba(getComputedStyle(e).backgroundColor);
      layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faults = new Set();
  let looked = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e.checkVisibility({ visibilityProperty: true }) || e.closest(":disabled, .visually-hidden, script, noscript")) continue;
    const style = getComputedStyle(e);
    const behind = ground(e);
    const [a, b] = [light(over(rgba(style.color), behind)), light(behind)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    looked++;
    if (ratio < (large ? 3 : 4.5)) faults.add(`${ratio.toFixed(2)}: ${e.tagName}.${e.className} ${JSON.stringify(walk.currentNode.data.trim().slice(0, 30))}`);
  }
  return { looked, faults: [...faults] };
}

// faultsOfNames goes through the accessibility tree: what can be acted on or
// stands for a picture has a name, and there is one top heading.
async function faultsOfNames(cdp) {
  const { nodes } = await cdp.send("Accessibility.getFullAXTree");
  const roles = ["button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "spinbutton", "Date", "DateTime", "image", "img", "table", "region", "dialog", "navigation", "meter", "DisclosureTriangle", "columnheader"];
  const shown = nodes.filter((n) => !n.ignored);
  const faults = shown.filter((n) => roles.includes(n.role?.value) && !n.name?.value?.trim()).map((n) => `a ${n.role.value} without a name`);
  const tops = shown.filter((n) => n.role?.value === "heading" && n.properties.some((p) => p.name === "level" && p.value.value === 1));
  if (tops.length !== 1) faults.push(`${tops.length} top headings`);
  for (const role of ["main", "navigation", "banner", "contentinfo"]) if (!shown.some((n) => n.role?.value === role)) faults.push(`no ${role}`);
  return { faults, count: (role) => shown.filter((n) => n.role?.value === role).length };
}

await scenario(async (browser) => {
  let looked = 0;
  for (const colorScheme of ["light", "dark"]) {
    const { page, context, check } = await open(browser, { colorScheme });
    const cdp = await context.newCDPSession(page);
    await page.goto(config.url + "/dashboard");
    await page.getByLabel("API key").waitFor();
    assert.deepEqual((await page.evaluate(faultsOfContrast)).faults, [], "sign-in, " + colorScheme);
    await signIn(page, config.admin);
    for (const view of views) {
      await page.goto(config.url + "/dashboard" + view);
      await page.locator("main h1").waitFor();
      await until(async () => (await page.locator(".skeleton").count()) === 0 && (await page.locator("main .card, main .empty").count()) > 0, view + " is still loading");
      const contrast = await page.evaluate(faultsOfContrast);
      looked += contrast.looked;
      assert.deepEqual(contrast.faults, [], `contrast of ${view}, ${colorScheme}`);
      const tree = await faultsOfNames(cdp);
      assert.deepEqual(tree.faults, [], view);
      if (view === views[0]) {
        // Each chart is a named picture with a table of its numbers behind it.
        assert.equal(await page.locator("main figure").count(), 3);
        assert.equal(await page.locator("main figure [role=img][aria-label*='numbers are in the table below']").count(), 3);
        assert.equal(await page.locator("main figure details table").count(), 3);
        await page.locator("main figure summary").first().press("Enter");
        assert.ok((await page.locator("main figure").first().getByRole("row").count()) > 60, "a row for each minute");
      }
    }
    check();
    await context.close();
  }
  assert.ok(looked > 1000, `only ${looked} texts were looked at`);

  // By keyboard: to the content, to a row's action, into its dialog and back.
  const { page, check } = await open(browser);
  await signIn(page, config.admin, "/settings/namespaces");
  await page.getByRole("button", { name: "Rename live" }).waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Rename live" }).waitFor();
  const focus = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent.trim());
  await page.keyboard.press("Tab");
  assert.equal(await focus(), "To the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  for (let i = 0; i < 30 && (await focus()) !== "Rename live"; i++) await page.keyboard.press("Tab");
  assert.equal(await focus(), "Rename live");
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none", "the focus is seen");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Rename a namespace" }).waitFor();
  for (let i = 0; i < 8; i++) {
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest("dialog") !== null), "the focus stays in the dialog");
  }
  await page.keyboard.press("Escape");
  await until(async () => (await focus()) === "Rename live", async () => `the focus went to ${await focus()}`);
  check();
});
