import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { Up } from "./lib/coppice.ts";
import { until } from "./lib/limit.ts";
import { family, object, path } from "./lib/objects.ts";
import { matches, openLocal, section, tree } from "./lib/pages.ts";

let up: Up;
beforeAll(async () => {
  up = await Up.start();
  await up.put(...family("web", { finalizers: ["example.com/bucket"] }), ...family("api"), object("ConfigMap", "lone"));
  await up.remove("deploy/web", "-n", "shop", "--cascade=foreground");
});

/** focus describes what has the focus. */
function focus(page: Page): Promise<string> {
  return page.evaluate(() => {
    const at = document.activeElement;
    return `${at?.tagName ?? ""} ${at?.getAttribute("aria-label") ?? at?.textContent ?? ""}`.trim();
  });
}

/** visibleFocus reports whether what has the focus looks otherwise than without it. */
function visibleFocus(page: Page): Promise<boolean> {
  return page.evaluate(() => {
    const at = document.activeElement;
    if (!(at instanceof HTMLElement)) {
      return false;
    }
    const look = () => {
      const lines = [];
      for (let e: Element | null = at, i = 0; e !== null && i < 3; e = e.parentElement, i++) {
        const { outlineStyle, outlineWidth, boxShadow, borderColor, backgroundColor } = getComputedStyle(e);
        lines.push([outlineStyle, outlineStyle === "none" ? "" : outlineWidth, boxShadow, borderColor, backgroundColor].join());
      }
      return lines.join("|");
    };
    const focused = look();
    at.blur();
    const without = look();
    at.focus();
    return focused !== without;
  });
}

test("/ goes to the search, arrows choose, Enter opens the object", async () => {
  const page = await openLocal(up);
  await section(page, "Stuck").waitFor();
  await page.keyboard.press("/");
  const search = page.getByRole("combobox", { name: "Search objects" });
  expect(await search.evaluate((e) => e === document.activeElement)).toBe(true);
  expect(await search.inputValue(), "the key is no text").toBe("");
  await page.keyboard.type("api");
  const options = matches(page);
  await options.nth(1).waitFor();
  const first = await options.nth(0).getAttribute("id");
  const second = await options.nth(1).getAttribute("id");
  expect(await search.getAttribute("aria-activedescendant")).toBe(first);
  await page.keyboard.press("ArrowDown");
  expect(await search.getAttribute("aria-activedescendant")).toBe(second);
  expect(await options.nth(1).getAttribute("aria-selected")).toBe("true");
  await page.keyboard.press("ArrowUp");
  expect(await search.getAttribute("aria-activedescendant")).toBe(first);
  await page.keyboard.press("Escape");
  await options.first().waitFor({ state: "hidden" });
  await page.keyboard.press("ArrowDown");
  await options.first().waitFor();
  await page.keyboard.press("Enter");
  await until("the page of an object is shown", () => page.url().includes("/o/"));
  await until("the heading has the focus", async () => (await focus(page)).startsWith("H1"));
});

test("? shows the keys, Escape closes them, and the focus is back", async () => {
  const page = await openLocal(up);
  await section(page, "Stuck").waitFor();
  await page.keyboard.press("?");
  const dialog = page.getByRole("dialog", { name: "Keys" });
  await dialog.waitFor();
  expect(await dialog.evaluate((e) => e.contains(document.activeElement))).toBe(true);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  const help = page.getByRole("button", { name: "Keys", exact: true });
  await help.focus();
  await page.keyboard.press("Enter");
  await dialog.waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  expect(await help.evaluate((e) => e === document.activeElement), "the focus is back").toBe(true);
});

test("? and / are text in fields", async () => {
  const page = await openLocal(up);
  const search = page.getByRole("combobox", { name: "Search objects" });
  await search.focus();
  await page.keyboard.type("a/b?");
  expect(await search.inputValue()).toBe("a/b?");
  expect(await page.getByRole("dialog").count()).toBe(0);
});

test("arrows move in the tree, open and close it, and Enter goes to the object", async () => {
  const page = await openLocal(up, path("deployments.apps", object("Deployment", "api")));
  const rows = tree(page);
  const replicas = rows.getByRole("treeitem", { name: /replicasets\.apps\/api-7d4/ });
  await replicas.waitFor();
  await rows.getByRole("treeitem").first().focus();
  await page.keyboard.press("End");
  const last = await focus(page);
  await page.keyboard.press("Home");
  expect(await focus(page)).not.toBe(last);
  await page.keyboard.press("a"); // of api-7d4
  expect(await replicas.evaluate((e) => e === document.activeElement), "typing goes to a name").toBe(true);
  await replicas.focus();
  await page.keyboard.press("ArrowRight");
  await rows.getByRole("treeitem", { name: /configmaps\/api-7d4-0/ }).waitFor();
  await page.keyboard.press("ArrowRight");
  expect(await focus(page)).toContain("api-7d4-0");
  await page.keyboard.press("ArrowDown");
  expect(await focus(page)).toContain("api-7d4-1");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  expect(await replicas.getAttribute("aria-expanded")).toBe("false");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "replicasets.apps/api-7d4" }).waitFor();
});

test("Tab goes through the page in its order, each stop is seen, and none is a trap", async () => {
  const page = await openLocal(up);
  await section(page, "Stuck").getByRole("link").first().waitFor();
  await page.evaluate(() => {
    (document.activeElement as HTMLElement | null)?.blur();
  });
  const stops: string[] = [];
  let before = -1;
  await page.keyboard.press("Tab");
  expect(await focus(page)).toContain("Skip to the content");
  for (let i = 0; i < 60; i++) {
    const at = await page.evaluate(() => [...document.querySelectorAll("*")].indexOf(document.activeElement ?? document.body));
    const name = await focus(page);
    if (name.startsWith("BODY") || (i > 0 && name === stops[0])) {
      break;
    }
    expect(at, `${name} follows ${stops.at(-1) ?? ""}`).toBeGreaterThan(before);
    expect(await visibleFocus(page), `the focus on ${name} is seen`).toBe(true);
    stops.push(name);
    before = at;
    await page.keyboard.press("Tab");
  }
  expect(stops.length).toBeGreaterThan(6);
  expect(stops.some((name) => name.includes("configmaps/web-7d4-0")), stops.join("\n")).toBe(true);
});

test("the skip link leads past the header", async () => {
  const page = await openLocal(up);
  await section(page, "Stuck").getByRole("link").first().waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  expect(await page.evaluate(() => document.querySelector("main")?.contains(document.activeElement))).toBe(true);
});
