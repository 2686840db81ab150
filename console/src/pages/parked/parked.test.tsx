import { fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Deletions } from "../../../dev/deletions.ts";
import { Fixtures } from "../../../dev/fixtures.ts";
import { Tab } from "../../../dev/tab.tsx";
import { objectPath } from "../../lib/paths.ts";

const at = "/api/realms/default/parked";
const bodies = (tab: Tab) => tab.sent(at).filter((r) => r.method === "POST").map((r) => JSON.parse(r.body) as unknown);

function openWith(replies: (method: string) => [number, unknown] | undefined): Tab {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = (request) => (request.url.pathname === at ? replies(request.method) : undefined) ?? answer(request);
  tab.open("/r/default/parked");
  return tab;
}

test("work is retried, and more is read", async () => {
  const tab = openWith(() => undefined);
  const table = await screen.findByRole("table", { name: "Parked work" });
  expect(within(table).getByRole("link", { name: /pods\/web-7d4-x/ }).getAttribute("href")).toBe(objectPath("default", new Fixtures(0).pod));
  fireEvent.click(screen.getByRole("button", { name: "Show more" }));
  const third = await screen.findByRole("checkbox", { name: /The call 3/ });
  expect(screen.queryByRole("button", { name: "Show more" })).toBeNull();
  const retry = screen.getByRole<HTMLButtonElement>("button", { name: "Retry" });
  expect(retry.disabled).toBe(true);
  fireEvent.click(third);
  fireEvent.click(screen.getByRole("checkbox", { name: /The call 1/ }));
  await screen.findByText("2 pieces selected");
  fireEvent.click(retry);
  await screen.findByText("2 pieces of work were queued again. What fails again comes back here.");
  expect(bodies(tab)).toEqual([{ action: "Retry", ids: [1, 3] }]);
  await waitFor(() => expect(document.activeElement?.getAttribute("role")).toBe("status"));
});

test("dropping says what follows, and what failed", async () => {
  const tab = openWith((method) => (method === "POST" ? [200, { done: 1, failed: ["work 2 was retried by another user"] }] : undefined));
  fireEvent.click(await screen.findByRole("checkbox", { name: "Select all shown" }));
  fireEvent.click(screen.getByRole("button", { name: "Drop…" }));
  await waitFor(() => screen.getByRole("dialog", { name: "Drop 2 pieces of work?" }));
  const dialog = screen.getByRole("dialog", { name: "Drop 2 pieces of work?" });
  expect(dialog.textContent).toContain("is published again after some time");
  expect(bodies(tab)).toEqual([]);
  fireEvent.click(within(dialog).getByRole("button", { name: "Drop" }));
  const failed = await screen.findByRole("list", { name: "What failed" });
  expect(failed.textContent).toBe("Work 2 was retried by another user.");
  expect(screen.getByText("1 piece of work was dropped.")).toBeTruthy();
  expect(bodies(tab)).toEqual([{ action: "Drop", ids: [1, 2] }]);
});

test("no work is parked", async () => {
  openWith(() => [200, { work: [] }]);
  await screen.findByText("No work is parked.");
  expect(screen.queryByRole("button", { name: "Retry" })).toBeNull();
});

test("who may not change parked work sees it without buttons", async () => {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = (request) => (request.url.pathname.endsWith("/rights") ? [200, { ...new Deletions(0).reader, listParked: true }] : answer(request));
  tab.open("/r/default/parked");
  await screen.findByRole("table", { name: "Parked work" });
  await tab.settled();
  expect(screen.queryByRole("checkbox")).toBeNull();
});

test("work that is parked again comes back by itself", async () => {
  let work: unknown[] = [];
  const tab = openWith((method) => (method === "GET" ? [200, { work }] : undefined));
  await screen.findByText("No work is parked.");
  work = new Deletions(0).parked(0).work ?? [];
  await screen.findByRole("table", { name: "Parked work" });
  expect(tab.sent(at).at(-1)?.headers.get("Coppice-Background")).toBe("1");
});
