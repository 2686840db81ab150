import { expect, test, vi } from "vitest";
import { Deletions } from "../../../dev/deletions.ts";
import { Failed } from "../../api/client.ts";
import { Branches } from "./branches.ts";
import { type Row, idOf, openIn, partsOf, rowsOf } from "./rows.ts";

const d = new Deletions(0);
const plan = d.plan("Background");
const root = plan.root.uid ?? "";
const show = (rows: Row[]) => rows.map((r) => `${"  ".repeat(r.level - 1)}${r.label === "" ? r.shows.is : r.label}${r.expanded === undefined ? "" : r.expanded ? " -" : " +"} ${r.position}/${r.size}`);

function make(read = (uid: string, resource: string | undefined, from: number) => Promise.resolve(d.below(uid, resource ?? null, from))) {
  const forgotten = vi.fn();
  return { branches: new Branches(plan, read, forgotten), forgotten };
}

test("the root, what is below it, and groups that are read page by page", async () => {
  const { branches } = make();
  const group = `${d.set}~pods`;
  expect(show(rowsOf(plan.root, branches.known.value, new Set()))).toEqual(["web + 1/1"]);
  expect(show(rowsOf(plan.root, branches.known.value, new Set([root])))).toEqual(["web - 1/1", "  web-7d4 + 1/2", "  web 2/2"]);
  const open = new Set([root, d.set, group]);
  expect(show(rowsOf(plan.root, branches.known.value, open))[2]).toBe("    Reading… 1/1");
  branches.open(d.set);
  await vi.waitFor(() => expect(branches.known.value.get(d.set)?.total).toBe(2));
  const rows = rowsOf(plan.root, branches.known.value, open);
  expect(show(rows).slice(2, 5)).toEqual(["    web-7d4-x 1/2", "    pods - 2/2", "      Reading… 1/1"]);
  expect(openIn(rows)).toEqual([root, d.set, group]);
  branches.open(group);
  await vi.waitFor(() => expect(branches.known.value.get(group)?.nodes).toHaveLength(200));
  const first = rowsOf(plan.root, branches.known.value, open);
  expect(first.at(-2)?.shows).toEqual({ is: "more", of: group, rest: 160 });
  await branches.more(group);
  const all = show(rowsOf(plan.root, branches.known.value, open));
  expect(all).toHaveLength(5 - 1 + 360 + 1);
  expect(all.at(-2)).toBe("      web-7d4-359 360/360");
  branches.open(group);
  await branches.more(group);
  expect(branches.known.value.get(group)?.nodes, "nothing is read twice").toHaveLength(360);
});

test("what could not be read says so, and a plan that was forgotten is reported", async () => {
  let fails: Failed | undefined = new Failed({ reason: "Timeout", message: "no reply" }, 504);
  const { branches, forgotten } = make((uid, resource, from) => (fails === undefined ? Promise.resolve(d.below(uid, resource ?? null, from)) : Promise.reject(fails)));
  const open = new Set([root, d.set]);
  await branches.more(d.set);
  const rows = rowsOf(plan.root, branches.known.value, open);
  expect(rows[2]?.shows).toEqual({ is: "note", text: "Could not be read: no reply", of: d.set });
  expect(forgotten).not.toHaveBeenCalled();
  fails = new Failed({ reason: "NotFound", message: "the plan is not kept" }, 404);
  await branches.more(d.set);
  expect(forgotten).toHaveBeenCalledOnce();
  fails = undefined;
  await branches.more(d.set);
  expect(show(rowsOf(plan.root, branches.known.value, open))).toHaveLength(5);
});

test("ids lead back to what they were built of, and a cycle ends", () => {
  expect(partsOf(idOf({ ...plan.root, group: 2, resource: "pods" }, "above"))).toEqual({ uid: "above", resource: "pods" });
  expect(partsOf(idOf(plan.root, "above"))).toEqual({ uid: root });
  const self = new Map([[root, { nodes: [plan.root], total: 1 }]]);
  expect(show(rowsOf(plan.root, self, new Set([root])))).toEqual(["web - 1/1", "  web 1/1"]);
});
