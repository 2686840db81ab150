import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { allow } from "./lib/browser.ts";
import { Up } from "./lib/coppice.ts";
import { object, path, type Manifest } from "./lib/objects.ts";
import { heading, matches, openLocal, section, tree } from "./lib/pages.ts";

// Texts that become code where text is taken for HTML, an attribute or a URL. attacked is in each page, and fails the test.
const image = "<img src=x onerror=attacked('image')>";
const script = "\"><script>attacked('script')</script>";
const link = "javascript:attacked('link')";
const turned = "a\u202egpj.exe";

/** Names may have all characters but spaces, "/" and "%". */
const names = ["<script>attacked('name')", `"onmouseover=attacked('name')`, link, turned, "?open=1#x", "a&lt;b", "'\"`${x}", "ünïcode"];

let up: Up;
let objects: Manifest[];
beforeAll(async () => {
  up = await Up.start();
  const root = object("Deployment", names[0] ?? "", {
    finalizers: ["example.com/bucket"],
    annotations: { "example.com/image": image, "example.com/script": script, "example.com/link": link, "example.com/turned": turned },
    more: { spec: { [image]: script, html: image, url: link } },
  });
  objects = [root, ...names.slice(1).map((name) => object("ConfigMap", name, { owners: [root], finalizers: ["example.com/bucket"], more: { data: { [script]: image, url: link } } }))];
  await up.put(...objects);
  const [, second] = names;
  await up.run(["protect", `cm/${second}`, "-n", "shop", "--reason", image]);
  await up.put(object("ConfigMap", "removed", { finalizers: ["example.com/bucket"] }));
  await up.remove("cm/removed", "-n", "shop");
  await up.run(["finalizer", "remove", "cm/removed", "example.com/bucket", "-n", "shop", "--reason", script]);
  await up.remove(`deploy/${names[0]}`, "-n", "shop", "--cascade=foreground");
});

/** harmless fails if a text became an element, an attribute or a link that is code. */
async function harmless(page: Page): Promise<void> {
  const bad = await page.evaluate(() =>
    [...document.querySelectorAll("*")].flatMap((element) => {
      const attributes = [...element.attributes].filter(({ name, value }) => /^on/i.test(name) || (/^(href|src|action)$/.test(name) && /^\s*javascript:/i.test(value)));
      const made = element.tagName === "IMG" || (element.tagName === "SCRIPT" && !element.hasAttribute("src"));
      return attributes.length > 0 || made ? [element.outerHTML.slice(0, 200)] : [];
    }),
  );
  expect(bad).toEqual([]);
}

test("the overview shows names as text", async () => {
  const page = await openLocal(up);
  const first = section(page, "Stuck").getByRole("link", { name: names[0] ?? "" });
  await first.first().waitFor();
  await harmless(page);
  await first.first().click();
  await page.getByRole("heading", { level: 1, name: names[0] ?? "" }).waitFor();
  await harmless(page);
});

test("the page of each object shows names, annotations, values and reasons as text", async () => {
  for (const one of objects) {
    const page = await openLocal(up, path(one.kind === "Deployment" ? "deployments.apps" : "configmaps", one));
    const name = one.metadata.name.replace("\u202e", "\\u{202e}");
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.getByLabel("Manifest").getByText("attacked").waitFor();
    await tree(page).waitFor();
    await section(page, "History").getByRole("listitem").first().waitFor();
    await harmless(page);
    expect(await page.title()).toContain(name);
    await page.context().close();
  }
});

test("marks that turn the direction of text are shown as what they are", async () => {
  const one = objects.find(({ metadata: { name } }) => name === turned);
  if (one === undefined) {
    throw new Error("there is such an object");
  }
  const page = await openLocal(up, path("configmaps", one));
  await page.getByRole("heading", { level: 1, name: "a\\u{202e}gpj.exe" }).waitFor();
  await page.getByLabel("Manifest").getByText("uid").waitFor();
  expect(await page.evaluate(() => document.body.innerText.includes("\u202e"))).toBe(false);
});

test("reasons in the history are text", async () => {
  const page = await openLocal(up, path("configmaps", object("ConfigMap", "removed")));
  await section(page, "History").getByText("<script>", { exact: false }).first().waitFor();
  await harmless(page);
  const second = objects[1];
  if (second !== undefined) {
    const guarded = await openLocal(up, path("configmaps", second));
    await guarded.getByRole("main").getByText("<img src=x", { exact: false }).first().waitFor();
    await harmless(guarded);
  }
});

test("the search shows names as text, and leads to the object", async () => {
  const page = await openLocal(up);
  const search = page.getByRole("combobox", { name: "Search objects" });
  for (const name of names) {
    await search.fill(name.split("=")[0] ?? ""); // what has "=" is a label
    const match = matches(page, { name: name.replace("\u202e", "\\u{202e}") });
    await match.first().waitFor();
    await harmless(page);
    await match.first().click();
    await page.getByRole("heading", { level: 1, name: name.replace("\u202e", "\\u{202e}") }).waitFor();
  }
});

test("texts in the URL are text", async () => {
  allow(/status of 404 .*\/api\/realms\/default\/objects\/configmaps\/shop\/%3Cimg/);
  for (const at of [`/${encodeURIComponent(image)}`, `/r/${encodeURIComponent(script)}`, `/r/default/o/configmaps/shop/${encodeURIComponent(image)}`, `/r/default?open=${encodeURIComponent(image)}`]) {
    const page = await openLocal(up, at);
    await heading(page).waitFor();
    await harmless(page);
    await page.context().close();
  }
});
