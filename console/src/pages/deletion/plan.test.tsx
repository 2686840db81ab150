import { act, cleanup, fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Deletions } from "../../../dev/deletions.ts";
import { Fixtures } from "../../../dev/fixtures.ts";
import { FakeSocket, Tab } from "../../../dev/tab.tsx";
import type { Plan } from "../../api/types.ts";
import { deletePath, deletionPath, objectPath, routeOf } from "../../lib/paths.ts";
import { confirmed } from "./confirm.tsx";

const d = new Deletions(Date.now());
const web = d.plan("Background").object;
const url = deletePath("default", web);
const row = (name: RegExp) => screen.findByRole("treeitem", { name });
const button = () => screen.findByRole<HTMLButtonElement>("button", { name: /Delete as planned/ });

/** tabWith opens the page with other replies to some requests. */
function tabWith(replies: Record<string, () => [number, unknown]> = {}, at = url): Tab {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = (request) => (replies[request.url.pathname.split("/")[4] ?? ""] ?? (() => answer(request)))();
  tab.open(at);
  return tab;
}

test("the plan is shown, and its groups unfold", async () => {
  const tab = tabWith();
  const counts = await screen.findByRole("region", { name: "What would happen" });
  expect(counts.textContent).toContain("363 objects removed, 1 of them blocked");
  expect(counts.textContent).toContain("lately for an object\\u{202e}");
  expect(within(counts).getByText("Stripped").closest("div")?.textContent).toContain("1");
  const set = await row(/web-7d4/);
  expect(set.textContent).toContain("361 objects below");
  await tab.settled();
  await act(() => set.focus());
  fireEvent.keyDown(set, { key: "ArrowRight" });
  const pods = await row(/360 pods/);
  expect((await row(/web-7d4-x/)).textContent).toContain("blocked by example.com/bucket");
  fireEvent.click(pods);
  await row(/web-7d4-199/);
  fireEvent.click(await row(/Show more: 160 not shown/));
  await row(/web-7d4-359/);
  expect(new URLSearchParams(location.search).get("open")).toContain(`${d.set}~pods`);
  expect(screen.getByRole("region", { name: "Confirm" }).textContent).toContain("coppice delete deployments.apps/web -n shop --plan=background-");
});

test("what waits for programs that do not answer is said, and a plan that is too large is not bound", async () => {
  const tab = tabWith({ plan: () => [200, d.plan("Background", { unbound: true, confirm: false })] });
  await screen.findByText("1 object then waits for the finalizer example.com/bucket: no program asks for its calls.");
  await screen.findByText("The plan has too many objects to be checked again when it is carried out.");
  const confirm = await screen.findByRole<HTMLButtonElement>("button", { name: "Delete" });
  await waitFor(() => expect(confirm.disabled).toBe(false));
  fireEvent.click(confirm);
  await screen.findByRole("heading", { level: 1, name: "Deletion of deployments.apps/web" });
  expect(JSON.parse(String(tab.sent("/api/realms/default/delete").at(-1)?.body))).toMatchObject({ unbound: true });
});

test("the name is typed, and the page of the deletion takes the place of the plan", async () => {
  const tab = tabWith();
  const confirm = await button();
  expect(confirm.disabled).toBe(true);
  const input = screen.getByRole("textbox", { name: /This removes 363 objects. Type the name of the object, web, to confirm:/ });
  // The name only is missing: the button is ready, and then not any more.
  fireEvent.input(input, { target: { value: "web" } });
  await waitFor(() => expect(confirm.disabled).toBe(false));
  fireEvent.input(input, { target: { value: "we" } });
  await waitFor(() => expect(confirm.disabled).toBe(true));
  expect(confirm.disabled).toBe(true);
  fireEvent.input(input, { target: { value: "web" } });
  await waitFor(() => expect(confirm.disabled).toBe(false));
  fireEvent.click(confirm);
  await screen.findByRole("heading", { level: 1, name: "Deletion of deployments.apps/web" });
  expect(routeOf(location.pathname, location.search)).toEqual({ view: "deletion", realm: "default", root: { ...web, rev: 48_931 } });
  const [request] = tab.sent("/api/realms/default/delete");
  expect(JSON.parse(request?.body ?? "")).toEqual({ object: web, plan: d.plan("Background").plan });
  expect(request?.headers.get("Coppice-CSRF")).toBe("csrf-of-ana");
});

