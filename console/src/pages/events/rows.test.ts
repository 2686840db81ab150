import { expect, test } from "vitest";
import type { EventRow, Events } from "../../api/types.ts";
import { arrive, begin, days, followed, fresh, mostRows, older, show, stale } from "./rows.ts";

const at = (second: number) => new Date(Date.UTC(2026, 10, 30, 10, 0, second)).toISOString();

/** row returns a row of a command at a second, with events up to another one. */
function row(root: number, began: number, { latest = began, begins = true, counts = { ObjectDeleted: 1 }, ...more }: Partial<Omit<EventRow, "counts" | "latest">> & { latest?: number; counts?: Record<string, number> } = {}): EventRow {
  return {
    root, begins, first: latest, last: latest, time: at(began), latest: at(latest), actor: "ana", verb: "delete", type: "DeletionMarked",
    object: { resource: "pods", name: `p${root}` }, objects: 1, counts: Object.entries(counts).map(([type, count]) => ({ type, count })), ...more,
  };
}

const page = (rows: EventRow[], last: number, before?: number): Events => ({ rows, last, missing: [], ...(before === undefined ? {} : { before }) });
const roots = (log: { rows: EventRow[] }) => log.rows.map((r) => r.root);
const counts = (of: EventRow | undefined) => Object.fromEntries((of?.counts ?? []).map((c) => [c.type, c.count]));

test("rows of the same command are added up, in whatever replies they come", () => {
  let log = begin(page([row(9, 9), row(2, 2, { latest: 8, begins: false, counts: { ObjectDeleted: 5 } })], 9, 7), 0);
  expect(roots(log)).toEqual([9, 2]);
  log = older(log, page([row(5, 5), row(2, 2, { latest: 6, counts: { ObjectDeleted: 3, DeletionMarked: 1 } })], 9));
  expect(roots(log), "a known row stays where it is").toEqual([9, 2, 5]);
  expect(log.rows[1]).toMatchObject({ begins: true, first: 6, last: 8, latest: at(8), at: at(8) });
  expect(counts(log.rows[1])).toEqual({ ObjectDeleted: 8, DeletionMarked: 1 });
  expect(log.before).toBeUndefined();

  log = arrive(log, page([row(11, 11), row(2, 2, { latest: 12, begins: false, counts: { ObjectDeleted: 2 } })], 12));
  log = arrive(log, page([row(13, 13), row(11, 11, { latest: 14, begins: false, counts: { ObjectDeleted: 4 } })], 14));
  expect(roots(log), "new rows wait").toEqual([9, 2, 5]);
  expect(fresh(log)).toBe(2);
  log = show(log);
  expect(roots(log)).toEqual([13, 11, 9, 2, 5]);
  expect(counts(log.rows[3])).toEqual({ ObjectDeleted: 10, DeletionMarked: 1 });
  expect(counts(log.rows[1])).toEqual({ ObjectDeleted: 5 });
  expect(log).toMatchObject({ waiting: [], last: 14 });
  expect(show(log)).toBe(log);
});

test("a row learns its command from an older part", () => {
  const unknown = row(2, 8, { begins: false, says: "The command is too far back." });
  delete unknown.actor;
  delete unknown.type;
  const log = older(begin(page([unknown], 8, 7), 0), page([row(2, 2)], 8));
  expect(log.rows).toHaveLength(1);
  expect(log.rows[0]).toMatchObject({ actor: "ana", type: "DeletionMarked", time: at(2), begins: true });
  expect(log.rows[0]?.says).toBeUndefined();
});

test("marked rows are never added up, and parts of a loss are joined", () => {
  const mark = (mark: string, first: number, last: number) => row(0, last, { mark, first, last, begins: false });
  const log = older(begin(page([mark("Skipped", 9, 9), mark("Skipped", 8, 8), mark("Lost", 5, 6)], 9, 5), 0), page([mark("Lost", 1, 4)], 9));
  expect(log.rows.map((r) => [r.mark, r.first, r.last])).toEqual([["Skipped", 9, 9], ["Skipped", 8, 8], ["Lost", 1, 6]]);
});

test("what followed leaves out what the command names itself", () => {
  const own = { counts: [{ type: "DeletionMarked", count: 3, own: 2 }, { type: "ObjectDeleted", count: 4 }] };
  const rest = [{ type: "DeletionMarked", count: 1 }, { type: "ObjectDeleted", count: 4 }];
  const is = { ...row(1, 1, { objects: 2 }), ...own };
  expect(followed(is)).toEqual(rest);
  expect(followed({ ...is, counts: [{ type: "DeletionMarked", count: 2, own: 2 }] })).toEqual([]);
  expect(followed({ ...is, counts: [{ type: "DeletionMarked", count: 1 }] }), "a filter left the command out").toEqual([{ type: "DeletionMarked", count: 1 }]);
  const { rows } = older(begin(page([row(1, 8, { begins: false, counts: { DeletionMarked: 5 } })], 8, 7), 0), page([is], 8));
  expect(followed(rows[0] ?? is), "of two replies").toEqual([{ type: "DeletionMarked", count: 6 }, { type: "ObjectDeleted", count: 4 }]);
});

test("the first row of a day has the day", () => {
  const { rows } = begin(page([row(3, 30), row(2, 20), row(1, -86_400)], 30), 0);
  const has = days(rows);
  expect(has[0]).toMatch(/^2026-11-/);
  expect(has[1]).toBeUndefined();
  expect(has[2]).not.toBe(has[0]);
  expect(has[2]).toMatch(/^2026-11-/);
});

test("a page that has as many rows as it keeps drops none, and counts the new ones", () => {
  const known = Array.from({ length: mostRows - 1 }, (_, i) => row(mostRows - i, 1));
  let log = begin(page(known, 5000), 0);
  log = show(arrive(log, page([row(6000, 2)], 6000)));
  expect([log.rows.length, fresh(log), stale(log)]).toEqual([mostRows, 0, false]);
  log = show(arrive(log, page([row(6001, 3), row(6000, 2, { begins: false, counts: { ObjectDeleted: 4 } })], 6001)));
  log = show(arrive(log, page([row(6002, 4), row(6001, 3, { begins: false })], 6002)));
  expect([log.rows.length, fresh(log), stale(log), log.last]).toEqual([mostRows, 2, true, 6002]);
  expect(counts(log.rows[0]), "rows that the page has are still added up").toEqual({ ObjectDeleted: 5 });
  expect(log.rows.at(-1)?.root).toBe(2);
});
