import { expect, test } from "vitest";
import { absolute, duration, relative } from "./time.ts";

const at = Date.parse("2026-03-04T12:00:00Z");
const before = (seconds: number): string => new Date(at - seconds * 1000).toISOString();

test("relative times", () => {
  const cases: [number, string][] = [
    [0, "now"],
    [1.9, "now"],
    [-1.9, "now"],
    [2, "2 s ago"],
    [59.9, "59 s ago"],
    [60, "1 min ago"],
    [3599, "59 min ago"],
    [3600, "1 h ago"],
    [7800, "2 h 10 min ago"],
    [86_399, "23 h 59 min ago"],
    [86_400, "1 d ago"],
    [90_000, "1 d 1 h ago"],
    [864_000 * 40, "400 d ago"],
    [-42, "in 42 s"],
    [-3600, "in 1 h"],
  ];
  for (const [seconds, text] of cases) {
    expect(relative(before(seconds), at)).toBe(text);
  }
});

test("durations and absolute times", () => {
  expect(duration(0)).toBe("0 s");
  expect(absolute("2026-03-04T12:00:00Z")).toMatch(/^2026-03-0[345] \d\d:\d\d:00 UTC([+−]\d\d:\d\d)?$/);
});
