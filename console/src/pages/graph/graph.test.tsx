import { fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { beforeEach, expect, test } from "vitest";
import { uidOf } from "../../../dev/forest.ts";
import type { Family, Relative } from "../../api/types.ts";
import { encodeFrame, type GraphContents, type GraphNode } from "../../../dev/graphframes.ts";
import { FakeSocket, Tab } from "../../../dev/tab.tsx";

let tab: Tab;
beforeEach(() => {
  tab = new Tab();
  const others = tab.answer;
  tab.answer = (request) => (request.url.pathname.endsWith("/family") ? [200, familyOf(request.url.searchParams.get("uid") ?? "")] : others(request));
});

const relative = (name: string, uid: string, more: Partial<Relative> = {}): Relative => ({ resource: "pods", namespace: "shop", name, uid, state: "Present", owners: 0, dependents: 0, below: 0, ...more });

/** familyOf says that web is above all, and has seven dependents of which two are in the picture. */
function familyOf(uid: string): Family {
  const family = (self: Relative, owners: Relative[], dependents: Relative[]): Family => ({ revision: 1, self, owners, dependents, from: 0, total: dependents.length });
  if (uid === uidOf(1)) {
    return family(relative("web", uid), [relative("gone", uidOf(90), { state: "Absent" })], Array.from({ length: 7 }, (_, i) => relative(`web-${i + 2}`, uidOf(i + 2))));
  }
  return family(relative("pod", uid, { state: "Blocked", waits: "finalizer example.com/bucket" }), [relative("web", uidOf(1))], []);
}

const web: GraphNode = { number: 1, x: 1, y: 0, name: "web", key: uidOf(1), place: 1, below: 2 };
const pods: GraphNode[] = [
  { number: 2, above: 1, x: 0, y: 1.5, name: "web-a", key: uidOf(2), place: 2, line: true },
  { number: 3, above: 1, x: 3, y: 1.5, name: "<img src=x onerror=alert(1)>", key: uidOf(3), place: 2, state: 5, line: true },
];
const head = { objects: 3, totals: [2, 0, 0, 0, 0, 1], shown: 3 };
const whole: GraphContents = { head: { ...head, first: true, places: [{ resource: "" }, { resource: "deployments.apps", namespace: "shop" }, { resource: "pods", namespace: "shop" }] }, nodes: [web, ...pods] };

const ask = () => FakeSocket.last.askOf("Graph");
const frame = (contents: GraphContents) => FakeSocket.last.frame(encodeFrame(ask()?.id ?? 0, contents));

/** shown opens the page with a picture. */
async function shown(query = "", contents = whole): Promise<HTMLElement> {
  tab.open(`/r/default/graph${query}`);
  await waitFor(() => expect(FakeSocket.all).toHaveLength(1));
  FakeSocket.last.open();
  await waitFor(() => expect(ask()).toBeDefined());
  frame(contents);
  await screen.findByText(/3 objects/);
  return screen.getByRole("application", { name: "Graph of owners" });
}

const panel = () => within(screen.getByRole("region", { name: "Selected node" }));

test("a URL says what is asked for and selected, and markup in names is text", async () => {
  await shown(`?namespace=shop&labels=app%3Dweb&open=ns:shop&show=${uidOf(3)}&at=${uidOf(3)}`);
  expect(ask()).toMatchObject({ realm: "default", graph: { namespace: "shop", labels: "app=web", open: ["ns:shop"], show: [uidOf(3)] } });
  expect(await panel().findByRole("link", { name: "<img src=x onerror=alert(1)>" })).toBeDefined();
  expect(document.querySelector("img")).toBeNull();
  expect(panel().getByText("Blocked")).toBeDefined();
  expect((await panel().findByRole("link", { name: "Delete…" })).getAttribute("href")).toContain(`uid=${uidOf(3)}`);
  fireEvent.click(await panel().findByRole("button", { name: "web" }));
  expect(await panel().findByText("2")).toBeDefined();
  await waitFor(() => expect(location.search).toContain(`at=${uidOf(1)}`));
});

test("keys select, open and close, without a drawing", async () => {
  const canvas = await shown();
  expect(await screen.findByText(/This browser cannot draw the graph/)).toBeDefined();
  fireEvent.keyDown(canvas, { key: "ArrowDown" });
  expect(await screen.findByText("web, deployments.apps in shop, Present, 2 objects below")).toBeDefined();
  fireEvent.keyDown(canvas, { key: "ArrowDown" });
  expect(await panel().findByRole("link", { name: "web-a" })).toBeDefined();
  fireEvent.keyDown(canvas, { key: "ArrowUp" });
  expect(await panel().findByRole("link", { name: "web" })).toBeDefined();
  const { id } = ask() ?? {};
  fireEvent.keyDown(canvas, { key: " " });
  await waitFor(() => expect(ask()?.graph).toEqual({ shut: [uidOf(1)] }));
  expect(ask()?.id).toBe(id);
  frame({ head: { ...head, shown: 1 }, removed: [2, 3], nodes: [{ number: 1, x: 1, y: 0, place: 1, below: 2, closed: true, hidden: 5 }] });
  expect(await panel().findByText("2, closed; at least one is blocked")).toBeDefined();
  fireEvent.click(panel().getByRole("button", { name: "Open" }));
  await waitFor(() => expect(ask()?.graph).toEqual({ open: [uidOf(1)] }));
  expect(location.search).toBe(`?at=${uidOf(1)}&open=${uidOf(1)}`);
  fireEvent.keyDown(canvas, { key: "Enter" });
  await waitFor(() => expect(location.pathname).toBe("/r/default/o/deployments.apps/shop/web"));
});

test("the legend goes to the next object with a state, and has no button for states without objects", async () => {
  await shown(`?namespace=shop&at=${uidOf(1)}`);
  const blocked = screen.getByRole("button", { name: "Blocked 1 object; go to the next" });
  expect(document.getElementById(blocked.getAttribute("aria-describedby") ?? "")?.textContent).toMatch(/^It is being deleted, and waits/);
  fireEvent.click(blocked);
  expect(await panel().findByRole("link", { name: "<img src=x onerror=alert(1)>" })).toBeDefined();
  expect(screen.getByRole<HTMLButtonElement>("button", { name: /^Garbage 0 objects/ }).disabled).toBe(true);
  expect(tab.sent("/api/realms/default/next").map(({ url }) => url.search)).toEqual([`?state=Blocked&namespace=shop&after=${uidOf(1)}`]);
  expect(location.search).toBe(`?namespace=shop&at=${uidOf(3)}&show=${uidOf(3)}`);
  const others = tab.answer;
  const replies: [number, unknown][] = [[200, {}], [403, { reason: "Forbidden", message: "you may not see it" }]];
  tab.answer = (request) => (request.url.pathname.endsWith("/next") ? (replies.shift() ?? [500, undefined]) : others(request));
  fireEvent.click(blocked);
  expect(await screen.findByText(/No object is in the state Blocked\./)).toBeDefined();
  fireEvent.click(blocked);
  expect(await screen.findByText(/You may not see it/)).toBeDefined();
});

test("a part of the realm is chosen, and left again", async () => {
  await shown(`?open=ns:shop&at=${uidOf(1)}`);
  fireEvent.click(await panel().findByRole("button", { name: "Only this and what depends on it" }));
  await waitFor(() => expect(ask()?.graph).toEqual({ root: uidOf(1) }));
  expect(panel().queryByRole("button", { name: "Only this and what depends on it" })).toBeNull();
  fireEvent.click(await screen.findByRole("button", { name: "Show all objects again" }));
  await waitFor(() => expect(ask()?.graph).toEqual({ show: [uidOf(1)] }));
  const namespace = screen.getByRole<HTMLInputElement>("combobox", { name: "Namespace" });
  fireEvent.input(namespace, { target: { value: " shop " } });
  fireEvent.click(screen.getByRole("button", { name: "Apply" }));
  await waitFor(() => expect(ask()?.graph).toEqual({ namespace: "shop", show: [uidOf(1)] }));
  expect(location.search).toContain(`at=${uidOf(1)}`);
  fireEvent.click(await screen.findByRole("button", { name: "Clear" }));
  await waitFor(() => expect(ask()?.graph).toEqual({ show: [uidOf(1)] }));
  expect(namespace.value).toBe("");
});

test("a search shows an object, or says that it is not in this part", async () => {
  await shown("?namespace=media");
  fireEvent.input(screen.getByRole("combobox", { name: "Find in the graph" }), { target: { value: "web-7d4" } });
  fireEvent.click(await screen.findByRole("option", { name: /web-7d4-x/ }));
  const uid = "9d1e6f3a-0c55-47b1-b6f4-7a52e1c0d9aa";
  await waitFor(() => expect(ask()?.graph).toEqual({ namespace: "media", show: [uid] }));
  frame({ head: { ...head, outside: [uid] } });
  expect(await screen.findByText("The object is not in this part of the graph.")).toBeDefined();
  fireEvent.click(screen.getByRole("link", { name: "Show the whole realm" }));
  await waitFor(() => expect(ask()?.graph).toEqual({ show: [uid] }));
});

test("what is full, empty, being read or wrong is said", async () => {
  await shown("", { ...whole, head: { ...whole.head, loading: true, full: true, most: 150_000 } });
  expect(screen.getByText("3 objects so far; the objects are still being read")).toBeDefined();
  expect(screen.getByText(/150,000 nodes can be shown, and more are open/)).toBeDefined();
  FakeSocket.last.news({ id: ask()?.id ?? 0, error: { reason: "BadRequest", message: 'labels: "app" is not a label; write key=value' } });
  expect(await screen.findByText(/The graph still shows what was chosen before/)).toBeDefined();
  expect(screen.queryByRole("button", { name: "Try again" })).toBeNull();
  const labels = screen.getByRole("textbox", { name: "Labels" });
  expect(labels.getAttribute("aria-invalid")).toBe("true");
  expect(document.getElementById(labels.getAttribute("aria-describedby") ?? "")?.textContent).toBe('"app" is not a label; write key=value.');
  // The graph goes on with what was chosen before.
  frame({ head });
  await screen.findByText("3 objects");
  expect(screen.getByText(/The graph still shows what was chosen before/)).toBeDefined();
  frame({ head: { first: true, totals: [0, 0, 0, 0, 0, 0], shown: 0 } });
  expect(await screen.findByText("The realm has no objects.")).toBeDefined();
  expect(screen.queryByText(/is not a label/)).toBeNull();
  expect(labels.getAttribute("aria-invalid")).toBe("false");
  FakeSocket.last.frame(new Uint32Array([ask()?.id ?? 0, 400]).buffer);
  expect(await screen.findByText(/ends before its head/)).toBeDefined();
});

test("after a lost connection the selection stays, though its number changes", async () => {
  await shown(`?at=${uidOf(2)}`);
  expect(await panel().findByRole("link", { name: "web-a" })).toBeDefined();
  const before = FakeSocket.last;
  before.drop();
  await waitFor(() => expect(FakeSocket.last).not.toBe(before));
  FakeSocket.last.open();
  await waitFor(() => expect(ask()).toBeDefined());
  frame({ ...whole, nodes: [{ ...web, number: 11 }, ...pods.map((p) => ({ ...p, number: p.number + 10, above: 11, state: 4 }))] });
  expect(await panel().findByText("Garbage")).toBeDefined();
  expect(panel().getByRole("link", { name: "web-a" })).toBeDefined();
  frame({ head: { ...head, shown: 2 }, removed: [12] });
  expect(await screen.findByText(/The selected object is not shown:/)).toBeDefined();
  fireEvent.click(screen.getByRole("button", { name: "Look for it" }));
  await waitFor(() => expect(ask()?.graph).toEqual({ show: [uidOf(2)] }));
  frame({ head: { ...head, shown: 2, outside: [uidOf(2)] } });
  expect(await screen.findByText("The object does not exist any more, or you may not see it.")).toBeDefined();
  fireEvent.click(screen.getByRole("button", { name: "Close, and deselect" }));
  await waitFor(() => expect(screen.queryByText(/does not exist any more/)).toBeNull());
});

test("the panel names owners and dependents, and what an object waits for", async () => {
  await shown(`?at=${uidOf(1)}`);
  expect(await panel().findByText("Dependents: 7")).toBeDefined();
  expect(panel().getByText("Absent")).toBeDefined();
  expect(within(panel().getByRole("list", { name: "Dependents" })).getAllByRole("listitem")).toHaveLength(6);
  expect(panel().getByRole("link", { name: "and 2 more" }).getAttribute("href")).toContain("/o/deployments.apps/shop/web");
  expect(panel().getByRole("link", { name: "web-4" }).getAttribute("href")).toBe(`/r/default/graph?at=${uidOf(4)}&show=${uidOf(4)}`);
  const before = tab.sent("/api/realms/default/family").length;
  frame({ head: { ...head, revision: 7 } });
  await waitFor(() => expect(tab.sent("/api/realms/default/family")).toHaveLength(before + 1));
  expect(panel().getByText("Dependents: 7")).toBeDefined();
  fireEvent.click(panel().getByRole("button", { name: "web-3" }));
  expect(await panel().findByText("finalizer example.com/bucket")).toBeDefined();
  expect(panel().getByRole("link", { name: "Why it is not deleted" })).toBeDefined();
  expect(panel().getByText("Dependents: none")).toBeDefined();
  expect(panel().queryByRole("button", { name: "Only this and what depends on it" })).toBeNull();
});

test("the picture gets the focus if the URL selects a node, and after a search; Escape deselects", async () => {
  const canvas = await shown(`?at=${uidOf(1)}`);
  await panel().findByRole("link", { name: "web" });
  await waitFor(() => expect(document.activeElement).toBe(canvas));
  fireEvent.keyDown(canvas, { key: "Escape" });
  expect(await panel().findByText(/^Select a node/)).toBeDefined();
  await waitFor(() => expect(location.search).toBe(""));
  const field = screen.getByRole("combobox", { name: "Find in the graph" });
  field.focus();
  fireEvent.input(field, { target: { value: "web-7d4" } });
  fireEvent.click(await screen.findByRole("option", { name: /web-7d4-x/ }));
  expect(document.activeElement).toBe(canvas);
});

test("Enter opens and closes a group", async () => {
  const group: GraphNode = { number: 1, x: 1, y: 0, name: "shop", key: "ns:shop", kind: 1, place: 0, below: 2 };
  const canvas = await shown("?at=ns:shop", { ...whole, nodes: [group, ...pods] });
  expect(await panel().findByText("Namespace shop")).toBeDefined();
  fireEvent.keyDown(canvas, { key: "Enter" });
  await waitFor(() => expect(ask()?.graph).toEqual({ shut: ["ns:shop"] }));
});
