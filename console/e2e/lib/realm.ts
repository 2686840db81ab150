import type { Page } from "playwright-core";
import type { Up } from "./coppice.ts";
import { until } from "./limit.ts";
import { family, object, path, type Manifest } from "./objects.ts";
import { heading, section, tree } from "./pages.ts";
import { Program } from "./program.ts";

/** The objects of a realm in which something is in each state that pages show. */
export const web = family("web", { below: 6, finalizers: ["example.com/bucket"] });
const api = family("api", { below: 3 });
const search = family("search", { below: 2, finalizers: ["example.com/index"] });
export const secret = object("Secret", "database", { labels: { app: "api" }, more: { type: "Opaque", data: { password: "aHVudGVyMg==" } } });
export const guarded = object("ConfigMap", "prices", { labels: { app: "shop" }, annotations: { "example.com/team": "sales" }, more: { data: { currency: "EUR" } } });
const guest = object("ConfigMap", "guest", { namespace: "billing", owners: [object("Deployment", "api")] });
const lost = object("ConfigMap", "lost", { owners: [object("Deployment", "never-imported")] });
export const removed = object("ConfigMap", "removed");

/** fill creates the objects, and brings them into their states. */
export async function fill(up: Up): Promise<void> {
  await up.put(...web, ...api, ...search, secret, guarded, guest, lost, removed);
  await up.run(["protect", "cm/prices", "-n", "shop", "--reason", "prices of production"]);
  await up.remove("cm/removed", "-n", "shop");
  await up.remove("deploy/web", "-n", "shop", "--cascade=foreground");
  await up.remove("deploy/search", "-n", "shop", "--cascade=foreground");
  for (const name of ["removed", "web-7d4-1", "web-7d4-2", "web-7d4-3", "web-7d4-4", "web-7d4-5", "search-7d4-1"]) {
    await up.run(["wait", "--for=delete", `cm/${name}`, "-n", "shop", "--timeout", "1m"]);
  }
}

/** park deletes an object whose finalizer fails, so that its call is parked. It returns when it is. */
export async function park(up: Up): Promise<void> {
  const finalizer = new Program([up.nats, "example.com/bucket", "the bucket is locked"], {}, "finalizer");
  await finalizer.says(/^(answers)/m);
  await up.put(object("ConfigMap", "images", { finalizers: ["example.com/bucket"] }));
  await up.remove("cm/images", "-n", "shop");
  await until("the call is parked", async () => (await up.run(["parked"])).includes("example.com/bucket"));
}

/** down is what browsers report while a server is down, and the requests that a console without NATS refuses. */
export const down = [/WebSocket connection to .* failed/, /ERR_CONNECTION_REFUSED/, /ERR_CONNECTION_RESET/, /ERR_EMPTY_RESPONSE/, /ERR_INCOMPLETE/, /status of (401|500|502|503|504)/];

/** View is a view, with what must be seen before it is complete. */
export interface View {
  name: string;
  path: string;
  seen: (page: Page) => Promise<void>;
  /** signedOut: it is shown to those who are not signed in. */
  signedOut?: boolean;
}

function at(manifest: Manifest | undefined, resource: string): string {
  if (manifest === undefined) {
    throw new Error("there is such an object");
  }
  return path(resource, manifest);
}

/** complete waits until the page of an object has read all of its parts. */
async function complete(page: Page): Promise<void> {
  await section(page, "History").getByRole("listitem").first().waitFor();
  await settled(page);
}

/** settled waits until nothing is being read. */
export async function settled(page: Page): Promise<void> {
  await heading(page).waitFor();
  await until("everything was read", async () => (await page.locator(".loading").count()) === 0);
}

