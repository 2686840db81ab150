import { expect, test } from "vitest";
import { encodeFrame } from "../../../dev/graphframes.ts";
import { uidOf } from "../../../dev/forest.ts";
import { decode } from "./frame.ts";

const message = () =>
  encodeFrame(7, {
    head: { first: true, revision: 9, places: [{ resource: "pods", namespace: "größe" }] },
    removed: [4],
    nodes: [
      { number: 5, x: 1.5, y: 2, state: 5, name: "a", key: "ns:größe", kind: 1 },
      { number: 6, above: 5, x: 3, y: 4, below: 70_000, closed: true, hidden: 4, line: true, place: 1, name: "<b>ü</b>", key: uidOf(6) },
      { number: 2, above: 5, x: 5, y: 6 },
    ],
    othersRemoved: [[1, 2]],
    othersAdded: [[5, 6], [2, 6]],
  });

test("a message has its columns", () => {
  const frame = decode(message());
  expect(frame.head).toMatchObject({ first: true, revision: 9, removed: 1, nodes: 3, named: 2, othersAdded: 2 });
  expect([...frame.removed]).toEqual([4]);
  expect([...frame.numbers]).toEqual([5, 6, 2]);
  expect([...frame.above]).toEqual([0, 5, 5]);
  expect([...frame.x]).toEqual([1.5, 3, 5]);
  expect([...frame.y]).toEqual([2, 4, 6]);
  expect([...frame.below]).toEqual([0, 70_000, 0]);
  expect([...frame.looks]).toEqual([5 | (1 << 8), (4 << 4) | (1 << 10) | (1 << 11), 0]);
  expect([...frame.places]).toEqual([0, 1, 0]);
  expect([...frame.nameLengths]).toEqual([1, 9]);
  expect([...frame.keyLengths]).toEqual([10, 17]);
  expect(new TextDecoder().decode(frame.names)).toBe("a<b>ü</b>");
  expect(frame.keys[10]).toBe(1);
  expect([...frame.othersRemoved]).toEqual([1, 2]);
  expect([...frame.othersAdded]).toEqual([5, 6, 2, 6]);
});

test("a message that was cut is refused, wherever it was cut", () => {
  const whole = message();
  for (let length = 0; length < whole.byteLength; length += 4) {
    expect(() => decode(whole.slice(0, length)), String(length)).toThrow(/message/);
  }
});
