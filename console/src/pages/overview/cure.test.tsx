import { fireEvent, screen, waitFor, within } from "@testing-library/preact";
import { expect, test } from "vitest";
import { Deletions } from "../../../dev/deletions.ts";
import { Fixtures } from "../../../dev/fixtures.ts";
import { Tab } from "../../../dev/tab.tsx";
import { routeOf } from "../../lib/paths.ts";

const f = new Fixtures(Date.now());

function openWith(rights = new Deletions(0).rights([])): Tab {
  const tab = new Tab();
  const answer = tab.answer;
  const busy = f.busy();
  const paused = { blocker: "Paused", says: "The realm is paused.", objects: 0, examples: [], cure: { says: "End the pause.", command: "coppice realm resume default" } };
  tab.answer = (request) => {
    const what = request.url.pathname.split("/")[4];
    return what === "rights" ? [200, rights] : what === "overview" ? [200, { ...busy, stuck: [...(busy.stuck ?? []), paused] }] : answer(request);
  };
  tab.open("/r/default");
  return tab;
}

test("cures lead to where the console can do them", async () => {
  openWith();
  const stuck = await screen.findByRole("region", { name: "Stuck" });
  expect((await within(stuck).findByRole("link", { name: "Show parked work" })).getAttribute("href")).toBe("/r/default/parked");
  const finalizers = within(stuck).getByRole("link", { name: "Show the finalizers of the first object" });
  expect(finalizers.getAttribute("href")).toMatch(/pr-1180-artifacts\?.*at=finalizers/);
  const [follow] = screen.getAllByRole("link", { name: "Follow this deletion" });
  const url = new URL(follow?.getAttribute("href") ?? "", "http://console");
  expect(routeOf(url.pathname, url.search)).toEqual({ view: "deletion", realm: "default", root: f.busy().deletions?.[0]?.root });
});

test("a realm is resumed after what follows was said", async () => {
  const tab = openWith();
  fireEvent.click(await screen.findByRole("button", { name: "Resume…" }));
  const dialog = await screen.findByRole("dialog", { name: "Resume the realm default?" });
  expect(dialog.textContent).toContain("the collector deletes objects whose owners are gone");
  expect(tab.sent("/api/realms/default/resume")).toEqual([]);
  fireEvent.click(within(dialog).getByRole("button", { name: "Resume" }));
  await screen.findByText("It is done.");
  expect(tab.sent("/api/realms/default/resume").map((r) => r.method)).toEqual(["POST"]);
});

test("what the user may not do is not offered; the command stays", async () => {
  const tab = openWith(new Deletions(0).reader);
  const stuck = await screen.findByRole("region", { name: "Stuck" });
  await waitFor(() => expect(tab.sent("/api/realms/default/rights")).not.toEqual([]));
  await tab.settled();
  expect(within(stuck).queryByRole("button", { name: "Resume…" })).toBeNull();
  expect(screen.queryByRole("link", { name: /parked work/i })).toBeNull();
  expect(stuck.textContent).toContain("coppice realm resume default");
});
