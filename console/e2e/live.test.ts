import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { allow } from "./lib/browser.ts";
import { Up } from "./lib/coppice.ts";
import { until } from "./lib/limit.ts";
import { family, object, path } from "./lib/objects.ts";
import { openLocal, place, section, settled, total, tree } from "./lib/pages.ts";

const finalizer = "example.com/bucket";

let up: Up;
beforeAll(async () => {
  up = await Up.start();
});

/** keep marks the page: the mark is gone after a reload. */
async function keep(page: Page): Promise<() => Promise<void>> {
  await page.evaluate(() => void ((window as { kept?: boolean }).kept = true));
  return async () => expect(await page.evaluate(() => (window as { kept?: boolean }).kept), "the page was not loaded again").toBe(true);
}

test("the overview follows what the command line does", async () => {
  const page = await openLocal(up);
  const kept = await keep(page);
  const stuck = section(page, "Stuck");
  await stuck.getByText("Nothing is stuck.").waitFor();
  const before = await total(page, "Objects");

  await up.put(...family("seen", { finalizers: [finalizer] }));
  await until("the new objects are counted", async () => (await total(page, "Objects")) === before + 5);

  await up.remove("deploy/seen", "-n", "shop", "--cascade=foreground");
  await stuck.getByText(finalizer).first().waitFor();
  const row = section(page, "Deletions in progress").getByRole("row", { name: "deployments.apps/seen" });
  await row.waitFor();
  await row.getByText("1 object blocked").waitFor();

  await up.run(["finalizer", "remove", "cm/seen-7d4-0", finalizer, "-n", "shop", "--reason", "the bucket is gone"]);
  await stuck.getByText("Nothing is stuck.").waitFor();
  await section(page, "Deletions in progress").getByText("No deletion is in progress.").waitFor();
  await until("the removed objects are not counted any more", async () => (await total(page, "Objects")) === before);
  await kept();
});

test("the page of an object follows it: rows, scroll and focus stay", async () => {
  const objects = family("web", { below: 30, finalizers: [finalizer] });
  const [root] = objects;
  if (root === undefined) {
    throw new Error("a family has a root");
  }
  await up.put(...objects);
  const page = await openLocal(up, path("deployments.apps", root), { height: 500 });
  const kept = await keep(page);
  const rows = tree(page);
  const replicas = rows.getByRole("treeitem", { name: /replicasets\.apps\/web-7d4/ });
  await replicas.focus();
  await page.keyboard.press("ArrowRight");
  await rows.getByRole("treeitem", { name: /configmaps\/web-7d4-0/ }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  const url = page.url();
  expect(url, "the URL has what is open").toContain("open=");
  const read = rows.getByRole("treeitem", { name: /configmaps\/web-7d4-20\b/ });
  await settled(page);
  await read.evaluate((row) => row.scrollIntoView({ block: "center" }));
  const before = await place(read);
  const name = await focused();

  await up.put(object("ConfigMap", "web-new", { owners: [root] }));
  await rows.getByRole("treeitem", { name: /configmaps\/web-new/ }).waitFor();
  expect(await replicas.getAttribute("aria-expanded")).toBe("true");
  expect(Math.abs((await place(read)) - before), "at most the new row moves it").toBeLessThan(30);
  expect(await focused()).toContain("web-7d4");
  expect(name).toContain("web-7d4");

  await up.remove("cm/web-new", "-n", "shop");
  await rows.getByRole("treeitem", { name: /configmaps\/web-new/ }).waitFor({ state: "detached" });

  // What was open is asked for once more while it is being removed.
  allow(/status of 404 .*\/family\?uid=/);
  await up.remove("deploy/web", "-n", "shop", "--cascade=foreground");
  const main = page.getByRole("main");
  await main.locator("dl.line").getByText("Terminating").waitFor();
  await main.getByText(finalizer).first().waitFor();
  await rows.getByRole("treeitem", { name: /configmaps\/web-7d4-1\b/ }).waitFor({ state: "detached" });
  expect(await replicas.getAttribute("aria-expanded")).toBe("true");
  expect(await focused(), "the focus stays in its row").toContain("web-7d4");

  await up.run(["finalizer", "remove", "cm/web-7d4-0", finalizer, "-n", "shop", "--reason", "the bucket is gone"]);
  await main.locator("dl.line").getByText("Removed").waitFor();
  await section(page, "History").getByText(/ana/).first().waitFor();
  expect(page.url()).toBe(url);
  await kept();
});

test("rows that are open follow changes below them", async () => {
  const objects = family("deep");
  const [root, middle] = objects;
  if (root === undefined || middle === undefined) {
    throw new Error("a family has a second object");
  }
  await up.put(...objects);
  const page = await openLocal(up, path("deployments.apps", root));
  const rows = tree(page);
  await rows.getByRole("treeitem", { name: /replicasets\.apps\/deep-7d4/ }).focus();
  await page.keyboard.press("ArrowRight");
  await rows.getByRole("treeitem", { name: /configmaps\/deep-7d4-0/ }).waitFor();
  await up.put(object("ConfigMap", "deep-new", { owners: [middle] }));
  await rows.getByRole("treeitem", { name: /configmaps\/deep-new/ }).waitFor();
});

test("nothing moves on the overview when the first reason appears", async () => {
  const other = await Up.start();
  await other.put(...family("web", { finalizers: [finalizer] }));
  const page = await openLocal(other);
  await section(page, "Stuck").getByText("Nothing is stuck.").waitFor();
  await section(page, "Storage").getByText("Log", { exact: true }).waitFor();
  await page.evaluate(() => void (window.shifts = []));
  await other.remove("deploy/web", "-n", "shop", "--cascade=foreground");
  await section(page, "Stuck").getByText(finalizer).first().waitFor();
  const shifts = await page.evaluate(() => window.shifts);
  expect(shifts.reduce((sum, { value }) => sum + value, 0), JSON.stringify(shifts, undefined, 1)).toBeLessThan(0.1);
});

test("nothing moves on the overview while deletions run", async () => {
  const names = Array.from({ length: 12 }, (_, i) => `old-${i}`);
  await up.put(...names.flatMap((name) => family(name, { below: 40 })));
  await up.put(...family("last", { finalizers: [finalizer] }));
  const page = await openLocal(up);
  const objects = 12 * 42;
  await until("all objects are counted", async () => (await total(page, "Objects")) >= objects);
  const before = await total(page, "Objects");
  await up.remove("deploy/last", "-n", "shop", "--cascade=foreground");
  await section(page, "Stuck").getByText(finalizer).first().waitFor();
  await page.evaluate(() => void (window.shifts = []));
  for (const name of names) {
    await up.remove(`deploy/${name}`, "-n", "shop", "--cascade=foreground");
  }
  await until("they are removed", async () => (await total(page, "Objects")) <= before - objects);
  const shifts = await page.evaluate(() => window.shifts);
  expect(shifts.reduce((sum, { value }) => sum + value, 0), JSON.stringify(shifts, undefined, 1)).toBeLessThan(0.1);
});
