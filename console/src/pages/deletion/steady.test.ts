import { expect, test } from "vitest";
import { precise } from "../../lib/time.ts";
import { Pace } from "./steady.ts";

test("the time left is known while the rate is steady", () => {
  const pace = new Pace();
  for (let at = 0; at < 10_000; at += 500) {
    pace.add(at, 100 + (at % 1000) / 100);
    expect(pace.left(1000), "for too short a time").toBeUndefined();
  }
  pace.add(10_000, 100);
  expect(pace.left(1000)).toBe(10_000);
  pace.add(10_500, 30);
  expect(pace.left(1000), "it has changed").toBeUndefined();
  for (let at = 11_000; at <= 21_000; at += 500) {
    pace.add(at, 30);
  }
  expect(pace.left(60)).toBe(2000);
});

test("a deletion that stands still has no estimate", () => {
  const pace = new Pace();
  for (let at = 0; at <= 20_000; at += 500) {
    pace.add(at, 0);
  }
  expect(pace.left(10)).toBeUndefined();
});

test("seconds are said below an hour", () => {
  expect([72_000, 60_000, 900, 3_600_000, 3_720_000].map(precise)).toEqual(["1 min 12 s", "1 min", "0 s", "1 h", "1 h 2 min"]);
});
