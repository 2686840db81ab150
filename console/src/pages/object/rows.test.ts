import { expect, test } from "vitest";
import { Fixtures } from "../../../dev/fixtures.ts";
import type { Family } from "../../api/types.ts";
import { moveOf } from "../../lib/tree.ts";
import { type Branch, type Row, rowsOf } from "./rows.ts";

const f = new Fixtures(0);
const web = f.web.uid ?? "";
const set = "7d400000-0000-4000-8000-000000000000";
const branch = (family: Family): Branch => ({ family, dependents: family.dependents ?? [] });
const branches = new Map([
  [web, branch(f.family(web))],
  [set, branch(f.family(set))],
]);
const both = ["owners", "dependents"];
const show = (rows: Row[]): string[] => rows.map((r) => `${"  ".repeat(r.level - 1)}${r.label === "" ? r.shows.is : r.label}${r.expanded === undefined ? "" : r.expanded ? " -" : " +"} ${r.position}/${r.size}`);

test("owners and dependents are rows", () => {
  expect(show(rowsOf(web, branches, new Set()))).toEqual(["owners + 1/2", "dependents + 2/2"]);
  expect(show(rowsOf(web, branches, new Set(both)))).toEqual(["owners - 1/2", "  assets 1/1", "dependents - 2/2", "  web-7d4 + 1/2", "  web 2/2"]);
  const rows = rowsOf(web, branches, new Set([...both, `dependents:${set}`]));
  expect(rows).toHaveLength(5 + 200 + 1);
  expect(show(rows).slice(3, 6)).toEqual(["  web-7d4 - 1/2", "    web-7d4-x 1/201", "    web-7d4-001 2/201"]);
  expect(show(rows).at(-2)).toBe("    more 201/201");
  expect(rows.at(-2)?.shows).toEqual({ is: "more", uid: set, rest: 161 });
});

test("rows that are being read, and that could not be read, say so", () => {
  const unread = rowsOf(web, new Map([[web, branches.get(web) ?? { dependents: [] }]]), new Set([...both, `dependents:${set}`]));
  expect(show(unread)[4]).toBe("    Reading… 1/1");
  const failed = rowsOf(web, new Map([...branches, [set, { dependents: [], failure: { reason: "X", message: "no reply" } }]]), new Set([...both, `dependents:${set}`]));
  expect(show(failed)[4]).toBe("    Could not be read: no reply 1/1");
});

test("a cycle of owners ends", () => {
  const a = f.relative({ resource: "pods", name: "a", uid: "a" }, "Blocked", 1, 1);
  const b = f.relative({ resource: "pods", name: "b", uid: "b" }, "Blocked", 1, 1);
  const cycle = new Map([
    ["a", branch({ revision: 1, self: a, owners: [b], dependents: [b], from: 0, total: 1 })],
    ["b", branch({ revision: 1, self: b, owners: [a], dependents: [a], from: 0, total: 1 })],
  ]);
  const rows = rowsOf("a", cycle, new Set([...both, "dependents:a", "dependents:b", "owners:a", "owners:b"]));
  expect(show(rows)).toEqual(["owners - 1/2", "  b - 1/1", "    a 1/1", "dependents - 2/2", "  b - 1/1", "    a 1/1"]);
  expect(rows[2]?.shows).toMatchObject({ again: true });
});

test("keys", () => {
  const rows = rowsOf(web, branches, new Set(both));
  const [owners, assets, dependents, replicas, config] = rows.map((r) => r.key);
  const move = (at: string | undefined, key: string, typed = "") => {
    const to = moveOf(rows, at ?? "", key, typed);
    return to === undefined ? undefined : "focus" in to ? to.focus : "toggle" in to ? `toggle ${to.toggle.key}` : `enter ${to.enter.key}`;
  };
  expect(move(owners, "ArrowDown")).toBe(assets);
  expect(move(config, "ArrowDown")).toBeUndefined();
  expect(move(owners, "ArrowUp")).toBeUndefined();
  expect(move(dependents, "ArrowUp")).toBe(assets);
  expect(move(config, "Home")).toBe(owners);
  expect(move(owners, "End")).toBe(config);
  expect(move(dependents, "ArrowRight")).toBe(replicas);
  expect(move(replicas, "ArrowRight")).toBe(`toggle ${replicas ?? ""}`);
  expect(move(config, "ArrowRight")).toBeUndefined();
  expect(move(replicas, "ArrowLeft")).toBe(dependents);
  expect(move(dependents, "ArrowLeft")).toBe(`toggle ${dependents ?? ""}`);
  expect(move(assets, "Enter")).toBe(`enter ${assets ?? ""}`);
  expect(move(assets, " ")).toBe(`enter ${assets ?? ""}`);
  expect(move(owners, "w", "w")).toBe(replicas);
  expect(move(replicas, "w", "w")).toBe(config);
  expect(move(config, "w", "w")).toBe(replicas);
  expect(move(replicas, "e", "We")).toBe(replicas);
  expect(move(owners, "x", "x")).toBeUndefined();
  expect(move(owners, "F5")).toBeUndefined();
  expect(move("none", "ArrowDown")).toBeUndefined();
});
