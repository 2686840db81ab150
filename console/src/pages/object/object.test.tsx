import { act, fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Fixtures } from "../../../dev/fixtures.ts";
import { FakeSocket, Tab } from "../../../dev/tab.tsx";
import { live } from "../../app.ts";
import { objectPath } from "../../lib/paths.ts";

const f = new Fixtures(Date.now());
const url = objectPath("default", f.web);
const set = "7d400000-0000-4000-8000-000000000000";
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
  expect(finalizers.textContent).toContain("parked after it kept failing");
  expect(finalizers.textContent).toContain("5 attempts");
  expect(finalizers.textContent).toContain("dial tcp 10.1.2.3:443: i/o timeout");
  expect(finalizers.textContent).toContain("foregroundDeletion built in");
  expect(within(why).getByRole("region", { name: "Owner references" }).textContent).toContain("buckets.storage.example.com/assets controller blocking solid: the owner exists");
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
  expect(ask).toMatchObject({ realm: "default", uid: set });
  const page = FakeSocket.last.asks.find((of) => of.uid === f.web.uid);
  expect(page).toMatchObject({ realm: "default", view: "Object" });
  const answer = tab.answer;
  tab.answer = (request) => {
    const [status, body] = answer(request);
    return request.url.pathname.includes("/objects/") ? [status, { ...(body as object), revision: 60_000 }] : [status, body];
  };
  const before = tab.requests.length;
  await act(() => FakeSocket.last.news({ id: page?.id ?? 0, changed: true }));
  await screen.findByText("60,000");
  expect(document.activeElement).toBe(pod);
  expect(pod.isConnected).toBe(true);
  const families = () => tab.requests.slice(before).filter((r) => r.url.pathname.endsWith("/family")).map((r) => r.url.searchParams.get("uid"));
  await waitFor(() => expect(families()).toEqual([f.web.uid]));
  await act(() => FakeSocket.last.news({ id: ask?.id ?? 0, changed: true }));
  await waitFor(() => expect(families()).toEqual([f.web.uid, f.web.uid, set]));
  await waitFor(() => expect(tab.requests.slice(before).some((r) => r.url.pathname.endsWith("/history"))).toBe(true));
  expect(tab.requests.slice(before).map((r) => r.headers.get("Coppice-Background"))).toEqual(tab.requests.slice(before).map(() => "1"));
  expect(screen.getByRole("treeitem", { name: /pods\/web-7d4-x/ })).toBe(pod);
});

test("only what the page reads by itself is in the background", async () => {
  const tab = new Tab();
  tab.open(url);
  const history = await section("History");
  await within(history).findByText("Owner references removed");
  await row(/web-7d4/);
  fireEvent.click(within(history).getByRole("button", { name: "Show older events" }));
  await within(history).findByText("Created");
  expect(tab.requests.filter((r) => r.headers.has("Coppice-Background") && !r.url.pathname.endsWith("/rights"))).toEqual([]);
  await act(() => FakeSocket.last.open());
  const before = tab.requests.length;
  await act(() => FakeSocket.last.drop());
  await act(() => live.now());
  await act(() => FakeSocket.last.open());
  const paths = () => new Set(tab.requests.slice(before).filter((r) => r.headers.get("Coppice-Background") === "1").map((r) => r.url.pathname.split("/")[4] ?? "session"));
  await waitFor(() => expect(paths()).toEqual(new Set(["session", "objects", "history", "family"])));
  expect(tab.requests.slice(before).filter((r) => !r.headers.has("Coppice-Background"))).toEqual([]);
});

test("history has causes, and older events on demand", async () => {
  new Tab().open(url);
  const history = await section("History");
  await within(history).findByText("Owner references removed");
  expect(within(history).getAllByRole("link", { name: "deployments.apps/api" })).toHaveLength(1);
  expect(within(history).getByText("because ana deleted", { exact: false, selector: "li" })).toBeTruthy();
  expect(history.textContent).toContain("by ana (delete)");
  fireEvent.click(within(history).getByRole("button", { name: "Show older events" }));
  await within(history).findByText("Created");
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

test("values of a Secret are hidden at once", async () => {
  const tab = new Tab();
  tab.open("/r/default/o/secrets/shop/tls");
  const answer = tab.answer;
  fireEvent.click(await screen.findByRole("button", { name: "Show values" }));
  await screen.findByText(/aHVudGVyMg==/);
  tab.answer = (request) => (request.url.pathname.includes("/objects/") ? [503, { reason: "Unavailable", message: "no reply" }] : answer(request));
  fireEvent.click(screen.getByRole("button", { name: "Hide values" }));
  await screen.findByText(/The values are hidden/);
  expect(screen.queryByText(/aHVudGVyMg==/)).toBeNull();
  tab.answer = answer;
  fireEvent.click(await screen.findByRole("button", { name: "Try again" }));
  await screen.findByRole("button", { name: "Show values" });
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
  expect(heading.closest("main")?.textContent).toContain("Search for a part of its name");
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
