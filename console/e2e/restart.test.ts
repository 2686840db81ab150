import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { allow, open } from "./lib/browser.ts";
import { Console, Up } from "./lib/coppice.ts";
import { until } from "./lib/limit.ts";
import { family, object, path } from "./lib/objects.ts";
import { base, heading, menu, openAs, openLocal, place, section, settled, signIn, total, tree, withKinds } from "./lib/pages.ts";
import { down } from "./lib/realm.ts";
import { Services } from "./lib/services.ts";

/** bar covers the bottom of the page while nothing new arrives. */
function bar(page: Page) {
  return page.locator(".connection-bar");
}

describe("a console next to an installation", () => {
  test("a NATS server that crashes is reported, and views go on by themselves when it is back", async () => {
    const up = await Up.start({ auth: true, console: false });
    const console = await Console.start(up);
    const web = family("web", { below: 30 });
    const [root] = web;
    if (root === undefined) {
      throw new Error("a family has a root");
    }
    await up.put(...web);
    const count = await withKinds(web.length, up);
    const overview = await openAs(console.url, up, "operator");
    await until("all objects are counted", async () => (await total(overview, "Objects")) === count);
    const page = await openAs(console.url, up, "operator", path("deployments.apps", root), { height: 500 });
    const replicas = tree(page).getByRole("treeitem", { name: /replicasets\.apps\/web-7d4/ });
    await replicas.focus();
    await page.keyboard.press("ArrowRight");
    await tree(page).getByRole("treeitem", { name: /configmaps\/web-7d4-0/ }).waitFor();
    const read = tree(page).getByRole("treeitem", { name: /configmaps\/web-7d4-20\b/ });
    await settled(page);
    await read.evaluate((row) => row.scrollIntoView({ block: "center" }));
    const before = await place(read);
    const url = page.url();

    allow(...down);
    await up.kill();
    await bar(overview).waitFor();
    await bar(page).waitFor();
    expect(await bar(page).textContent()).toContain("tries again");
    expect(await heading(page).textContent()).toBe("deployments.apps/web");
    expect(await replicas.getAttribute("aria-expanded")).toBe("true");
    expect(await total(overview, "Objects"), "the overview stays").toBe(count);

    await up.again();
    await bar(overview).waitFor({ state: "hidden" });
    await bar(page).waitFor({ state: "hidden" });
    await up.put(object("ConfigMap", "web-new", { owners: [root] }));
    await tree(page).getByRole("treeitem", { name: /configmaps\/web-new/ }).waitFor();
    await until("the new object is counted", async () => (await total(overview, "Objects")) === count + 1);
    expect(await replicas.getAttribute("aria-expanded")).toBe("true");
    expect(Math.abs((await place(read)) - before), "at most the new row moves it").toBeLessThan(30);
    expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("web-7d4");
    expect(page.url()).toBe(url);
  });

  test("a console that starts again asks to sign in, and shows the same view then", async () => {
    const up = await Up.start({ auth: true, console: false });
    const console = await Console.start(up);
    const web = family("web");
    await up.put(...web);
    const at = path("deployments.apps", object("Deployment", "web"));
    const page = await openAs(console.url, up, "operator", at);
    await tree(page).waitFor();
    allow(...down);
    await console.kill();
    await page.getByText("The connection to the console is lost.").waitFor();
    await console.again();
    await page.getByText("Your session has ended.").waitFor();
    await signIn(page, "operator", await up.password("operator"));
    await page.getByRole("heading", { level: 1, name: "deployments.apps/web" }).waitFor();
    await tree(page).waitFor();
    expect(page.url()).toContain(at);
  });
});

describe("a local up", () => {
  test("after a crash, the new address signs in again, to the same realm", async () => {
    const up = await Up.start();
    const web = family("web");
    await up.put(...web);
    const count = await withKinds(web.length, up);
    const page = await openLocal(up);
    await until("all objects are counted", async () => (await total(page, "Objects")) === count);
    allow(...down);
    await up.kill();
    await bar(page).waitFor();
    const before = up.console;
    await up.again();
    expect(base(up.console)).toBe(base(before));
    expect(up.console, "the token is another").not.toBe(before);
    await page.getByText("Open the address that coppice up printed").waitFor();
    await page.goto(up.console);
    await menu(page).waitFor();
    await until("the objects are there", async () => (await total(page, "Objects")) === count);
  });
});

describe("several graph services", () => {
  test("views go on when another graph service takes over from the writer", async () => {
    const services = await Services.start();
    const console = await Console.start(services);
    await services.put(...family("web"));
    const count = await withKinds(5, services);
    const page = await openServices(console.url);
    await until("all objects are counted", async () => (await total(page, "Objects")) === count);
    const url = await services.writer();
    allow(...down);
    await services.kill(url);
    await services.put(...family("api"));
    await until("the new objects are counted", async () => (await total(page, "Objects")) === count + 5);
    expect(await services.writer()).not.toBe(url);
    await section(page, "Services").getByRole("listitem").filter({ hasText: new URL(url).host }).getByText("Not ready").waitFor();
    await bar(page).waitFor({ state: "hidden" });
  });
});

/** openServices signs in as the user of the NATS server of Services. */
async function openServices(url: string): Promise<Page> {
  const page = await open(`${base(url)}/r/default`);
  await signIn(page, "ana", "any");
  await menu(page).waitFor();
  return page;
}
