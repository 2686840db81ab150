import { screen } from "@testing-library/preact";
import axe from "axe-core";
import { expect, test } from "vitest";
import { Tab } from "../dev/tab.tsx";

const object = "/r/default/o/deployments.apps/shop/web?uid=4b0c7a52-91de-4a0e-8a55-3f2a9f1a2c11&open=owners,dependents,dependents:7d400000-0000-4000-8000-000000000000";

/** Pages, each with what is shown when it is complete. */
const pages: [string, string, () => Promise<unknown>][] = [
  ["overview", "/r/default", () => screen.findByRole("region", { name: "Storage" })],
  ["healthy overview", "/r/staging", () => screen.findByRole("region", { name: "Storage" })],
  ["object", object, () => Promise.all([screen.findByRole("treeitem", { name: /web-7d4-x/ }), screen.findByText("Updated")])],
  ["Secret", "/r/default/o/secrets/shop/tls", () => Promise.all([screen.findByRole("button", { name: "Show values" }), screen.findByText("Updated")])],
  ["removed object", "/r/default/o/pods/shop/web-7d4-k", () => screen.findByText("Updated")],
  ["plan of a deletion", "/r/default/delete/deployments.apps/shop/web", () => Promise.all([screen.findByRole("treeitem", { name: /web-7d4/ }), screen.findByRole("textbox", { name: /Type the name/ })])],
  ["deletion", "/r/default/deletion/4b0c7a52?resource=deployments.apps&namespace=shop&name=web&rev=7", () => screen.findByRole("table", { name: "Objects that block the deletion" })],
  ["parked work", "/r/default/parked", () => screen.findByRole("checkbox", { name: "Select all shown" })],
  ["unknown object", "/r/default/o/pods/shop/none", () => screen.findByRole("heading", { name: "No pods/none" })],
  ["unknown path", "/elsewhere", () => screen.findByRole("heading", { name: "No such page" })],
  ["events", "/r/default/events", () => screen.findByRole("button", { name: "Show older" })],
  ["graph", "/r/default/graph?root=0b1ec700-0000-4000-8000-000000000001", () => Promise.all([screen.findByRole("application", { name: "Graph of owners" }), screen.findByText(/WebGL is not available/)])],
  ["realms", "/realms", () => screen.findByRole("table", { name: "Realms" })],
  ["sign-in", "sign in", () => screen.findByRole("button", { name: "Sign in" })],
];

test.for(pages)("axe finds nothing on the page: %s", async ([, url, complete]) => {
  const tab = new Tab();
  tab.state.signedIn = url !== "sign in";
  tab.open(tab.state.signedIn ? url : "/");
  await complete();
  await tab.settled();
  document.documentElement.lang = "en";
  // Colours need a browser; the tests that run in one check them.
  const { violations } = await axe.run(document, { rules: { "color-contrast": { enabled: false } } });
  expect(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`)).toEqual([]);
});
