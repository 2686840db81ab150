import { expect, test, vi } from "vitest";
import { Single } from "./single.ts";

test("one task runs at a time, and none twice because it was asked for while it ran", async () => {
  const single = new Single();
  const ran: string[] = [];
  const ends = new Map<string, () => void>();
  const task = (what: string) =>
    single.run(what, () => {
      ran.push(what);
      return new Promise((end) => ends.set(what, end));
    });
  task("newest");
  task("newest");
  task("older");
  task("older");
  expect(ran).toEqual(["newest"]);
  ends.get("newest")?.();
  await vi.waitFor(() => expect(ran).toEqual(["newest", "older"]));
  ends.get("older")?.();
  await Promise.resolve();
  await vi.waitFor(() => {
    task("newest");
    expect(ran).toEqual(["newest", "older", "newest"]);
  });
});
