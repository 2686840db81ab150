import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { allow, open } from "./lib/browser.ts";
import { Console, directory, Up } from "./lib/coppice.ts";
import { base, heading, matches, menu, openAs, openLocal, section, signIn, total, withKinds } from "./lib/pages.ts";
import { family, object, path } from "./lib/objects.ts";
import { until } from "./lib/limit.ts";

const users = `version: 1
users:
  shop:
    about: the team that runs the shop
    roles: [application]
    namespaces: [shop]
    realms: [default]
  operator:
    roles: [operator]
`;
const [web, ...below] = family("web");
const bank = object("Secret", "bank", { namespace: "billing", more: { data: { iban: "c2VjcmV0" } } });

let up: Up;
beforeAll(async () => {
  const file = join(await directory(), "users.yaml");
  await writeFile(file, users);
  up = await Up.start({ auth: true, usersFile: file, realms: ["default", "other"] });
  if (web !== undefined) {
    await up.put(web, ...below, bank);
  }
});

describe("sign-in with passwords", () => {
  test("the address has no token, and a wrong password is refused", async () => {
    expect(new URL(up.console).hash).toBe("");
    const page = await open(`${base(up.console)}/r/default`);
    allow(/status of 401 .*\/api\/session/);
    await signIn(page, "operator", "wrong");
    const alert = page.getByRole("alert");
    await alert.waitFor();
    expect(await alert.textContent()).toContain("The sign-in failed.");
    expect(await page.getByLabel("User", { exact: true }).inputValue(), "the name stays").toBe("operator");
    await signIn(page, "operator", await up.password("operator"));
    await menu(page).waitFor();
    expect(await heading(page).textContent()).toBe("Realm default");
  });

  test("the URL is kept over a sign-in, and nothing secret is in it or in the storage of the browser", async () => {
    const at = path("deployments.apps", object("Deployment", "web"));
    const page = await openAs(up.console, up, "operator", at);
    await page.getByRole("heading", { level: 1, name: "deployments.apps/web" }).waitFor();
    const url = new URL(page.url());
    expect(url.pathname + url.search).toBe(at);
    expect(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie])).toEqual([0, 0, ""]);
  });

  test("after signing out the session is over, in all tabs", async () => {
    const page = await openAs(up.console, up, "operator");
    const second = await page.context().newPage();
    await second.goto(`${base(up.console)}/r/default`);
    await menu(second).waitFor();
    allow(/status of 401/, /WebSocket connection to .* failed/);
    await menu(page).click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await second.getByRole("heading", { name: "Sign in" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  });

  test("a text that is no credentials file is refused", async () => {
    const page = await open(base(up.console));
    allow(/status of 400 .*\/api\/session/);
    await page.getByText("Credentials file").click();
    await page.getByRole("textbox").fill("-----BEGIN NATS USER JWT-----");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").textContent()).toContain("credentials file");
  });
});

describe("what a user may not do", () => {
  test("a user with one namespace sees its objects, and no others", async () => {
    const page = await openAs(up.console, up, "shop");
    const all = await withKinds(2 + below.length, up);
    const operator = await openAs(up.console, up, "operator");
    await until("an operator sees all objects", async () => (await total(operator, "Objects")) >= all);
    await until("the Secret of the other namespace is not counted", async () => (await total(page, "Objects")) === all - 1);
    const search = page.getByRole("combobox", { name: "Search objects" });
    await search.fill("web");
    await matches(page, { name: "deployments.apps/web" }).first().waitFor();
    await search.fill("bank");
    await page.getByText("No object matches.").waitFor();
    expect(await matches(page).count()).toBe(0);
  });

  test("an object of another namespace is refused on a page that says so", async () => {
    allow(/status of (403|404) .*\/api\/realms\//);
    const page = await openAs(up.console, up, "shop", path("secrets", bank));
    const main = page.getByRole("main");
    await until("the page says what failed", async () => /may not|no secrets\/bank/i.test((await main.textContent()) ?? ""));
    expect(await page.content()).not.toContain("c2VjcmV0");
  });

  test("another realm is refused on a page that leads back", async () => {
    const page = await openAs(up.console, up, "shop", "/r/other");
    await page.getByRole("heading", { name: "No such realm" }).waitFor();
    await page.getByRole("main").getByRole("link", { name: "default" }).click();
    await page.getByRole("heading", { name: "Realm default" }).waitFor();
  });
});

describe("sessions that end", () => {
  test("an idle session ends, whatever the page reads by itself; the view is back after the next sign-in", async () => {
    const quick = await Console.start(up, "--idle", "5s");
    const busy = object("ConfigMap", "busy");
    await up.put(busy);
    // The page of an object reads it again, by itself, after each change.
    const page = await openAs(quick.url, up, "operator", path("configmaps", busy));
    await section(page, "History").waitFor();
    allow(/status of 401/, /WebSocket connection to .* failed/);
    const ended = page.getByText("Your session has ended.");
    let changes = 0;
    await until("the session ends while objects change", async () => {
      await up.run(["label", "cm/busy", "-n", "shop", "--overwrite", `change=${changes++}`]);
      return ended.isVisible();
    });
    expect(page.url()).toContain(path("configmaps", busy));
    await signIn(page, "operator", await up.password("operator"));
    await page.getByRole("heading", { level: 1, name: "configmaps/busy" }).waitFor();
  });
});

describe("sign-in of a local up", () => {
  test("the token leaves the address at once, and without it the page says what to open", async () => {
    const local = await Up.start();
    const page = await openLocal(local);
    expect(await heading(page).textContent()).toBe("Realm default");
    expect(page.url()).not.toContain("token");
    const other = await open(`${base(local.console)}/r/default`);
    await other.getByText("Open the address that coppice up printed").waitFor();
    allow(/status of 401/);
    await other.goto(`${base(local.console)}/r/default#token=wrong`);
    await other.reload();
    await other.getByRole("alert").waitFor();
    expect(other.url()).not.toContain("token");
  });
});
