import { beforeAll, describe, expect, test } from "vitest";
import type { Page } from "playwright-core";
import { serious } from "./lib/axe.ts";
import { allow, open, type Look } from "./lib/browser.ts";
import { Console, Up } from "./lib/coppice.ts";
import { object, path } from "./lib/objects.ts";
import { base, openLocal, section, tree } from "./lib/pages.ts";
import { fill, secret, settled, views, web, type View } from "./lib/realm.ts";

let up: Up;
let passwords: Console;
beforeAll(async () => {
  up = await Up.start();
  await fill(up);
  passwords = await Console.start(up);
});

async function show(view: View, look: Look = {}): Promise<Page> {
  allow(/status of 404 .*\/api\/realms\/(default\/objects\/configmaps\/shop\/none|none)/);
  const page = view.signedOut ? await open(base(passwords.url) + view.path, look) : await openLocal(up, view.path, look);
  await view.seen(page);
  return page;
}

/** wider returns what is wider than the window: a page must not scroll sideways. */
function wider(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) {
      return [];
    }
    return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > clientWidth + 0.5).map((e) => e.outerHTML.slice(0, 120));
  });
}

describe.each(views)("$name", (view) => {
  test.each([
    { colorScheme: "light", width: 1280 },
    { colorScheme: "dark", width: 1280 },
    { colorScheme: "light", width: 380 },
    { colorScheme: "dark", width: 380 },
  ] as const)("is accessible, and does not scroll sideways: $colorScheme, $width px", async (look) => {
    const page = await show(view, look);
    expect(await serious(page)).toEqual([]);
    expect(await wider(page)).toEqual([]);
  });
});

test("a healthy realm says that nothing is stuck", async () => {
  const healthy = await Up.start();
  await healthy.put(object("ConfigMap", "alone"));
  const page = await openLocal(healthy);
  await section(page, "Stuck").getByText("Nothing is stuck.").waitFor();
  await section(page, "Storage").getByText("Log", { exact: true }).waitFor();
  await settled(page);
  expect(await serious(page)).toEqual([]);
});

test("values of a Secret are shown on request only", async () => {
  const page = await openLocal(up, path("secrets", secret));
  const value = "aHVudGVyMg==";
  await page.getByLabel("Manifest").getByText("database").first().waitFor();
  await settled(page);
  expect(await page.content()).not.toContain(value);
  await page.getByRole("button", { name: "Show values" }).click();
  await page.getByLabel("Manifest").getByText(value).waitFor();
  expect(page.url()).not.toContain("reveal");
  await page.reload();
  await page.getByLabel("Manifest").getByText("database").first().waitFor();
  expect(await page.content(), "they are hidden again").not.toContain(value);
});

test("the URL of a view shows the same to a colleague: with the rows that are open", async () => {
  const [, middle] = web;
  if (middle === undefined) {
    throw new Error("a family has a second object");
  }
  const page = await openLocal(up, path("deployments.apps", object("Deployment", "web")));
  const replicas = tree(page).getByRole("treeitem", { name: /replicasets\.apps\/web-7d4/ });
  await replicas.focus();
  await page.keyboard.press("ArrowRight");
  await tree(page).getByRole("treeitem", { name: /configmaps\/web-7d4-0/ }).waitFor();
  const { pathname, search } = new URL(page.url());
  const other = await openLocal(up, pathname + search);
  await tree(other).getByRole("treeitem", { name: /configmaps\/web-7d4-0/ }).waitFor();
  expect(await other.title()).toContain("deployments.apps/web");
});

test("back and forward lead through the views", async () => {
  const page = await openLocal(up);
  await section(page, "Stuck").getByRole("link").first().click();
  await page.getByRole("heading", { level: 1, name: /^(configmaps|deployments\.apps|replicasets\.apps)\// }).waitFor();
  const url = page.url();
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "Realm default" }).waitFor();
  await page.goForward();
  await page.getByRole("heading", { level: 1, name: /\// }).waitFor();
  expect(page.url()).toBe(url);
});
