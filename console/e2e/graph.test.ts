import type { Locator, Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { serious } from "./lib/axe.ts";
import { allow } from "./lib/browser.ts";
import { Console, Up } from "./lib/coppice.ts";
import { until } from "./lib/limit.ts";
import { family, object, type Manifest } from "./lib/objects.ts";
import { menu, openAs, openLocal, section } from "./lib/pages.ts";
import { down, fill, web } from "./lib/realm.ts";

let up: Up;
beforeAll(async () => {
  up = await Up.start();
  await fill(up);
});

const graph = "/r/default/graph";

/** canvas has the keys, once something is drawn. */
function canvas(page: Page): Locator {
  return page.getByRole("application", { name: "Graph of owners" });
}

async function drawn(page: Page): Promise<void> {
  await page.locator("[data-painted]").waitFor({ state: "attached" });
}

/** selected is the part of the page about the selected node. */
function selected(page: Page, name?: string | RegExp): Locator {
  const panel = section(page, "Selected node");
  return name === undefined ? panel : panel.getByRole("heading", { level: 2, name });
}

async function find(page: Page, text: string): Promise<void> {
  await page.getByRole("combobox", { name: "Find in the graph" }).fill(text);
  await page.getByRole("listbox").getByRole("option").first().click();
}

function state(page: Page, name: string): Locator {
  return page.getByRole("list", { name: "States" }).getByRole("button", { name: new RegExp(`^${name}\\b`) });
}

function uidOf(manifest: Manifest | undefined): string {
  if (manifest === undefined) {
    throw new Error("there is such an object");
  }
  return manifest.metadata.uid;
}

test("an object is found, its node selected, and its place in the URL", async () => {
  const page = await openLocal(up, graph);
  await drawn(page);
  await find(page, "web-7d4-0");
  await selected(page, "web-7d4-0").waitFor();
  const panel = selected(page);
  await panel.getByText("Blocked").waitFor();
  await panel.getByText("finalizer example.com/bucket").waitFor();
  await until("the picture has the keys", () => canvas(page).evaluate((element) => element === document.activeElement));
  await panel.getByText("configmaps").waitFor();
  await until("the URL names the node", () => page.url().includes(`at=${uidOf(web[2])}`));
  await panel.getByRole("button", { name: "web-7d4", exact: true }).click();
  await selected(page, /^web-7d4$/).waitFor();
  await until("the URL names its owner", () => page.url().includes(`at=${uidOf(web[1])}`));
  // A colleague sees the same.
  const { pathname, search } = new URL(page.url());
  const other = await openLocal(up, pathname + search);
  await selected(other, /^web-7d4$/).waitFor();
});

test("the keys go through the graph, open, close, and lead to the page of an object", async () => {
  const page = await openLocal(up, `${graph}?namespace=shop`);
  await drawn(page);
  await canvas(page).focus();
  await find(page, "web-7d4-0");
  await selected(page, "web-7d4-0").waitFor();
  await page.keyboard.press("ArrowUp");
  await selected(page, /^web-7d4$/).waitFor();
  const nodes = async () => Number(await page.locator("[data-painted]").getAttribute("data-shown"));
  const before = await nodes();
  await page.keyboard.press(" ");
  await until("the node is closed", async () => (await nodes()) < before);
  await selected(page).getByText(/closed; at least one is blocked/).waitFor();
  expect(page.url()).toContain("shut=");
  await page.keyboard.press(" ");
  await until("the node is open again", async () => (await nodes()) === before);
  await page.keyboard.press("ArrowDown");
  await selected(page, /^web-7d4-/).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /^configmaps\/web-7d4-/ }).waitFor();
  await page.goBack();
  await selected(page, /^web-7d4-/).waitFor();
});

test("the mouse selects a node, and opens and closes it", async () => {
  const root = uidOf(object("Deployment", "api"));
  const page = await openLocal(up, `${graph}?root=${root}&shut=${root}`); // one node, left of the middle
  await drawn(page);
  const box = await canvas(page).boundingBox();
  if (box === null) {
    throw new Error("the graph has a place on the page");
  }
  const y = box.y + box.height / 2;
  let x = box.x + box.width / 2;
  await until("a click hits the node", async () => {
    x -= 8;
    await page.mouse.click(x, y);
    return (await selected(page, /^api$/).count()) === 1;
  });
  const shows = (nodes: number) => page.getByText(new RegExp(`^5 objects${nodes < 5 ? `, ${nodes} of them shown` : "$"}`));
  const closed = () => page.url().includes("shut=");
  // Two of the clicks may have been a double click.
  await until("the picture is what the URL says", async () => (await shows(closed() ? 1 : 5).count()) === 1);
  for (const nodes of closed() ? [5, 1, 5] : [1, 5]) {
    await page.mouse.dblclick(x, y);
    await shows(nodes).waitFor();
    expect(closed()).toBe(nodes === 1);
  }
});

test("the legend counts states, and leads to the next object that is blocked", async () => {
  const page = await openLocal(up, graph);
  await drawn(page);
  await state(page, "Blocked").click();
  await selected(page).getByText("Blocked", { exact: true }).waitFor();
  const title = async () => selected(page).getByRole("heading", { level: 2 }).textContent();
  const first = await title();
  await state(page, "Blocked").click();
  await until("the next one is another", async () => (await title()) !== first);
  // Neither of the two waits for others that are blocked.
  expect([first, await title()].map((name) => name?.trim()).sort()).toEqual(["search-7d4-0", "web-7d4-0"]);
  expect(await state(page, "Protected").isEnabled()).toBe(true);
});

