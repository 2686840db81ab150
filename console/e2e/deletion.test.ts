import type { Page } from "playwright-core";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { serious } from "./lib/axe.ts";
import { allow } from "./lib/browser.ts";
import { Up } from "./lib/coppice.ts";
import { until } from "./lib/limit.ts";
import { family, object, path } from "./lib/objects.ts";
import { heading, openAs, openLocal, section } from "./lib/pages.ts";

const finalizer = "example.com/bucket";

let up: Up;
beforeAll(async () => {
  up = await Up.start();
});

// A page that follows an object can ask once more for its owners and dependents after it was removed.
beforeEach(() => allow(/status of 404 .*\/family\?/));

/** planOf is the path of the page that plans the deletion of a Deployment. */
const planOf = (name: string, search = "") => `/r/default/delete/deployments.apps/shop/${name}${search}`;
const begin = (page: Page) => page.getByRole("button", { name: "Delete as planned" });
const ended = (page: Page, says: RegExp) => page.getByRole("main").locator(".outcome").getByText(says).waitFor();

/** waitEnabled waits until a button can be pressed. */
async function waitEnabled(page: Page): Promise<void> {
  await until("the plan can be confirmed", async () => begin(page).isEnabled());
}

test("from the page of an object by its plan to the end, seen live", async () => {
  const [root] = family("web", { below: 5, finalizers: [finalizer] });
  if (root === undefined) {
    throw new Error("a family has a root");
  }
  await up.put(...family("web", { below: 5, finalizers: [finalizer] }));
  const page = await openLocal(up, path("deployments.apps", root));
  await page.getByRole("link", { name: "Delete…" }).click();
  await heading(page).getByText("Delete deployments.apps/web").waitFor();
  await page.getByRole("radio", { name: "Foreground" }).check();
  await until("the choice is in the URL", () => page.url().includes("policy=Foreground"));
  await page.getByText(/--plan=foreground-/).waitFor();
  await page.getByRole("treeitem", { name: /replicasets\.apps\/web-7d4/ }).click();
  await page.getByRole("treeitem", { name: /configmaps\/web-7d4-0.*Removed after others/ }).waitFor();
  const group = page.getByRole("treeitem", { name: /4 configmaps/ });
  await group.click();
  await page.getByRole("treeitem", { name: "configmaps/web-7d4-4" }).waitFor();
  await waitEnabled(page);
  await begin(page).click();

  await page.getByRole("heading", { level: 1, name: "Deletion of deployments.apps/web" }).waitFor();
  const waiting = section(page, "What it waits for");
  await waiting.getByRole("link", { name: "configmaps/web-7d4-0" }).waitFor();
  await page.evaluate(() => void (window.shifts = []));
  await until("three objects remain", async () => (await page.locator("dl.deletion dd").first().textContent()) === "3");
  await up.run(["finalizer", "remove", "cm/web-7d4-0", finalizer, "-n", "shop", "--reason", "the bucket is gone"]);
  await ended(page, /^(\d objects were removed.*|The deletion has ended)\.$/);
  expect(await page.evaluate(() => window.shifts), "nothing moves").toEqual([]);
  expect(await serious(page)).toEqual([]);
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "deployments.apps/web" }).waitFor();
});

test("a plan that is not true any more is refused, and the next one shows what differs", async () => {
  allow(/status of 409 .*\/delete$/);
  const api = family("api", { below: 2 });
  await up.put(...api);
  const page = await openLocal(up, planOf("api"));
  await waitEnabled(page);
  const [root] = api;
  await up.put(object("ConfigMap", "api-late", { owners: root === undefined ? [] : [root] }));
  await page.getByText("The object has changed since the plan.").waitFor();
  await begin(page).click();
  const alert = page.getByRole("alert");
  await alert.getByText("Something that the plan depends on has changed, and nothing was deleted.").waitFor();
  expect(await begin(page).isDisabled()).toBe(true);
  await alert.getByRole("button", { name: "Plan again" }).click();
  await page.getByText("The numbers differ from the plan before, as shown: before → now.").waitFor();
  expect(await page.locator("dl.counts > div", { hasText: "Removed" }).first().textContent()).toMatch(/4 before, now→ 5/);
  await waitEnabled(page);
  await begin(page).click();
  await page.getByRole("heading", { level: 1, name: "Deletion of deployments.apps/api" }).waitFor();
});

