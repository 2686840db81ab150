import { act, fireEvent, screen, waitFor } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Fixtures } from "../../dev/fixtures.ts";
import { Tab } from "../../dev/tab.tsx";

const press = (key: string) => fireEvent.keyDown(document.activeElement ?? document.body, { key });

test("the search is used by keys", async () => {
  const tab = new Tab();
  tab.open("/r/default");
  await screen.findByRole("region", { name: "Stuck" });
  await tab.settled();
  await act(() => void press("/"));
  const field = screen.getByRole<HTMLInputElement>("combobox", { name: "Search objects" });
  expect(document.activeElement).toBe(field);
  expect(field.getAttribute("aria-expanded")).toBe("false");
  for (const value of ["w", "we", "web"]) {
    fireEvent.input(field, { target: { value } });
  }
  await screen.findByRole("option", { name: /pods\/web-7d4-x/ });
  expect(tab.sent("/api/realms/default/search").map((r) => r.url.searchParams.get("q"))).toEqual(["web"]);
  expect(field.getAttribute("aria-expanded")).toBe("true");
  const active = () => document.getElementById(field.getAttribute("aria-activedescendant") ?? "")?.textContent;
  expect(active()).toContain("deployments.apps/web");
  press("ArrowDown");
  await waitFor(() => expect(active()).toContain("pods/web-7d4-x"));
  press("Escape");
  await waitFor(() => expect(field.getAttribute("aria-expanded")).toBe("false"));
  expect(field.value).toBe("web");
  press("ArrowUp");
  await waitFor(() => expect(active()).toBeTruthy());
  press("ArrowDown");
  await waitFor(() => expect(active()).toContain("deployments.apps/web"));
  press("Enter");
  await screen.findByRole("heading", { level: 1, name: "deployments.apps/web" });
  expect(screen.getByRole<HTMLInputElement>("combobox", { name: "Search objects" }).value).toBe("");
});

test("a search without matches says so, and so does one that fails", async () => {
  const tab = new Tab();
  tab.open("/r/default");
  const field = await screen.findByRole("combobox", { name: "Search objects" });
  expect(screen.queryByText("No object matches.")).toBeNull();
  field.focus();
  fireEvent.input(field, { target: { value: "zzz" } });
  await screen.findByText(/No object matches/);
  tab.answer = () => [503, { reason: "Unavailable", message: "No graph service answers." }];
  fireEvent.input(field, { target: { value: "zz" } });
  await screen.findByText("The search failed: No graph service answers.");
});

test("keys are explained, and typing text is no key", async () => {
  const tab = new Tab();
  tab.open("/r/default");
  const field = await screen.findByRole("combobox", { name: "Search objects" });
  await tab.settled();
  field.focus();
  press("?");
  expect(screen.queryByRole("dialog")).toBeNull();
  field.blur();
  press("?");
  expect((await screen.findByRole("dialog", { name: "Keys" })).textContent).toContain("search objects");
});

test("a view that fails says so, and the rest of the page works", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = (request) => (request.url.pathname.endsWith("/overview") ? [200, { stuck: 7 }] : answer(request));
  tab.open("/r/default");
  expect((await screen.findByRole("alert")).textContent).toContain("The view cannot be shown.");
  fireEvent.change(screen.getByRole("combobox", { name: "Realm" }), { target: { value: "" } });
  await screen.findByRole("heading", { level: 1, name: "Realms" });
});

test("the only realm is opened, and realms are chosen", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  const session = new Fixtures(0).session;
  tab.answer = (request) => (request.url.pathname === "/api/session" ? [200, { ...session, realms: (session.realms ?? []).slice(0, 1) }] : answer(request));
  tab.open("/");
  await screen.findByRole("heading", { level: 1, name: "Realm default" });
  expect(location.pathname).toBe("/r/default");
});

test("several realms are listed", async () => {
  new Tab().open("/");
  await screen.findByRole("heading", { level: 1, name: "Realms" });
  expect(location.pathname).toBe("/realms");
  const row = screen.getByRole("row", { name: /previews/ });
  expect(row.textContent).toContain("Deleting");
  expect(row.textContent).toContain("2 segments are not copied");
  fireEvent.change(screen.getByRole("combobox", { name: "Realm" }), { target: { value: "staging" } });
  await screen.findByRole("heading", { level: 1, name: "Realm staging" });
});

test("a console that does not answer can be tried again", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = () => {
    throw new TypeError("connection refused");
  };
  tab.open("/r/default");
  expect((await screen.findByRole("alert")).textContent).toContain("The console does not answer.");
  tab.answer = answer;
  fireEvent.click(screen.getByRole("button", { name: "Try again" }));
  await screen.findByRole("heading", { level: 1, name: "Realm default" });
});