test("names with characters that are not seen are confirmed as they are shown", () => {
  const plan: Plan = d.plan("Background", { object: { ...web, name: "a\u202Eb" } });
  expect(["a\\u{202e}b", "a\u202Eb", "ab", ""].map((typed) => confirmed(plan, typed))).toEqual([true, true, false, false]);
  expect(confirmed(d.plan("Background", { confirm: false }), "")).toBe(true);
});

test("a choice is in the URL, and is planned", async () => {
  const tab = tabWith();
  await row(/web-7d4/);
  fireEvent.click(screen.getByRole("radio", { name: "Foreground" }));
  await screen.findByText(/--plan=foreground-/);
  expect(location.search).toContain("policy=Foreground");
  fireEvent.click(screen.getByRole("checkbox", { name: "End at once (grace period 0)" }));
  await waitFor(() => expect(tab.sent("/api/realms/default/plan/deployments.apps/shop/web").at(-1)?.url.search).toBe(`?uid=${web.uid ?? ""}&policy=Foreground&grace=0`));
  expect(location.search).toContain("grace=0");
});

test("a plan that is not true any more deletes nothing, and the next one shows what differs", async () => {
  let revision = 48_930;
  const small = () => d.plan("Background", { confirm: false, revision, plan: `background-1@${revision}`, counts: { removed: 361 + (revision - 48_930), removedLater: 1, blocked: 1, orphaned: 0, stripped: 1, kept: 0, protected: 0 } });
  tabWith({ plan: () => [200, small()], delete: () => [409, d.changed] });
  const confirm = await button();
  await waitFor(() => expect(confirm.disabled).toBe(false));
  fireEvent.click(confirm);
  const alert = await screen.findByRole("alert");
  expect(alert.textContent).toContain("Something that the plan depends on has changed, and nothing was deleted.");
  expect(alert.textContent).toContain("pods/web-7d4-400 in shop was created");
  expect(confirm.disabled).toBe(true);
  revision += 2;
  fireEvent.click(within(alert).getByRole("button", { name: "Plan again" }));
  await screen.findByText(/The numbers differ from the plan before/);
  expect(screen.getAllByText("Removed", { selector: "dt" })[0]?.closest("div")?.textContent).toContain("361 before, now→ 363");
  expect(screen.queryByRole("alert")).toBeNull();
  await waitFor(async () => expect((await button()).disabled).toBe(false));
});

test("a change of the object is said, and nothing is planned by itself", async () => {
  let at = 48_930;
  const self = { ...web, state: "Present", owners: 0, dependents: 2, below: 3 };
  let loading = true;
  const tab = tabWith({ family: () => [200, { revision: at, loading, self, owners: [], dependents: [], from: 0, total: 0 }] });
  await button();
  const changed = async () => {
    const before = tab.sent("/api/realms/default/family").length;
    await act(() => FakeSocket.last.news({ id: FakeSocket.last.askOf("Object")?.id ?? 0, changed: true }));
    await waitFor(() => expect(tab.sent("/api/realms/default/family").length).toBeGreaterThan(before));
    await act(() => Promise.resolve());
  };
  await act(() => FakeSocket.last.open());
  await waitFor(() => expect(FakeSocket.last.askOf("Object")).toBeDefined());
  await changed();
  loading = false;
  at++;
  await changed();
  expect(screen.queryByText(/has changed since the plan/), "until it is followed").toBeNull();
  const plans = tab.sent("/api/realms/default/plan/deployments.apps/shop/web").length;
  await changed();
  await screen.findByText("The object has changed since the plan.");
  expect(tab.sent("/api/realms/default/plan/deployments.apps/shop/web")).toHaveLength(plans);
  fireEvent.click(screen.getByRole("button", { name: "Plan again" }));
  await screen.findByText("The numbers are those of the plan before.");
  expect(screen.queryByText(/has changed since the plan/)).toBeNull();
});

test("who may not delete is not offered to", async () => {
  tabWith({ plan: () => [403, { reason: "Forbidden", message: "bob may not delete deployments.apps in shop" }] });
  await screen.findByText("Your user may not delete this object.");
  expect(screen.queryByRole("radio")).toBeNull();
  expect(screen.queryByRole("button", { name: /Delete as planned/ })).toBeNull();
});

test("who may only plan sees the plan without a button", async () => {
  tabWith({ rights: () => [200, { ...d.reader, plan: true }] });
  await row(/web-7d4/);
  await screen.findByText(/may see the plan but may not delete deployments.apps\/web/);
  expect(screen.queryByText(/--plan=/)).toBeNull();
  expect(screen.queryByRole("button", { name: /Delete as planned/ })).toBeNull();
});