test("the name is typed if more than 100 objects go", async () => {
  await up.put(...family("big", { below: 120 }));
  const page = await openLocal(up, planOf("big"));
  const name = page.getByRole("textbox", { name: /This removes 122 objects\. Type the name of the object, big, to confirm:/ });
  await name.fill("bi");
  expect(await begin(page).isDisabled()).toBe(true);
  await name.fill("big");
  await waitEnabled(page);
  expect(await serious(page)).toEqual([]);
  await name.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Deletion of deployments.apps/big" }).waitFor();
});

test("a finalizer is removed by hand with a reason, and a blocked deletion ends", async () => {
  await up.put(...family("held", { below: 1, finalizers: [finalizer] }));
  await up.remove("deploy/held", "-n", "shop", "--cascade=foreground");
  const page = await openLocal(up);
  const row = section(page, "Deletions in progress").getByRole("row", { name: /deployments\.apps\/held/ });
  await row.getByRole("link", { name: "Follow this deletion" }).click();
  await section(page, "What it waits for").getByRole("link", { name: "configmaps/held-7d4-0" }).click();
  await page.getByRole("button", { name: `Remove by hand… ${finalizer}` }).click();
  const dialog = page.getByRole("dialog", { name: "Remove the finalizer by hand" });
  expect(await dialog.getByRole("button", { name: "Remove" }).isDisabled()).toBe(true);
  await dialog.getByRole("textbox", { name: "Reason (required)" }).fill("the bucket is gone");
  expect(await serious(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Remove" }).click();
  await dialog.waitFor({ state: "hidden" });
  await page.locator("dl.line").getByText("Removed").waitFor();
  await section(page, "History").getByText(/the bucket is gone/).first().waitFor();
});

test("the keyboard is enough for a deletion", async () => {
  const keys = family("keys", { below: 1 });
  await up.put(...keys);
  const page = await openLocal(up, path("deployments.apps", keys[0] ?? object("Deployment", "keys")));
  const offered = page.getByRole("link", { name: "Delete…" });
  await offered.waitFor();
  await tabTo(page, "Delete…");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Delete deployments.apps/keys" }).waitFor();
  await waitEnabled(page);
  await tabTo(page, "Background");
  await page.keyboard.press("ArrowDown");
  await page.getByText(/--plan=foreground-/).waitFor();
  await waitEnabled(page);
  await tabTo(page, "deployments.apps/keys", "treeitem");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.getByRole("treeitem", { name: /configmaps/ }).waitFor();
  await tabTo(page, "Delete as planned");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Deletion of deployments.apps/keys" }).waitFor();
  await until("the heading has the focus", () => page.evaluate(() => document.activeElement?.tagName === "H1"));
  await ended(page, /objects were removed|has ended/);
});

/** tabTo presses Tab until what has a name, and perhaps a role, has the focus. */
async function tabTo(page: Page, name: string, role?: string): Promise<void> {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(
      ([name, role]) => {
        const at = document.activeElement;
        const label = at instanceof HTMLInputElement ? at.labels?.[0]?.textContent : at?.textContent;
        return (label ?? "").startsWith(name ?? "") && (role === undefined || at?.getAttribute("role") === role);
      },
      [name, role],
    );
    if (found) {
      return;
    }
  }
  throw new Error(`Tab does not reach ${name}`);
}

test("a viewer is not offered to delete", async () => {
  const guarded = await Up.start({ auth: true });
  await guarded.put(...family("web", { below: 1 }));
  const at = path("deployments.apps", object("Deployment", "web"));
  const operator = await openAs(guarded.console, guarded, "operator", at);
  await operator.getByRole("link", { name: "Delete…" }).waitFor();
  const page = await openAs(guarded.console, guarded, "viewer", at);
  await section(page, "Why it is kept").waitFor();
  await page.waitForLoadState("networkidle");
  expect(await page.getByRole("link", { name: "Delete…" }).count()).toBe(0);
  await page.goto(new URL(planOf("web"), page.url()).href);
  await page.getByText(/may see the plan but may not delete deployments\.apps\/web/).waitFor();
  expect(await begin(page).count()).toBe(0);
  expect(await serious(page)).toEqual([]);
});
