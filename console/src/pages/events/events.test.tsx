import { act, fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { expect, test, vi } from "vitest";
import { Fixtures } from "../../../dev/fixtures.ts";
import { FakeSocket, Tab } from "../../../dev/tab.tsx";
import type { EventRow, Events } from "../../api/types.ts";
import { live } from "../../app.ts";
import { mostRows } from "./rows.ts";

const url = "/r/default/events";
const f = new Fixtures(Date.now());
const list = () => screen.findByRole("region", { name: "Rows" });
const row = (text: RegExp) =>
  waitFor(async () => {
    const found = within(await list()).getAllByRole("listitem").find((item) => text.test(item.textContent));
    if (found === undefined) {
      throw new Error(`no row has ${text.source}`);
    }
    return found;
  });
const fresh = (root: number, more: Partial<EventRow> = {}): Events => {
  const [first] = f.events().rows ?? [];
  if (first === undefined) {
    throw new Error("the events have a row");
  }
  const time = new Date().toISOString();
  return { rows: [{ ...first, root, time, latest: time, actor: "eve", ...more }], last: 1000 + root, missing: [] };
};
const news = (events: Events) => act(() => FakeSocket.last.news({ id: FakeSocket.last.askOf("Events")?.id ?? 0, events }));

test("a command with what followed is a row, and older parts add to it", async () => {
  const tab = new Tab();
  tab.open(url);
  const deletion = await row(/ana deleted deployments\.apps\/web/);
  expect(deletion.textContent).toContain("in shop: then 2 deletions began, 12,030 objects removed");
  expect((await row(/ci imported/)).textContent).toContain("and 39 other objects");
  expect((await row(/Message skipped/)).textContent).toContain("position 912");
  await row(/Realm resumed.*Recorded by ana/);
  fireEvent.click(screen.getByRole("button", { name: "Show older" }));
  await row(/Commits lost/);
  expect((await row(/ana deleted deployments\.apps\/web/)).textContent).toContain("in shop: 2 deletions began, 12,034 objects removed");
  expect(tab.sent("/api/realms/default/events").map((r) => r.url.searchParams.get("before"))).toEqual([null, "900"]);
  expect(screen.queryByRole("button", { name: "Show older" })).toBeNull();
});

test("a row unfolds, and reads its events then", async () => {
  const tab = new Tab();
  tab.open(`${url}?actor=ana`);
  await list();
  expect(tab.sent("/api/realms/default/cascade")).toEqual([]);
  const button = screen.getByRole("button", { name: /: ana deleted deployments\.apps\/web$/ });
  expect(button.getAttribute("aria-expanded")).toBe("false");
  fireEvent.click(button);
  expect(button.getAttribute("aria-expanded")).toBe("true");
  await screen.findByText("Deletion began");
  await screen.findByText("Owner references removed");
  fireEvent.click(screen.getByRole("button", { name: "Show more" }));
  await screen.findByText("Removed");
  const asked = tab.sent("/api/realms/default/cascade").map((r) => Object.fromEntries(r.url.searchParams));
  expect(asked).toEqual([{ root: "48812", actor: "ana" }, { root: "48812", actor: "ana", from: "930", skip: "2" }]);
});

test("new rows appear, and wait while a row is unfolded", async () => {
  new Tab().open(url);
  await list();
  await act(() => FakeSocket.last.open());
  await waitFor(() => expect(FakeSocket.last.askOf("Events")).toMatchObject({ realm: "default", events: {}, after: 940 }));
  await news(fresh(60));
  await row(/eve applied/);
  fireEvent.click(screen.getByRole("button", { name: /: ana deleted deployments\.apps\/web$/ }));
  await screen.findByText("Deletion began");
  await news(fresh(61, { actor: "zoe" }));
  const button = await screen.findByRole("button", { name: "1 new row" });
  expect(screen.queryByText("zoe")).toBeNull();
  fireEvent.click(button);
  await row(/zoe applied/);
  expect(screen.getByText("Deletion began"), "the row stays unfolded").toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: /: ana deleted deployments\.apps\/web$/ }));
  fireEvent.click(screen.getByRole("switch", { name: "Follow" }));
  await news(fresh(62, { actor: "mia" }));
  await screen.findByRole("button", { name: "1 new row" });
  fireEvent.click(screen.getByRole("switch", { name: "Follow" }));
  await row(/mia applied/);
});

test("after a lost connection the rows that were missed are read", async () => {
  new Tab().open(url);
  await list();
  await act(() => FakeSocket.last.open());
  await waitFor(() => expect(FakeSocket.last.askOf("Events")).toBeTruthy());
  await news(fresh(60));
  await row(/eve applied/);
  await act(() => FakeSocket.last.drop());
  await act(() => live.now());
  await act(() => FakeSocket.last.open());
  expect(FakeSocket.last.askOf("Events")).toMatchObject({ after: 1060 });
  await news(fresh(61, { actor: "zoe" }));
  await row(/zoe applied/);
  await act(() => FakeSocket.last.news({ id: FakeSocket.last.askOf("Events")?.id ?? 0, error: { reason: "Forbidden", message: "you may not read the log" } }));
  expect((await screen.findByRole("alert")).textContent).toContain("New events do not arrive. You may not read the log.");
});

