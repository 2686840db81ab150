import { beforeAll, expect, test } from "vitest";
import { Up } from "./lib/coppice.ts";
import { family } from "./lib/objects.ts";
import { openLocal, section } from "./lib/pages.ts";

const finalizer = "example.com/bucket";

let up: Up;
beforeAll(async () => {
  up = await Up.start();
  await up.put(...family("web", { finalizers: [finalizer] }), ...family("api"));
  await up.remove("deploy/web", "-n", "shop", "--cascade=foreground");
});

test("a blocked deletion is found from the overview with three clicks, and the page says why", async () => {
  const page = await openLocal(up);
  const stuck = section(page, "Stuck");
  await stuck.getByText(finalizer).first().waitFor();
  let clicks = 0;
  await stuck.getByRole("link", { name: "configmaps/web-7d4-0" }).click();
  clicks++;
  const main = page.getByRole("main");
  await main.getByRole("heading", { level: 1, name: "configmaps/web-7d4-0" }).waitFor();
  await main.getByText(finalizer).first().waitFor();
  await main.getByText(/no consumer/i).first().waitFor();
  expect(clicks).toBeLessThanOrEqual(3);
});

test("from the root of the deletion, the page names the object that blocks it", async () => {
  const page = await openLocal(up);
  await section(page, "Deletions in progress").getByRole("link", { name: "deployments.apps/web" }).click();
  const main = page.getByRole("main");
  await main.getByRole("heading", { level: 1, name: "deployments.apps/web" }).waitFor();
  await main.getByText(finalizer).first().waitFor();
  await main.getByRole("link", { name: "configmaps/web-7d4-0" }).first().click();
  await main.getByRole("heading", { level: 1, name: "configmaps/web-7d4-0" }).waitFor();
  await main.getByText(/no consumer/i).first().waitFor();
});

test("the overview offers the command that ends it, and copies it", async () => {
  const page = await openLocal(up);
  const reason = section(page, "Stuck").getByRole("listitem").filter({ hasText: finalizer }).first();
  const command = await reason.locator("code").first().textContent();
  expect(command).toMatch(/^coppice /);
  await reason.getByRole("button", { name: "Copy the command" }).click();
  await reason.getByText("Copied the command").waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(command);
});
