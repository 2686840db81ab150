import { expect, test } from "vitest";
import { encodeFrame, type GraphNode } from "../../../dev/graphframes.ts";
import { decode } from "./frame.ts";
import { Picture } from "./picture.ts";
import { isBelow, step, type Step } from "./walk.ts";

/** A namespace with two families, of which the second is closed, and a node for those that did not fit. Nodes do not arrive in order. */
const nodes: GraphNode[] = [
  { number: 1, x: 5, y: 0, name: "shop", key: "ns:shop", kind: 1, below: 20 },
  { number: 3, above: 1, x: 9, y: 2, name: "closed", key: "c", below: 9, closed: true, hidden: 5, line: true },
  { number: 2, above: 1, x: 2, y: 2, name: "open", key: "o", below: 3, line: true },
  { number: 6, above: 2, x: 0, y: 4, name: "y", key: "y", state: 2 },
  { number: 4, above: 2, x: 3, y: 3, name: "x", key: "x", state: 2 },
  { number: 5, above: 2, x: 0, y: 3, name: "w", key: "w" },
  { number: 7, above: 1, x: 12, y: 2, name: "", key: "rest", kind: 3, below: 4, hidden: 4 },
];

function picture(): Picture {
  const made = new Picture();
  made.apply(decode(encodeFrame(1, { head: { first: true }, nodes })));
  return made;
}

test("arrows follow owners and their dependents in the order of the picture", () => {
  const p = picture();
  const walk = (from: number, ...keys: Step[]) => keys.map((key) => (from = p.number[step(p, p.slot(from), key)] ?? 0));
  expect(walk(0, "down", "down", "down", "right", "right", "right", "left", "left", "up", "up", "up")).toEqual([1, 2, 5, 4, 6, 6, 4, 5, 2, 1, 1]);
  expect(walk(2, "right", "right", "right", "down", "end", "left", "home", "up", "home")).toEqual([3, 7, 7, 7, 7, 3, 2, 1, 1]);
  expect(walk(4, "end", "home")).toEqual([6, 5]);
  expect(walk(0, "end")).toEqual([1]);
  expect(step(new Picture(), -1, "down")).toBe(-1);
});

test("what is below a node", () => {
  const p = picture();
  expect(isBelow(p, p.slot(6), p.slot(1))).toBe(true);
  expect(isBelow(p, p.slot(6), p.slot(3))).toBe(false);
  expect(isBelow(p, -1, p.slot(1))).toBe(false);
});
