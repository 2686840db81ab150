import { expect, test } from "vitest";
import { encodeFrame } from "../../../dev/graphframes.ts";
import { boxesOf } from "./boxes.ts";
import { decode } from "./frame.ts";
import { Picture } from "./picture.ts";

test("each open namespace has a box with all nodes below it, at any depth", () => {
  const picture = new Picture();
  picture.apply(
    decode(
      encodeFrame(1, {
        head: { first: true },
        nodes: [
          { number: 1, x: 1, y: 0, key: "ns:shop", kind: 1, below: 3 },
          { number: 2, above: 1, x: 4, y: 2, key: "a", below: 1 },
          { number: 3, above: 2, x: 10, y: 5, key: "b" },
          { number: 4, x: 30, y: 0, key: "ns:closed", kind: 1, below: 3, closed: true },
          { number: 5, x: 40, y: 0, key: "ns:", kind: 1, below: 1 },
          { number: 6, above: 5, x: 40, y: 2, key: "c" },
          { number: 7, x: 50, y: 9, key: "d" },
        ],
      }),
    ),
  );
  expect(boxesOf(picture)).toEqual([0, -1, 13, 6, 39, -1, 43, 3]);
  expect(boxesOf(new Picture())).toEqual([]);
});