test("a part of the realm is shown: a namespace, labels, and what depends on an object", async () => {
  const page = await openLocal(up, graph);
  await drawn(page);
  const says = (text: RegExp) => page.getByText(text).first().waitFor();
  await page.getByLabel("Labels").fill("app=api");
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await says(/^1 object$/);
  await page.getByLabel("Labels").fill("app");
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await says(/"app" is not a label; write key=value/);
  await page.getByLabel("Labels").fill("");
  await up.put(object("ConfigMap", "alone", { namespace: "alone" }));
  await page.getByLabel("Namespace").fill("alone");
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await says(/^1 object$/);
  await find(page, "web-7d4-0");
  await page.getByText("The object is not in this part of the graph.").waitFor();
  await page.getByRole("link", { name: "Show the whole realm" }).click();
  await selected(page, "web-7d4-0").waitFor();
  await selected(page).getByRole("button", { name: "web-7d4", exact: true }).click();
  await selected(page).getByRole("button", { name: "Only this and what depends on it" }).click();
  await says(/^2 objects$/);
  await page.getByRole("button", { name: "Show all objects again" }).click();
  await until("all objects are shown again", async () => Number(await page.locator("[data-painted]").getAttribute("data-shown")) > 10);
  await page.goto(page.url().replace(/\?.*/, "?root=00000000-0000-4000-8000-000000000000"));
  await says(/The object does not exist any more/);
});

test("the graph follows the realm, and nothing on the page moves meanwhile", async () => {
  const own = await Up.start();
  await own.put(...family("live", { finalizers: ["example.com/bucket"] }));
  const page = await openLocal(own, `${graph}?namespace=shop`);
  await drawn(page);
  await page.getByText(/^5 objects$/).waitFor();
  await page.evaluate(() => void (window.shifts.length = 0));
  await own.put(object("ConfigMap", "more"));
  await page.getByText(/^6 objects$/).waitFor();
  await own.run(["protect", "cm/more", "-n", "shop", "--reason", "a test"]);
  await state(page, "Protected").getByText("1", { exact: true }).waitFor();
  await own.remove("deploy/live", "-n", "shop", "--cascade=foreground");
  await state(page, "Blocked").click();
  await selected(page).getByText("Blocked", { exact: true }).waitFor();
  await own.run(["finalizer", "remove", "cm/live-7d4-0", "example.com/bucket", "-n", "shop", "--reason", "the bucket is gone"]);
  await page.getByText(/^1 object$/).waitFor();
  expect(await page.evaluate(() => window.shifts)).toEqual([]);
});

describe("a console next to an installation", () => {
  test("the graph goes on after a crash of NATS, and of the writer, with what was selected", async () => {
    const own = await Up.start({ auth: true, console: false });
    const console = await Console.start(own);
    await own.put(...family("kept"));
    const page = await openAs(console.url, own, "operator", `${graph}?namespace=shop`);
    await drawn(page);
    await find(page, "kept-7d4-1");
    await selected(page, "kept-7d4-1").waitFor();
    allow(...down);
    await own.kill();
    await page.locator(".connection-bar").waitFor();
    expect(await selected(page, "kept-7d4-1").count(), "the picture stays").toBe(1);
    await own.again();
    await page.locator(".connection-bar").waitFor({ state: "hidden" });
    await own.put(object("ConfigMap", "new"));
    await page.getByText(/^6 objects$/).waitFor();
    await selected(page, "kept-7d4-1").waitFor();
  });

  test("a viewer sees the graph, and is offered no deletion", async () => {
    const own = await Up.start({ auth: true });
    await own.put(...family("seen"));
    for (const [user, offered] of [["operator", 1], ["viewer", 0]] as const) {
      const page = await openAs(own.console, own, user, `${graph}?namespace=shop`);
      await menu(page).waitFor();
      await drawn(page);
      await find(page, "seen-7d4-1");
      await selected(page, "seen-7d4-1").waitFor();
      await until("the rights were read", async () => (await selected(page).getByRole("link", { name: "Delete…" }).count()) === offered);
    }
  });
});

test("without WebGL, the page says so, and the keys and the panel work", async () => {
  const page = await openLocal(up);
  await page.addInitScript(() => {
    HTMLCanvasElement.prototype.getContext = () => null;
  });
  await page.goto(page.url().replace(/\/r\/default.*/, `${graph}?namespace=shop&at=${uidOf(web[0])}&show=${uidOf(web[0])}`));
  await page.getByText("This browser cannot draw the graph:").waitFor();
  await selected(page, /^web$/).waitFor();
  await canvas(page).focus();
  await page.keyboard.press("ArrowDown");
  await selected(page, /^web-7d4$/).waitFor();
  expect(await serious(page)).toEqual([]);
});

test("names in the graph are text", async () => {
  const name = "<img src=x onerror=attacked('name')>".replaceAll(" ", "\u00a0");
  await up.put(object("ConfigMap", name, { namespace: "attack" }));
  const page = await openLocal(up, `${graph}?namespace=attack&labels=${encodeURIComponent("<b>=<i>")}`);
  await page.getByText("No object matches: change the namespace or the labels.").waitFor();
  await page.goto(page.url().replace(/&labels=.*/, ""));
  await drawn(page);
  await canvas(page).focus();
  await page.keyboard.press("Home");
  await selected(page, /<img/).waitFor();
  expect(await page.locator("img").count()).toBe(0);
});

test("a page that is left releases what it draws with", async () => {
  const page = await openLocal(up, graph);
  await drawn(page);
  for (let visit = 0; visit < 40; visit++) {
    await page.getByRole("link", { name: "Events", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    await page.getByRole("link", { name: "Graph", exact: true }).click();
    if (visit % 2 === 0) { // else the page is left before it draws
      await drawn(page);
    }
  }
  await drawn(page); // Chromium warns of more than 16 contexts, and a warning fails the test.
  expect(await page.locator(".graph-layers canvas").count()).toBeLessThan(10);
});
