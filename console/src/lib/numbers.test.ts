import { expect, test } from "vitest";
import { bytes, count, of, rate } from "./numbers.ts";

test("numbers", () => {
  expect(count(1234567)).toBe("1,234,567");
  expect(of(1, "object")).toBe("1 object");
  expect(of(0, "object")).toBe("0 objects");
  expect([0, 999, 1000, 1024, 10_240, 1_048_576, 948_211_004, 107_374_182_400].map(bytes)).toEqual(["0 B", "999 B", "0.98 KiB", "1.00 KiB", "10.0 KiB", "1.00 MiB", "904 MiB", "100 GiB"]);
  expect([0, 0.25, 4.2, 212.4].map(rate)).toEqual(["0/s", "0.3/s", "4.2/s", "212/s"]);
});
