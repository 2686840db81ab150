import { expect, test } from "vitest";
import { keepOrder } from "./order.ts";

test("rows keep their places, and new ones follow", () => {
  expect(keepOrder([], ["c", "a"], (s) => s)).toEqual(["c", "a"]);
  expect(keepOrder(["a", "b", "c"], ["x", "c", "a", "y"], (s) => s)).toEqual(["a", "c", "x", "y"]);
});