test("filters are in the URL, and the URL fills the form", async () => {
  const tab = new Tab();
  tab.open(`${url}?resource=deployments.apps&namespace=shop&name=web&uid=u1&actor=ana&cause=17&since=1h`);
  await list();
  const value = (name: string) => screen.getByLabelText<HTMLInputElement>(name).value;
  expect([value("Object"), value("Actor"), value("Follows from revision"), value("Time")]).toEqual(["deployments.apps/shop/web", "ana", "17", "1h"]);
  const [request] = tab.sent("/api/realms/default/events");
  const { since, ...rest } = Object.fromEntries(request?.url.searchParams ?? []);
  expect(rest).toEqual({ resource: "deployments.apps", namespace: "shop", name: "web", uid: "u1", actor: "ana", cause: "17" });
  expect(Date.now() - Date.parse(since ?? "")).toBeGreaterThanOrEqual(3_600_000);

  fireEvent.input(screen.getByLabelText("Actor"), { target: { value: "bob & co" } });
  fireEvent.submit(screen.getByRole("form", { name: "Filter" }));
  expect(location.search).toBe("?resource=deployments.apps&namespace=shop&name=web&actor=bob%20%26%20co&cause=17&uid=u1&since=1h");
  await waitFor(() => expect(tab.sent("/api/realms/default/events").at(-1)?.url.searchParams.get("actor")).toBe("bob & co"));

  fireEvent.input(screen.getByLabelText("Object"), { target: { value: "web" } });
  fireEvent.submit(screen.getByRole("form", { name: "Filter" }));
  expect((await screen.findByRole("alert")).textContent).toContain("web names no object");
  await waitFor(() => expect([...document.querySelectorAll("datalist option")].map((o) => o.getAttribute("value"))).toContain("deployments.apps/shop/web"));
  fireEvent.click(screen.getByRole("button", { name: "Show all" }));
  await waitFor(() => expect(location.search).toBe(""));
});

test("what is wrong in a URL is said", async () => {
  new Tab().open(`${url}?cause=x`);
  expect((await screen.findByRole("alert")).textContent).toContain("Cause=x is not a revision");
});

test("a user who may not read the log sees why", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = (request) => (request.url.pathname.endsWith("/events") ? [403, { reason: "Forbidden", message: "viewer may not use readlog" }] : answer(request));
  tab.open(url);
  expect((await screen.findByRole("alert")).textContent).toContain("Your user may not read the log. Viewer may not use readlog.");
  expect(screen.queryByRole("button", { name: "Try again" })).toBeNull();
});

test("views of the realm are a row of links", async () => {
  new Tab().open("/r/default");
  const views = await screen.findByRole("navigation", { name: "Views of the realm" });
  expect(within(views).getByRole("link", { name: "Overview" }).getAttribute("aria-current")).toBe("page");
  fireEvent.click(within(views).getByRole("link", { name: "Events" }));
  await screen.findByRole("heading", { level: 1, name: "Events" });
  expect(within(screen.getByRole("navigation", { name: "Views of the realm" })).getByRole("link", { name: "Events" }).getAttribute("aria-current")).toBe("page");
});

/** many are as many new rows as a page keeps. */
const many = (): Events => {
  const [first] = fresh(1).rows ?? [];
  return { rows: Array.from({ length: mostRows }, (_, i) => ({ ...first, root: 5000 + i }) as EventRow), last: 9000, missing: [] };
};
const asked = (tab: Tab) => tab.sent("/api/realms/default/events").length;

test("a page with many rows reads the newest only when its user asks, once at a time", async () => {
  const tab = new Tab();
  tab.open(url);
  await row(/ana deleted deployments/);
  await act(() => FakeSocket.last.open());
  await waitFor(() => expect(FakeSocket.last.askOf("Events")).toBeTruthy());
  fireEvent.click(screen.getByRole("switch", { name: "Follow" }));
  await news(many());
  const before = asked(tab);
  await news(fresh(60, { actor: "zoe" }));
  await news(fresh(61, { actor: "zoe" }));
  const button = await screen.findByRole("button", { name: /new; show$/ });
  await row(/ana deleted deployments/);
  expect(asked(tab), "nothing is read by itself").toBe(before);
  // A read that is slow is not read again, and news do not end it.
  let end: () => void = () => undefined;
  const slow = new Promise<void>((ok) => (end = ok));
  const signals: AbortSignal[] = [];
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", async (at: string, init?: RequestInit) => {
    if (at.includes("/events")) {
      signals.push(init?.signal ?? new AbortController().signal);
      await slow;
    }
    return fetch(at, init);
  });
  fireEvent.click(button);
  await news(fresh(62, { actor: "zoe" }));
  fireEvent.click(button);
  await news(fresh(63, { actor: "zoe" }));
  expect(signals.map((s) => s.aborted)).toEqual([false]);
  await act(() => end());
  await waitFor(() => expect(screen.queryByRole("button", { name: /new; show|Reading/ })).toBeNull());
  expect([asked(tab), signals.length]).toEqual([before + 1, 1]);
});

test("what is looked at stays if the live connection cannot send what was missed", async () => {
  const tab = new Tab();
  tab.open(url);
  await row(/ana deleted deployments/);
  await act(() => FakeSocket.last.open());
  await waitFor(() => expect(FakeSocket.last.askOf("Events")).toBeTruthy());
  fireEvent.click(screen.getByRole("button", { name: /: ana deleted deployments\.apps\/web$/ }));
  await screen.findByText("Deletion began");
  await act(() => FakeSocket.last.news({ id: FakeSocket.last.askOf("Events")?.id ?? 0, error: { reason: "Expired", message: "too far back" } }));
  fireEvent.click(await screen.findByRole("button", { name: "Show what is new" }));
  await waitFor(() => expect(asked(tab)).toBe(2));
  await waitFor(() => expect(screen.queryByRole("button", { name: /Show what is new|Reading/ })).toBeNull());
});
