import { act, screen, waitFor } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Deletions } from "../../../dev/deletions.ts";
import { FakeSocket, Tab } from "../../../dev/tab.tsx";
import type { Progress } from "../../api/types.ts";
import { deletionPath, objectPath } from "../../lib/paths.ts";
import { finished } from "./progress.tsx";

const d = new Deletions(Date.now());
const root = { ...d.progress("Running").root, uid: d.progress("Running").root.uid ?? "" };
const number = (name: string) => screen.getByText(name, { selector: "dt" }).closest("div")?.querySelector("dd")?.textContent;

function openWith(progress: Progress, at = deletionPath("default", { ...root, rev: 48_931 })): Tab {
  const tab = new Tab();
  const answer = tab.answer;
  tab.answer = (request) => (request.url.pathname.endsWith("/deletion") ? [200, progress] : answer(request));
  tab.open(at);
  return tab;
}

test("a deletion is followed to its end", async () => {
  openWith(d.progress("Running"));
  const table = await screen.findByRole("table", { name: "Objects that block the deletion" });
  expect(table.textContent).toContain("finalizer example.com/bucket");
  expect([number("Remaining"), number("Removed"), number("Rate"), number("Blocked"), number("Time left")]).toEqual(["4,034", "8,000", "212/s", "1", "not known"]);
  expect(number("Elapsed")).toMatch(/^1 min 1\d s$/);
  expect(screen.getByRole("progressbar", { name: "66% removed" })).toBeTruthy();
  await waitFor(() => expect(document.title).toBe("66% Deletion of deployments.apps/web · Coppice"));
  expect(screen.getByRole("link", { name: "Events of this deletion" }).getAttribute("href")).toBe("/r/default/events?cause=48931");
  await act(() => FakeSocket.last.open());
  await waitFor(() => expect(FakeSocket.last.askOf("Deletion")).toBeDefined());
  const news = (deletion: Progress) => act(() => FakeSocket.last.news({ id: FakeSocket.last.askOf("Deletion")?.id ?? 0, deletion }));
  await news(d.progress("Running", { remaining: 34, removed: 12_000, waiting: [], blocked: 0 }));
  expect(number("Remaining")).toBe("34");
  expect(screen.queryByRole("table")).toBeNull();
  await news(d.progress("Ended", { remaining: 0, removed: 12_034, waiting: [], blocked: 0, gone: true }));
  expect(screen.getAllByText(/^12,034 objects were removed in 1 min \d+ s\.$/)).toHaveLength(2);
  expect(screen.queryByRole("progressbar")).toBeNull();
  expect(number("Time left")).toBe("none");
});

test("a page that has not seen the deletion run says no time", () => {
  expect(finished(d.progress("Ended", { removed: 1 }), undefined)).toBe("1 object was removed.");
  expect(finished(d.progress("Ended", { removed: 0 }), 1)).toBe("The deletion has ended.");
});

test("a user who may not see all objects is not told that the deletion has ended", async () => {
  openWith(d.progress("Ended", { partial: true, remaining: 0, removed: 12, waiting: [], blocked: 0, gone: true }));
  expect(await screen.findAllByText("12 objects that you may see were removed. Others may remain.")).toHaveLength(2);
  expect(screen.getByText("Nothing that you may see is left.")).toBeTruthy();
  expect(number("Time left")).toBe("not known");
  expect(document.querySelector("main")?.textContent).not.toMatch(/has ended|Nothing is left/);
  expect(finished(d.progress("Ended", { partial: true, removed: 0 }), 1)).toBe("The objects that you may see are removed. Others may remain.");
});

test("what is no deletion leads to the page of the object", async () => {
  openWith(d.progress("NotDeleted"));
  await screen.findByText("deployments.apps/web is not being deleted.");
  expect(screen.getByRole("link", { name: "Its page says what the log has of it." }).getAttribute("href")).toBe(objectPath("default", root));
});

test("an unknown deletion has the names of its URL", async () => {
  const unknown = d.progress("Unknown", { root: { resource: "", name: "", uid: root.uid }, waiting: null });
  openWith(unknown);
  await screen.findByText("This console knows of no deletion of deployments.apps/web.");
});

test("an unknown deletion without names has its uid", async () => {
  openWith(d.progress("Unknown", { root: { resource: "", name: "", uid: root.uid }, waiting: null }), deletionPath("default", { uid: root.uid }));
  await screen.findByText(`This console knows of no deletion of the object with the UID ${root.uid}.`);
  expect(screen.queryByRole("link", { name: /Its page/ })).toBeNull();
});

test("while objects are read, nothing is said to be unknown", async () => {
  openWith(d.progress("Unknown", { loading: true }));
  await screen.findByText("Reading the objects of the realm");
  expect(screen.queryByText(/knows of no deletion/)).toBeNull();
});
