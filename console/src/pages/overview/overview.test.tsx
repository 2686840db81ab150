import { act, fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { expect, test, vi } from "vitest";
import { Fixtures } from "../../../dev/fixtures.ts";
import { FakeSocket, Tab } from "../../../dev/tab.tsx";
import type { Overview } from "../../api/types.ts";

const section = (name: string) => screen.getByRole("region", { name });

test("what is stuck comes first, with examples and the cure", async () => {
  const writeText = vi.spyOn(navigator.clipboard, "writeText").mockResolvedValue();
  new Tab().open("/r/default");
  const stuck = await screen.findByRole("region", { name: "Stuck" });
  await waitFor(() => expect(document.title).toBe("(4) default · Coppice"));
  expect(screen.getAllByRole("heading", { level: 2 }).map((h) => h.textContent)[0]).toBe("Stuck");
  expect(within(stuck).getByText("No program runs the finalizer example.com/dns: 12 objects wait for it.")).toBeTruthy();
  const link = within(stuck).getByRole("link", { name: /pods\/web-7d4-x/ });
  expect(link.getAttribute("href")).toBe("/r/default/o/pods/shop/web-7d4-x?uid=9d1e6f3a-0c55-47b1-b6f4-7a52e1c0d9aa");
  expect(link.closest("li")?.textContent).toBe("pods/web-7d4-x in shop 2 h 1 min ago");
  expect(within(stuck).getByText(/legacy\\u\{202e\}gnp\.settings/)).toBeTruthy();
  fireEvent.click(within(stuck).getAllByRole("button", { name: "Copy the command" })[2] ?? stuck);
  expect(writeText).toHaveBeenCalledWith("coppice brake release pods");
  await screen.findByText("Copied the command");
});

test("the other parts", async () => {
  new Tab().open("/r/default");
  await screen.findByRole("region", { name: "Deletions in progress" });
  const row = within(section("Deletions in progress")).getByRole("row", { name: /namespaces\/previews/ });
  expect(row.textContent).toContain("12 objects blocked");
  expect(row.textContent).toContain("212/s");
  expect(section("Deletions in progress").textContent).toContain("and 2 smaller deletions");
  expect(section("Stuck").textContent).toContain("Consumers of finalizers and agents could not be read: the finalizers service does not answer");
  expect(within(section("Finalizers")).getByRole("row", { name: /example.com\/dns/ }).textContent).toContain("No consumer");
  expect(section("Services").textContent).toContain("Writer: graph-1");
  expect(section("Services").textContent).toContain("12 revisions behind");
  expect(section("Services").textContent).toContain("connection refused");
  expect(section("Storage").textContent).toContain("904 MiB");
  expect(section("Warnings").textContent).toContain("and 6 older warnings");
});

test("a healthy realm says so", async () => {
  new Tab().open("/r/staging");
  expect((await screen.findByRole("region", { name: "Stuck" })).textContent).toContain("Nothing is stuck. No deletion is in progress among 12,408 objects.");
});

test("a deletion that waits is not said to be without blockers", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  const overview = { ...new Fixtures(Date.now()).healthy(), terminating: 1, deletions: [{ root: { resource: "pods", namespace: "shop", name: "a", uid: "a" }, began: "2026-01-01T00:00:00Z", remaining: 1, removed: 0, rate: 0, blocked: 1 }] };
  tab.answer = (request) => (request.url.pathname.endsWith("/overview") ? [200, overview] : answer(request));
  tab.open("/r/default");
  expect((await screen.findByRole("region", { name: "Stuck" })).textContent).toBe("StuckNothing is stuck. 1 object is being deleted; finalizers or agents are at work.");
  await act(() => FakeSocket.last.open());
  const free = { ...overview, time: new Date(Date.now() + 1000).toISOString(), deletions: [] };
  await act(() => FakeSocket.last.news({ id: FakeSocket.last.askOf("Overview")?.id ?? 0, overview: free }));
  expect(section("Stuck").textContent).toBe("StuckNothing is stuck. 1 object is being deleted, and nothing blocks it.");
});