test("the number of objects that go is that of the server", async () => {
  tabWith({ plan: () => [200, d.plan("Background", { goes: 1_200 })] });
  await screen.findByRole("textbox", { name: /This removes 1,200 objects\./ });
});

/** press begins the deletion of a small plan. */
async function press(): Promise<void> {
  const confirm = await button();
  await waitFor(() => expect(confirm.disabled).toBe(false));
  fireEvent.click(confirm);
}
const small = () => d.plan("Background", { confirm: false });
const present = { ...new Fixtures(Date.now()).terminating(), state: "Active" };

test.each([
  [504, { reason: "Timeout", message: "no reply in time" }],
  [502, { reason: "InternalError", message: "broken" }],
  [503, { reason: "ServiceUnavailable", message: "no writer" }],
  [408, "a proxy"],
])("after status %i it is not known whether the deletion was carried out, and the page follows the object", async (status, body) => {
  let state = "Active";
  const tab = tabWith({ plan: () => [200, small()], delete: () => [status, body], objects: () => [200, { ...present, state }] });
  await press();
  const alert = await screen.findByRole("alert");
  expect(alert.textContent).toContain("It is not known whether the deletion was carried out.");
  expect(alert.textContent).not.toContain("Nothing was deleted");
  expect(within(alert).getByRole("link", { name: "Look at the object" }).getAttribute("href")).toBe(objectPath("default", web));
  expect(within(alert).getByRole("link", { name: "follow the deletion" }).getAttribute("href")).toBe(deletionPath("default", { ...web, uid: web.uid ?? "" }));
  await waitFor(() => expect(tab.sent("/api/realms/default/objects/deployments.apps/shop/web").length).toBeGreaterThan(0));
  state = "Terminating";
  await act(() => FakeSocket.last.open());
  await act(() => FakeSocket.last.news({ id: FakeSocket.last.askOf("Object")?.id ?? 0, changed: true }));
  await screen.findByRole("heading", { level: 1, name: "Deletion of deployments.apps/web" }, { timeout: 20_000 });
});

test("a request that is repeated finds that the object is gone", async () => {
  let reply: [number, unknown] = [504, { reason: "Timeout", message: "no reply in time" }];
  tabWith({ plan: () => [200, small()], delete: () => reply, objects: () => [200, present] });
  await press();
  await screen.findByText("It is not known whether the deletion was carried out.");
  reply = [409, d.changed];
  await press();
  await screen.findByText(/this request deleted nothing; an earlier one may have been carried out/);
  fireEvent.click(screen.getByRole("button", { name: "Plan again" }));
  reply = [404, { reason: "NotFound", message: "no such object" }];
  await press();
  const alert = await screen.findByText("deployments.apps/web is gone.");
  expect(alert.parentElement?.textContent).toContain("The request before this one may have deleted it.");
  expect(screen.getByRole("link", { name: "Its page says what the log has of it." }).getAttribute("href")).toBe(objectPath("default", web));
});

test("what the server refuses has deleted nothing", async () => {
  tabWith({ plan: () => [200, small()], delete: () => [403, { reason: "Forbidden", message: "ana may not delete" }] });
  await press();
  expect((await screen.findByRole("alert")).textContent).toContain("Nothing was deleted. Ana may not delete.");
});

test("rights that could not be read are said, and are read again", async () => {
  let reply: [number, unknown] = [503, { reason: "ServiceUnavailable", message: "no reply" }];
  tabWith({ plan: () => [200, small()], rights: () => reply });
  const says = await screen.findByText("Whether you may delete it could not be read.");
  expect((await button()).disabled).toBe(true);
  reply = [200, d.rights([])];
  fireEvent.click(within(says.parentElement ?? document.body).getByRole("button", { name: "Try again" }));
  await waitFor(async () => expect((await button()).disabled).toBe(false));
});

test("what the plan is of can be gone, or be deleted already", async () => {
  tabWith({ plan: () => [404, { reason: "NotFound", message: "deployments.apps/web not found" }] });
  expect((await screen.findByRole("link", { name: "Its page says what the log has of it." })).getAttribute("href")).toBe(objectPath("default", web));
  expect(screen.queryByRole("radio")).toBeNull();
  cleanup();
  const plan = small();
  tabWith({ plan: () => [200, { ...plan, root: { ...plan.root, terminating: true } }] });
  await screen.findByText("This object is being deleted already.");
  expect(screen.getByRole("link", { name: "Follow its deletion" }).getAttribute("href")).toBe(deletionPath("default", { ...web, uid: web.uid ?? "" }));
});
