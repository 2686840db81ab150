import { expect, test } from "vitest";
import type { History, LogEvent } from "../../api/types.ts";
import { newest, older } from "./events.ts";

const event = (revision: number): LogEvent => ({ resource: "pods", name: "a", revision, time: "2026-01-01T00:00:00Z", type: "ObjectUpdated", because: null });
const page = (revisions: number[], complete: boolean, before?: number): History => ({ events: revisions.map(event), complete, skipped: null, missing: null, ...(before === undefined ? {} : { before }) });
const revisions = (of: { events: LogEvent[] }) => of.events.map((e) => e.revision);

test("older events follow, and newer ones precede those that were read", () => {
  const first = newest(undefined, page([9, 8], false, 80));
  const all = older(first, page([5, 4], true));
  expect(revisions(all)).toEqual([9, 8, 5, 4]);
  expect(all.complete).toBe(true);
  const after = newest(all, page([11, 9], false, 90));
  expect(revisions(after)).toEqual([11, 9, 8, 5, 4]);
  expect(after).toMatchObject({ complete: true, before: undefined });
});

test("a gap is never shown", () => {
  const after = newest({ events: [event(3)], complete: true, before: undefined }, page([11, 9], false, 90));
  expect(revisions(after)).toEqual([11, 9]);
  expect(after).toMatchObject({ complete: false, before: 90 });
});