test("what is not known is not said to be free", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  const healthy = new Fixtures(Date.now()).healthy();
  const cases: [Partial<Overview>, string][] = [
    [{ loading: true }, "The objects of the realm are still being read."],
    [{ missing: [{ part: "parked work", why: "no reply" }] }, "What could not be read may be stuck."],
    [{ finalizers: [{ name: "example.com/dns", objects: 1, terminating: 1, consumer: "Unseen", says: "" }] }, "Which programs answer finalizers is still being read."],
  ];
  tab.answer = (request) => (request.url.pathname.endsWith("/overview") ? [200, healthy] : answer(request));
  tab.open("/r/default");
  await screen.findByRole("region", { name: "Stuck" });
  await act(() => FakeSocket.last.open());
  for (const [more, says] of cases) {
    const overview = { ...healthy, ...more, time: new Date(Date.now() + 1000).toISOString() };
    await act(() => FakeSocket.last.news({ id: FakeSocket.last.askOf("Overview")?.id ?? 0, overview }));
    expect(section("Stuck").textContent).toContain(`Nothing is known to be stuck. ${says}`);
    expect(document.body.textContent).not.toContain("Nothing is stuck.");
  }
});

test("a realm without a writer, and a user who may not see all", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  const healthy: Partial<Overview> = new Fixtures(Date.now()).healthy();
  delete healthy.writer;
  const stuck = [{ blocker: "Writer", says: "No graph service writes the realm.", objects: 0, examples: null, cure: { says: "Start one." } }];
  tab.answer = (request) => (request.url.pathname.endsWith("/overview") ? [200, { ...healthy, partial: true, stuck }] : answer(request));
  tab.open("/r/default");
  expect((await screen.findByRole("region", { name: "Stuck" })).textContent).toContain("No writerNo graph service writes the realm.");
  expect(section("Services").textContent).toContain("Writer: none or not known");
  expect(screen.getByText(/^Your user may not see all objects of this realm/)).toBeTruthy();
});

test("news replaces what was read, and rows keep their places and the focus", async () => {
  const tab = new Tab();
  tab.open("/r/default");
  await screen.findByRole("region", { name: "Deletions in progress" });
  const f = new Fixtures(Date.now());
  const deletions = section("Deletions in progress");
  const roots = () => within(deletions).getAllByRole("link").map((a) => a.textContent);
  const before = roots();
  await tab.settled();
  within(deletions).getByRole("link", { name: /worker-5f7/ }).focus();
  await act(() => FakeSocket.last.open());
  const ask = FakeSocket.last.askOf("Overview");
  expect(ask).toMatchObject({ realm: "default" });
  const overview = f.busy();
  const [a, b, ...others] = overview.deletions ?? [];
  const fresh = { ...f.busy().deletions?.[2], root: { resource: "pods", namespace: "shop", name: "fresh", uid: "fresh" } };
  await act(() => FakeSocket.last.news({ id: ask?.id ?? 0, overview: { ...overview, revision: 50_000, deletions: [fresh, b, a, ...others].filter((d) => d !== undefined) as typeof overview.deletions } }));
  await screen.findByText("50,000");
  expect(roots()).toEqual([...before, "pods/fresh", "Follow this deletion"]);
  expect(document.activeElement?.textContent).toBe("replicasets.apps/worker-5f7");
});

test("a lost connection is said, and heals", async () => {
  const tab = new Tab();
  tab.open("/r/default");
  await screen.findByRole("region", { name: "Stuck" });
  await act(() => FakeSocket.last.open());
  expect(screen.getByText("Live")).toBeTruthy();
  await act(() => FakeSocket.last.drop());
  expect(screen.getByText("The connection to the console is lost.")).toBeTruthy();
  expect(screen.getByText("Not live")).toBeTruthy();
  const reads = tab.sent("/api/realms/default/overview").length;
  fireEvent.click(screen.getByRole("button", { name: "Try now" }));
  await act(() => FakeSocket.last.open());
  expect(screen.queryByText("The connection to the console is lost.")).toBeNull();
  await waitFor(() => expect(tab.sent("/api/realms/default/overview")).toHaveLength(reads + 1));
  expect(tab.sent("/api/realms/default/overview").map((r) => r.headers.get("Coppice-Background"))).toEqual([null, "1"]);
  await act(() => FakeSocket.last.news({ id: 0, lost: "NATS does not answer." }));
  expect(screen.getByText(/NATS does not answer/)).toBeTruthy();
  await act(() => FakeSocket.last.news({ id: 0, found: true }));
  expect(screen.queryByText(/NATS does not answer/)).toBeNull();
});

test("what cannot be read can be tried again", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = (request) => (request.url.pathname.endsWith("/overview") ? [503, { reason: "Unavailable", message: "No graph service answers; start one.", retry: true }] : answer(request));
  tab.open("/r/default");
  expect((await screen.findByRole("alert")).textContent).toContain("No graph service answers; start one.");
  tab.answer = answer;
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await screen.findByRole("region", { name: "Stuck" });
  expect(screen.queryByRole("alert")).toBeNull();
});
