import type { Locator, Page } from "playwright-core";
import { open, type Look } from "./browser.ts";
import type { Up } from "./coppice.ts";
import { until } from "./limit.ts";

/** base is the URL of a console without a path. */
export function base(url: string): string {
  return new URL("/", url).origin;
}

/** openLocal opens a path of the console of an `up` without passwords, signed in by the token of its address. */
export async function openLocal(up: Up, path = "/r/default", look: Look = {}): Promise<Page> {
  const page = await open(`${base(up.console)}${path}${new URL(up.console).hash}`, look);
  await heading(page).waitFor();
  return page;
}

/** signIn signs in on the page that a console shows to those who are not. */
export async function signIn(page: Page, user: string, password: string): Promise<void> {
  await page.getByLabel("User", { exact: true }).fill(user);
  await page.getByLabel("Password", { exact: true }).fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** openAs opens a path of a console with passwords, and signs in. */
export async function openAs(console: string, up: Up, user: string, path = "/r/default", look: Look = {}): Promise<Page> {
  const page = await open(base(console) + path, look);
  await signIn(page, user, await up.password(user));
  await menu(page).waitFor();
  return page;
}

/** heading is that of the view. */
export function heading(page: Page): Locator {
  return page.getByRole("heading", { level: 1 });
}

/** menu is there while somebody is signed in. */
export function menu(page: Page): Locator {
  return page.getByRole("button", { name: /^User / });
}

/** section is a part of a view, by its heading. */
export function section(page: Page, name: string): Locator {
  return page.getByRole("region", { name, exact: true });
}

/** tree is that of the owners and dependents on the page of an object. */
export function tree(page: Page): Locator {
  return page.getByRole("tree");
}

/** matches are those of the search. */
export function matches(page: Page, options?: { name: string }): Locator {
  return page.getByRole("listbox", { name: "Matches" }).getByRole("option", options);
}

/** total is a number at the top of the overview. */
export async function total(page: Page, name: string): Promise<number> {
  const text = await page.locator("dl.totals > div", { hasText: name }).locator("dd").textContent();
  return Number(text?.replaceAll(/\D/g, ""));
}

/** withKinds returns what the overview counts if a realm has n objects: the objects that register its kinds are some, too. */
export async function withKinds(n: number, of: { run: (args: string[]) => Promise<string> }): Promise<number> {
  return n + (await of.run(["get", "kinds", "-o", "name"])).trim().split("\n").length;
}

/** settled waits until nothing of a page of an object is being read. */
export async function settled(page: Page): Promise<void> {
  await section(page, "History").getByRole("listitem").first().waitFor();
  await until("everything was read", async () => (await page.locator(".loading").count()) === 0);
}

/** place is where in the window a row of the tree is, in pixels. What is added above it must not move what a person reads. */
export async function place(row: Locator): Promise<number> {
  const box = await row.boundingBox();
  return Math.round(box?.y ?? Number.NaN);
}
