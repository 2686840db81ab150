import { expect, test } from "vitest";
import { Forest, uidOf } from "../../../dev/forest.ts";
import { encodeFrame, type GraphContents } from "../../../dev/graphframes.ts";
import { decode } from "./frame.ts";
import { Picture } from "./picture.ts";

const apply = (picture: Picture, contents: GraphContents) => picture.apply(decode(encodeFrame(1, contents)));

/** shown lists the nodes of a picture, by their numbers. */
function shown(picture: Picture): string[] {
  const lines: string[] = [];
  for (let slot = 0; slot < picture.slots; slot++) {
    if (picture.shown(slot)) {
      const above = picture.above[slot] ?? -1;
      lines.push(`${picture.number[slot] ?? 0} ${picture.nameOf(slot)} ${picture.keyOf(slot)} above ${above < 0 ? 0 : (picture.number[above] ?? 0)} at ${picture.x[slot] ?? 0} ${picture.y[slot] ?? 0} state ${picture.lookOf(slot).state}`);
    }
  }
  return lines.sort((a, b) => parseInt(a) - parseInt(b));
}

test("frames change a picture, and slots are used again", () => {
  const picture = new Picture();
  apply(picture, {
    head: { first: true, places: [{ resource: "" }, { resource: "pods", namespace: "shop" }] },
    nodes: [
      { number: 1, x: 0, y: 0, name: "shop", key: "ns:shop", kind: 1, below: 2 },
      { number: 2, above: 1, x: 0, y: 1, name: "a", key: uidOf(2), place: 1 },
      { number: 3, above: 1, x: 3, y: 1, name: "b", key: uidOf(3), place: 1 },
    ],
    othersAdded: [[2, 3]],
  });
  expect(picture.slots).toBe(3);
  const b = picture.slot(3);
  expect(picture.placeOf(b)).toEqual({ resource: "pods", namespace: "shop" });
  expect(picture.find(uidOf(3))).toBe(b);
  expect(picture.find("ns:shop")).toBe(picture.slot(1));
  expect(picture.find("ns:none")).toBe(-1);
  expect(picture.findAll([uidOf(3), uidOf(13), "ns:shop", "ns:none"])).toEqual(new Map([[uidOf(3), b], ["ns:shop", picture.slot(1)]]));
  expect(picture.isOpen(picture.slot(1))).toBe(true);

  const { slots } = apply(picture, {
    removed: [2],
    nodes: [
      { number: 4, above: 1, x: 0, y: 1, name: "c", key: uidOf(4), place: 1 },
      { number: 3, above: 1, x: 6, y: 1, state: 5, place: 1 },
    ],
    othersRemoved: [[2, 3]],
  });
  expect(picture.slots).toBe(3);
  expect(slots.size).toBe(2);
  expect(picture.others.size).toBe(0);
  expect(picture.find(uidOf(2))).toBe(-1);
  expect(shown(picture)).toEqual([`1 shop ns:shop above 0 at 0 0 state 0`, `3 b ${uidOf(3)} above 1 at 6 1 state 5`, `4 c ${uidOf(4)} above 1 at 0 1 state 0`]);

  expect(apply(picture, { head: { first: true }, nodes: [{ number: 1, x: 0, y: 0, name: "x", key: uidOf(9) }] }).first).toBe(true);
  expect(shown(picture)).toEqual([`1 x ${uidOf(9)} above 0 at 0 0 state 0`]);
  expect(picture.places).toEqual([]);
  expect(() => apply(picture, { nodes: [{ number: 8, x: 0, y: 0 }] })).toThrow(/node 8/);
});

test("a picture that follows changes is that of a page that is opened now", () => {
  const forest = new Forest(2000);
  const followed = new Picture();
  followed.apply(decode(forest.frame(1, {}, true)));
  const asks = [{ shut: ["ns:shop"] }, { shut: [uidOf(900)] }, {}, { shut: ["ns:checkout"], show: [uidOf(1600)] }, {}];
  for (const ask of asks) {
    forest.tick(100);
    followed.apply(decode(forest.frame(1, ask, false)));
    const fresh = new Picture();
    fresh.apply(decode(forest.frame(1, ask, true)));
    expect(shown(followed)).toEqual(shown(fresh));
    expect(shown(followed)).toHaveLength(followed.head?.shown ?? 0);
  }
});
