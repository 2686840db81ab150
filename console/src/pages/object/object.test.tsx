import { act, fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Fixtures } from "../../../dev/fixtures.ts";
import { FakeSocket, Tab } from "../../../dev/tab.tsx";
import { objectPath } from "../../lib/paths.ts";

const f = new Fixtures(Date.now());
const url = objectPath("default", f.web);
const section = (name: string) => screen.findByRole("region", { name });
const row = (name: RegExp) => screen.findByRole("treeitem", { name });
const press = (key: string) => fireEvent.keyDown(document.activeElement ?? document.body, { key });

test("why an object is not deleted", async () => {
  new Tab().open(url);
  const why = await section("Why it is not deleted yet");
  await waitFor(() => expect(document.title).toBe("deployments.apps/web · Coppice"));
  const heading = within(why).getAllByRole("heading").map((h) => h.textContent);
  expect(heading).toEqual(["Why it is not deleted yet", "Causes", "Finalizers", "Blocked by", "Pending work", "Owner references", "Expiry", "Uses", "Conditions"]);
  const finalizers = within(why).getByRole("region", { name: "Finalizers" });
  expect(finalizers.textContent).toContain("parked: it is not tried again by itself");
  expect(finalizers.textContent).toContain("5 attempts");
  expect(finalizers.textContent).toContain("dial tcp 10.1.2.3:443: i/o timeout");
  const blocker = within(within(why).getByRole("region", { name: "Blocked by" })).getByRole("link", { name: "pods/web-7d4-x" });
  expect(blocker.getAttribute("href")).toBe(objectPath("default", f.pod));
});

test("the tree is used by keys, and the URL keeps what is open", async () => {
  const tab = new Tab();
  tab.open(url);
  const owners = await row(/^Owners/);
  await tab.settled();
  owners.focus();
  press("End");
  expect(document.activeElement?.textContent).toContain("configmaps/web");
  press("w");
  expect(document.activeElement?.textContent).toContain("web-7d4");
  press("ArrowRight");
  await row(/pods\/web-7d4-x/);
  expect(new URLSearchParams(location.search).get("open")).toBe("owners,dependents,dependents:7d400000-0000-4000-8000-000000000000");
  press("ArrowRight");
  expect(document.activeElement?.textContent).toContain("pods/web-7d4-x");
  press("ArrowLeft");
  press("ArrowLeft");
  await waitFor(() => expect(screen.queryByRole("treeitem", { name: /pods\/web-7d4-x/ })).toBeNull());
  press("ArrowRight");
  await row(/pods\/web-7d4-x/);
  press("ArrowRight");
  press("Enter");
  await screen.findByRole("heading", { level: 1, name: "pods/web-7d4-x" });
  expect(location.pathname + location.search).toBe(objectPath("default", f.pod));
  await waitFor(() => expect(document.activeElement?.tagName).toBe("H1"));
});

test("rows that the URL names are open, and more is read on demand", async () => {
  new Tab().open(`${url}&open=dependents,dependents:7d400000-0000-4000-8000-000000000000`);
  await row(/pods\/web-7d4-x/);
  expect(screen.queryByRole("treeitem", { name: /assets/ })).toBeNull();
  expect(screen.queryByRole("treeitem", { name: /web-7d4-360/ })).toBeNull();
  fireEvent.click(await row(/Show more: 161 not shown/));
  await row(/web-7d4-360/);
});

test("a change is shown, and open rows and the focus stay", async () => {
  const tab = new Tab();
  tab.open(`${url}&open=owners,dependents,dependents:7d400000-0000-4000-8000-000000000000`);
  const pod = await row(/pods\/web-7d4-x/);
  await tab.settled();
  pod.focus();
  await act(() => FakeSocket.last.open());
  const ask = FakeSocket.last.askOf("Object");
  expect(ask).toMatchObject({ realm: "default", uid: f.web.uid });
  const answer = tab.answer;
  tab.answer = (request) => {
    const [status, body] = answer(request);
    return request.url.pathname.includes("/objects/") ? [status, { ...(body as object), revision: 60_000 }] : [status, body];
  };
  await act(() => FakeSocket.last.news({ id: ask?.id ?? 0, changed: true }));
  await screen.findByText("60,000");
  expect(document.activeElement).toBe(pod);
  expect(pod.isConnected).toBe(true);
  await waitFor(() => expect(tab.sent("/api/realms/default/family").filter((r) => r.url.searchParams.get("uid")?.startsWith("7d4"))).toHaveLength(2));
  expect(screen.getByRole("treeitem", { name: /pods\/web-7d4-x/ })).toBe(pod);
});

test("history has causes, and older events on demand", async () => {
  new Tab().open(url);
  const history = await section("History");
  await within(history).findByText("OwnerReferencesRemoved");
  expect(within(history).getAllByRole("link", { name: "deployments.apps/api" })).toHaveLength(1);
  expect(within(history).getByText("because ana deleted", { exact: false, selector: "li" })).toBeTruthy();
  expect(history.textContent).toContain("by ana (delete)");
  fireEvent.click(within(history).getByRole("button", { name: "Show older events" }));
  await within(history).findByText("ObjectCreated");
  expect(within(history).queryByRole("button", { name: "Show older events" })).toBeNull();
  expect(history.textContent).toContain("2 messages of the log (12, 13) are no commits");
});

test("values of a Secret are asked for", async () => {
  const tab = new Tab();
  tab.open("/r/default/o/secrets/shop/tls");
  const manifest = await section("Manifest");
  expect(manifest.textContent).not.toContain("aHVudGVyMg==");
  expect(tab.requests.some((r) => r.url.searchParams.has("reveal"))).toBe(false);
  fireEvent.click(within(manifest).getByRole("button", { name: "Show values" }));
  await within(manifest).findByText(/aHVudGVyMg==/);
  fireEvent.click(within(manifest).getByRole("button", { name: "Hide values" }));
  await within(manifest).findByText(/not shown/);
});

test("what is known of a removed object", async () => {
  new Tab().open("/r/default/o/pods/shop/web-7d4-k");
  const why = await section("Why it was removed");
  expect(why.textContent).toContain("because ana deleted deployments.apps/web");
  expect(screen.queryByRole("tree")).toBeNull();
  expect(screen.queryByRole("region", { name: "Manifest" })).toBeNull();
  await section("History");
});

test("text of the server is text", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  const attack = '<img src=x onerror="document.title=1">';
  tab.answer = (request) => {
    const [status, body] = answer(request);
    const text = JSON.stringify(body ?? null).replaceAll("web-7d4", JSON.stringify(attack).slice(1, -1)).replaceAll("no bucket", "<script>1</script>\u202E");
    return [status, JSON.parse(text) as unknown];
  };
  tab.open(`${url}&open=owners,dependents,dependents:7d400000-0000-4000-8000-000000000000`);
  await row(/onerror/);
  expect(document.querySelector("main img, main script")).toBeNull();
  expect(document.body.textContent).toContain("<script>1</script>\\u{202e}");
});

test("an unknown object, realm and path say so", async () => {
  new Tab().open("/r/default/o/pods/shop/none");
  const heading = await screen.findByRole("heading", { level: 1, name: "No pods/none" });
  expect(heading.parentElement?.textContent).toContain("Search for a part of its name");
});

test("an unknown realm", async () => {
  new Tab().open("/r/other");
  await screen.findByRole("heading", { level: 1, name: "No such realm" });
  expect(screen.getByRole("link", { name: "staging" })).toBeTruthy();
});

test("an unknown path", async () => {
  new Tab().open("/elsewhere");
  await screen.findByRole("heading", { level: 1, name: "No such page" });
});
