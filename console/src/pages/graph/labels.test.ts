import { expect, test } from "vitest";
import { encodeFrame, type GraphNode } from "../../../dev/graphframes.ts";
import { decode } from "./frame.ts";
import { Grid } from "./grid.ts";
import { Labels, textsOf } from "./labels.ts";
import type { Palette } from "./palette.ts";
import { Picture } from "./picture.ts";
import { shortened } from "./text.ts";
import { zoomButtons, type View } from "./view.ts";

const charWidth = 6;
const palette: Palette = { states: [], text: "text", dim: "dim", ground: "ground", accent: "accent", line: "line", font: "font" };

interface Written {
  text: string;
  left: number;
  right: number;
  y: number;
}

function pictureOf(nodes: Partial<GraphNode>[]): Picture {
  const picture = new Picture();
  const all = nodes.map((node, i) => ({ number: i + 1, x: 0, y: 0, name: "", key: `k${i}`, ...node }));
  picture.apply(decode(encodeFrame(1, { head: { first: true, places: [{ resource: "pods", namespace: "shop" }] }, nodes: all })));
  return picture;
}

/** written returns the labels that are drawn. Each character is as wide as another. */
function written(picture: Picture, view: Partial<View>, selected = -1): Written[] {
  const list: Written[] = [];
  const nothing = () => undefined;
  const to = {
    font: "",
    measureText: (text: string) => ({ width: text.length * charWidth }),
    strokeText: nothing,
    fillText: (text: string, x: number, y: number) => list.push({ text, left: x, right: x + text.length * charWidth, y }),
    beginPath: nothing,
    roundRect: nothing,
    arc: nothing,
    fill: nothing,
    stroke: nothing,
  };
  const grid = new Grid();
  grid.build(picture);
  const labels = new Labels(picture, grid);
  labels.build();
  labels.draw(to as unknown as CanvasRenderingContext2D, { unit: 20, left: 0, top: 0, width: 1000, height: 600, ...view }, palette, selected, -1);
  return list;
}

const texts = (list: Written[]) => list.map(({ text }) => text);

test("a long name loses its middle, and keeps at least seven letters", () => {
  const short = (text: string, most: number) => shortened(text, (each) => each.length <= most);
  expect(short("web-7d4b9-x2k9f", 15)).toBe("web-7d4b9-x2k9f");
  expect(short("web-7d4b9-x2k9f", 10)).toBe("web…-x2k9f");
  expect(short("web-7d4b9-x2k9f", 9)).toBe("web…x2k9f");
  expect(short("web-7d4b9", 8)).toBe("we…7d4b9");
  expect(short("web-7d4b9-x2k9f", 7)).toBe("");
  expect(short("abcdefgh", 7)).toBe("");
});

test("a label ends before the next node, and before the next label", () => {
  const picture = pictureOf([
    { x: 1, y: 1, name: "a-name-that-is-too-long" },
    { x: 7, y: 1, name: "b" },
    { x: 1, y: 4, name: "short" },
    { x: 4, y: 4, name: "another" },
  ]);
  const labels = written(picture, {});
  expect(texts(labels)).toContain("short");
  expect(texts(labels)).toContain("another");
  const first = labels.find(({ text }) => text.includes("…"));
  expect(first?.right).toBeLessThan(7 * 20 - 6);
});

test("a group says its name, its count and what it hides, of which the count is left out first", () => {
  const group = (more: Partial<GraphNode>): Partial<GraphNode> => ({ kind: 1, key: "ns:shop", below: 1200, ...more });
  const picture = pictureOf([group({}), group({ closed: true, hidden: 5 }), group({ closed: true, hidden: 2 }), group({ key: "ns:" }), group({ kind: 2, key: "kind:deployments.apps:shop" })]);
  const of = (number: number) => textsOf(picture, picture.slot(number));
  expect(of(1)).toEqual({ texts: ["shop · 1,200", "shop"], shorten: true });
  expect(of(2)).toEqual({ texts: ["shop · 1,200, blocked", "shop, blocked", "shop"], shorten: false });
  expect(of(3)).toEqual({ texts: ["shop · 1,200, terminating", "shop, terminating", "shop"], shorten: true });
  expect(of(4).texts).toEqual(["in no namespace · 1,200", "in no namespace"]);
  expect(of(5).texts).toEqual(["deployments.apps · 1,200", "deployments.apps"]);
});

test("groups have labels however small they are, and owners on top before deeper ones", () => {
  const nodes: Partial<GraphNode>[] = [
    { x: 0, y: 0, kind: 1, key: "ns:shop", below: 9 },
    { x: 60, y: 0, kind: 1, key: "ns:search", below: 9 },
    { x: 3, y: 2, above: 1, name: "web", below: 3 },
    { x: 3, y: 3.5, above: 3, name: "web-7d4b9", below: 200 },
  ];
  expect(texts(written(pictureOf(nodes), { unit: 1.5, top: 30 }))).toEqual(["shop · 9", "search · 9"]);
  expect(texts(written(pictureOf(nodes), { unit: 4, top: 30 })).slice(0, 3)).toEqual(["shop · 9", "search · 9", "web"]);
});

test("what is outside of the window has no label, and nothing is written under the buttons", () => {
  const picture = pictureOf([
    { x: -0.2, y: 5, name: "outside" },
    { x: 47, y: 1, name: "under-the-buttons" },
    { x: 40, y: 1, name: "before-the-buttons" },
    { x: 47, y: 2, name: "selected" },
  ]);
  for (const selected of [-1, picture.slot(1), picture.slot(4)]) {
    const labels = written(picture, {}, selected);
    expect(texts(labels)).not.toContain("outside");
    for (const { text, right, y } of labels.filter(({ y }) => y < zoomButtons.height)) {
      expect(right, `${text} at ${y}`).toBeLessThanOrEqual(1000 - zoomButtons.width + 0.1);
    }
  }
});