/** Views are those of a realm that fill has filled. */
export const views: View[] = [
  {
    name: "overview",
    path: "/r/default",
    seen: async (page) => {
      const stuck = section(page, "Stuck");
      await stuck.getByText("example.com/bucket").first().waitFor();
      await stuck.getByText("example.com/index").first().waitFor();
      await section(page, "Services").getByText("Ready").first().waitFor();
      await settled(page);
    },
  },
  {
    name: "object",
    path: at(web[0], "deployments.apps"),
    seen: async (page) => {
      await complete(page);
      await tree(page).getByRole("treeitem", { name: /web-7d4/ }).first().waitFor();
    },
  },
  {
    name: "blocked",
    path: at(web[2], "configmaps"),
    seen: async (page) => {
      await complete(page);
      await page.getByText(/no consumer/i).first().waitFor();
    },
  },
  {
    name: "graph",
    path: `/r/default/graph?namespace=shop&show=${web[2]?.metadata.uid ?? ""}&at=${web[2]?.metadata.uid ?? ""}`,
    seen: async (page) => {
      await page.locator("[data-painted]").waitFor({ state: "attached" });
      await section(page, "Selected node").getByRole("heading", { level: 2, name: "web-7d4-0" }).waitFor();
      await settled(page);
    },
  },
  { name: "protected", path: at(guarded, "configmaps"), seen: complete },
  { name: "secret", path: at(secret, "secrets"), seen: complete },
  {
    name: "removed",
    path: at(removed, "configmaps"),
    seen: async (page) => {
      await complete(page);
      await page.locator("dl.line").getByText("Removed").waitFor();
    },
  },
  {
    name: "events",
    path: "/r/default/events",
    seen: async (page) => {
      const deletion = section(page, "Rows").getByRole("listitem").filter({ hasText: "deleted deployments.apps/web" });
      await deletion.getByRole("button", { name: /events?: / }).click();
      await deletion.getByRole("link", { name: "configmaps/web-7d4-3" }).first().waitFor();
      await settled(page);
    },
  },
  {
    name: "deletion-plan",
    path: `/r/default/delete/deployments.apps/shop/api?uid=${api[0]?.metadata.uid ?? ""}`,
    seen: async (page) => {
      await until("the plan can be confirmed", () => page.getByRole("button", { name: "Delete as planned" }).isEnabled());
      await page.getByRole("treeitem", { name: /replicasets/ }).click();
      await page.getByRole("treeitem", { name: /configmaps/ }).first().waitFor();
      await settled(page);
    },
  },
  {
    name: "deletion-progress",
    path: `/r/default/deletion/${web[0]?.metadata.uid ?? ""}?resource=deployments.apps&namespace=shop&name=web`,
    seen: async (page) => {
      await section(page, "What it waits for").getByRole("link", { name: "configmaps/web-7d4-0" }).waitFor();
      await settled(page);
    },
  },
  { name: "parked", path: "/r/default/parked", seen: (page) => page.getByText("No work is parked.").waitFor() },
  { name: "realms", path: "/realms", seen: settled },
  { name: "unknown-object", path: "/r/default/o/configmaps/shop/none", seen: (page) => page.getByRole("heading", { level: 1, name: "No configmaps/none" }).waitFor() },
  { name: "unknown-realm", path: "/r/none", seen: (page) => page.getByRole("heading", { level: 1, name: "No such realm" }).waitFor() },
  { name: "unknown-page", path: "/none", seen: (page) => page.getByRole("heading", { level: 1, name: "No such page" }).waitFor() },
  {
    name: "help",
    path: "/r/default",
    seen: async (page) => {
      await section(page, "Stuck").getByText("example.com/bucket").first().waitFor();
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
    },
  },
  {
    name: "search",
    path: "/r/default",
    seen: async (page) => {
      await section(page, "Stuck").getByText("example.com/bucket").first().waitFor();
      await page.keyboard.press("/");
      await page.keyboard.type("web");
      await page.getByRole("listbox", { name: "Matches" }).getByRole("option").nth(2).waitFor();
    },
  },
  { name: "sign-in", path: "/r/default", signedOut: true, seen: (page) => page.getByRole("heading", { level: 1, name: "Sign in" }).waitFor() },
];
