import { fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Deletions } from "../../../dev/deletions.ts";
import { Fixtures } from "../../../dev/fixtures.ts";
import { Tab } from "../../../dev/tab.tsx";
import { deletePath, objectPath } from "../../lib/paths.ts";
import { canForce } from "./remove.tsx";

const f = new Fixtures(Date.now());
const d = new Deletions(Date.now());
const url = objectPath("default", f.web);
const sentTo = (tab: Tab) => tab.sent("/api/realms/default/finalizer").map((r) => JSON.parse(r.body) as unknown);

function openWith(replies: Record<string, () => [number, unknown]>): Tab {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = (request) => (replies[request.url.pathname.split("/")[4] ?? ""] ?? (() => answer(request)))();
  tab.open(url);
  return tab;
}

async function openDialog(): Promise<HTMLElement> {
  fireEvent.click(await screen.findByRole("button", { name: "Remove by hand… example.com/bucket" }));
  return screen.findByRole("dialog", { name: "Remove the finalizer by hand" });
}

test("the object page leads to its deletion", async () => {
  openWith({});
  expect((await screen.findByRole("link", { name: "Delete…" })).getAttribute("href")).toBe(deletePath("default", f.web));
});

test("a finalizer is removed with a reason", async () => {
  const tab = openWith({});
  const dialog = await openDialog();
  expect(dialog.textContent).toContain("what it would have cleaned up stays behind");
  const remove = within(dialog).getByRole<HTMLButtonElement>("button", { name: "Remove" });
  const reason = within(dialog).getByRole("textbox", { name: "Reason (required)" });
  fireEvent.input(reason, { target: { value: "  " } });
  expect(remove.disabled).toBe(true);
  fireEvent.input(reason, { target: { value: " the bucket is gone " } });
  await waitFor(() => expect(remove.disabled).toBe(false));
  fireEvent.click(remove);
  await screen.findByText("It is done.");
  expect(screen.queryByRole("dialog", { name: "Remove the finalizer by hand" })).toBeNull();
  expect(sentTo(tab)).toEqual([{ object: f.web, finalizer: "example.com/bucket", reason: "the bucket is gone", force: true }]);
});

test("force is offered after a refusal, and names the call", async () => {
  let refuse = true;
  const refusal = { reason: "Conflict", message: "the controller of finalizer example.com/bucket works on its call for deployments.apps/web; to remove the finalizer nevertheless, name call 4711", call: 4711 };
  const tab = openWith({ finalizer: () => (refuse ? [409, refusal] : [200, { says: "it is removed by force", warnings: ["the controller runs"] }]) });
  const dialog = await openDialog();
  expect(within(dialog).queryByRole("checkbox")).toBeNull();
  fireEvent.input(within(dialog).getByRole("textbox"), { target: { value: "gone" } });
  await waitFor(() => expect(within(dialog).getByRole<HTMLButtonElement>("button", { name: "Remove" }).disabled).toBe(false));
  fireEvent.click(within(dialog).getByRole("button", { name: "Remove" }));
  fireEvent.click(await within(dialog).findByRole("checkbox", { name: "Remove it although its program works on call 4711" }));
  refuse = false;
  fireEvent.click(await within(dialog).findByRole("button", { name: "Remove by force" }));
  await screen.findByText("It is removed by force. The controller runs.");
  expect(sentTo(tab).at(-1)).toEqual({ object: f.web, finalizer: "example.com/bucket", reason: "gone", force: true, call: 4711 });
});

test("what the user may not do is not offered", async () => {
  const tab = openWith({ rights: () => [200, d.reader] });
  await screen.findByRole("region", { name: "Finalizers" });
  await waitFor(() => expect(tab.sent("/api/realms/default/rights").at(-1)?.url.searchParams.getAll("finalizer")).toEqual(["example.com/bucket", "example.com/dns"]));
  await tab.settled();
  expect(screen.queryByRole("button", { name: /by hand/ })).toBeNull();
  expect(screen.queryByRole("link", { name: "Delete…" })).toBeNull();
});

test("force is offered only after a refusal because of the program", () => {
  const may = (reason: string, message: string, call?: number) => canForce({ reason, message, ...(call === undefined ? {} : { call }) });
  expect(may("Conflict", "name call 7", 7)).toBe(true);
  expect(may("Conflict", "the uid is another one")).toBe(false);
  expect(may("ServiceUnavailable", "the writer may be running elsewhere")).toBe(false);
});

test("after a failure of the network it is not known whether the finalizer was removed", async () => {
  openWith({ finalizer: () => [503, { reason: "ServiceUnavailable", message: "no writer" }] });
  const dialog = await openDialog();
  fireEvent.input(within(dialog).getByRole("textbox"), { target: { value: "gone" } });
  await waitFor(() => expect(within(dialog).getByRole<HTMLButtonElement>("button", { name: "Remove" }).disabled).toBe(false));
  fireEvent.click(within(dialog).getByRole("button", { name: "Remove" }));
  await within(dialog).findByText("It is not known whether the finalizer was removed.");
  expect(within(dialog).queryByRole("checkbox")).toBeNull();
});

test("many finalizers are asked about in parts", async () => {
  const page = f.terminating();
  const [first] = page.explanation.finalizers ?? [];
  const finalizers = Array.from({ length: 120 }, (_, i) => ({ ...first, builtIn: false, name: `example.com/f${i}` }));
  const tab = openWith({ objects: () => [200, { ...page, explanation: { ...page.explanation, finalizers } }] });
  expect(await screen.findAllByRole("button", { name: /Remove by hand…/ })).toHaveLength(120);
  expect(tab.sent("/api/realms/default/rights").map((r) => r.url.searchParams.getAll("finalizer").length).filter((n) => n > 0)).toEqual([50, 50, 20]);
});

test("rights that could not be read are said where an action would be", async () => {
  let fails = true;
  openWith({ rights: () => (fails ? [503, { reason: "ServiceUnavailable", message: "no reply" }] : [200, d.rights(["example.com/bucket"])]) });
  await screen.findByText("Whether you may remove them by hand could not be read.");
  const says = screen.getByText("Whether you may delete it could not be read.");
  fails = false;
  fireEvent.click(within(says.parentElement ?? document.body).getByRole("button", { name: "Try again" }));
  await screen.findByRole("link", { name: "Delete…" });
  await screen.findByRole("button", { name: "Remove by hand… example.com/bucket" });
});

test("a parked call leads to where it is retried", async () => {
  openWith({});
  expect((await screen.findByRole("link", { name: "Retry it in Parked work" })).getAttribute("href")).toBe("/r/default/parked");
});
