import { expect, test } from "vitest";
import { encodeFrame, type GraphNode } from "../../../dev/graphframes.ts";
import { decode } from "./frame.ts";
import { Picture } from "./picture.ts";
import { labelOf, spoken, statusWords } from "./words.ts";

test("labels and words of all sorts of nodes", () => {
  const node = (more: Partial<GraphNode>): GraphNode => ({ number: 0, x: 0, y: 0, name: "web", key: "web", place: 1, ...more });
  const cases: [GraphNode, string, string][] = [
    [node({}), "web", "web, pods in shop, Present, no objects below"],
    [node({ place: 2, state: 5 }), "web", "web, namespaces, Blocked, no objects below"],
    [node({ below: 1 }), "web", "web, pods in shop, Present, 1 object below"],
    [node({ below: 1200, closed: true }), "web · 1,200 below", "web, pods in shop, Present, 1,200 objects below, closed"],
    [node({ below: 12, closed: true, state: 2, hidden: 5 }), "web · 12 below, blocked", "web, pods in shop, Terminating, 12 objects below, closed; at least one is blocked"],
    [node({ kind: 1, key: "ns:shop", below: 1234 }), "namespace shop · 1,234", "namespace shop, 1,234 objects below"],
    [node({ kind: 1, key: "ns:", below: 3, closed: true, hidden: 3 }), "without a namespace · 3, unknown owner", "without a namespace, 3 objects below, closed; at least one is unknown owner"],
    [node({ kind: 2, key: "kind:deployments.apps:shop", below: 900 }), "deployments.apps in shop · 900", "deployments.apps in shop, 900 objects below"],
    [node({ kind: 2, key: "kind:namespaces:", below: 600 }), "namespaces · 600", "namespaces, 600 objects below"],
    [node({ kind: 3, key: "x", below: 12_000, hidden: 4 }), "and 12,000 more, garbage", "and 12,000 more, not shown; at least one is garbage"],
    [node({ name: "a\u202Egnp" }), "a\\u{202e}gnp", "a\\u{202e}gnp, pods in shop, Present, no objects below"],
  ];
  const picture = new Picture();
  picture.apply(decode(encodeFrame(1, { head: { first: true, places: [{ resource: "" }, { resource: "pods", namespace: "shop" }, { resource: "namespaces" }] }, nodes: cases.map(([n], i) => ({ ...n, number: i + 1 })) })));
  cases.forEach(([, label, words], i) => {
    expect(labelOf(picture, picture.slot(i + 1))).toBe(label);
    expect(spoken(picture, picture.slot(i + 1))).toBe(words);
  });
});

test("objects and groups are counted", () => {
  const picture = new Picture();
  const node = (number: number, kind: number): GraphNode => ({ number, x: 0, y: 0, name: "web", key: `key-${number}`, kind });
  const words = (objects: number, loading = false) => statusWords(picture, { ...decode(encodeFrame(1, { head: { objects, loading }, nodes: [] })).head });
  picture.apply(decode(encodeFrame(1, { head: { first: true }, nodes: [node(1, 0), node(2, 0)] })));
  expect(words(2)).toBe("2 objects");
  expect(words(1200)).toBe("1,200 objects, 2 of them shown");
  picture.apply(decode(encodeFrame(1, { head: {}, nodes: [node(3, 1), node(4, 2), node(5, 3)], removed: [2] })));
  expect(words(40)).toBe("40 objects, 1 of them shown, 2 groups");
  expect(words(1, true)).toBe("1 object so far, 2 groups; the objects are still being read");
});
