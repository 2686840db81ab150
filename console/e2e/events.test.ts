import type { Locator, Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { serious } from "./lib/axe.ts";
import { Up } from "./lib/coppice.ts";
import { family, object } from "./lib/objects.ts";
import { openLocal, section } from "./lib/pages.ts";

const script = "<script>attacked('note')</script>";

let up: Up;
beforeAll(async () => {
  up = await Up.start();
});

const events = "/r/default/events";

/** row is the row of a command. */
function row(page: Page, text: string | RegExp): Locator {
  return section(page, "Rows").getByRole("listitem").filter({ hasText: text }).first();
}

test("a deletion appears, counts what follows, and unfolds by keys", async () => {
  await up.put(...family("seen", { below: 5 }));
  const page = await openLocal(up, events);
  await row(page, "ana imported deployments.apps/seen").waitFor();
  await up.remove("deploy/seen", "-n", "shop", "--cascade=foreground");
  const deletion = row(page, "ana deleted deployments.apps/seen");
  await deletion.getByText("7 objects removed").waitFor();
  const unfold = deletion.getByRole("button", { name: /: ana deleted deployments\.apps\/seen$/ });
  await unfold.focus();
  await page.keyboard.press("Enter");
  await deletion.getByRole("link", { name: "configmaps/seen-7d4-3" }).first().waitFor();
  expect(await unfold.getAttribute("aria-expanded")).toBe("true");
  await deletion.getByText(/because .*ana deleted deployments\.apps\/seen/).first().waitFor();
  expect(await serious(page)).toEqual([]);

  // While a row is unfolded, new rows wait, and nothing moves.
  const before = await unfold.boundingBox();
  await up.put(object("ConfigMap", "later"));
  const button = page.getByRole("button", { name: "1 new row" });
  await button.waitFor();
  expect(await unfold.boundingBox()).toEqual(before);
  await button.focus();
  await page.keyboard.press("Enter");
  await row(page, "ana imported configmaps/later").waitFor();
  expect(await unfold.getAttribute("aria-expanded")).toBe("true");
});

test("filters are used by keys, and their URL shows a colleague the same", async () => {
  await up.put(object("ConfigMap", "one"), object("Secret", "two"));
  const page = await openLocal(up, events);
  await page.getByLabel("Object", { exact: true }).focus();
  await page.keyboard.type("configmaps/shop/one");
  await page.keyboard.press("Enter");
  await page.waitForURL(/name=one/);
  await row(page, "ana imported configmaps/one").waitFor();
  expect(await section(page, "Rows").locator(".event-row").count()).toBe(1);
  const { pathname, search } = new URL(page.url());
  const other = await openLocal(up, pathname + search, { width: 380 });
  await row(other, "ana imported configmaps/one").waitFor();
  expect(await other.getByLabel("Object", { exact: true }).inputValue()).toBe("configmaps/shop/one");
  await page.goBack();
  await row(page, /Realm|imported|created/).waitFor();
  expect(await page.getByLabel("Object", { exact: true }).inputValue()).toBe("");
});

test("actors, notes and names are text", async () => {
  const name = "<script>attacked('name')";
  await up.put(object("ConfigMap", name, { finalizers: ["example.com/bucket"] }));
  await up.remove(`cm/${name}`, "-n", "shop");
  await up.run(["finalizer", "remove", `cm/${name}`, "example.com/bucket", "-n", "shop", "--reason", script]);
  const page = await openLocal(up, events);
  await row(page, `ana deleted configmaps/${name}`).waitFor();
  const removal = row(page, `ana removed a finalizer from configmaps/${name}`);
  await removal.getByText(script).first().waitFor();
  await removal.getByRole("button", { name: /events?: / }).click();
  await removal.getByText("Removed").first().waitFor();
  expect(await page.locator("main script").count()).toBe(0);
});
