import { afterEach, expect, test, vi } from "vitest";
import { Throttle } from "./throttle.ts";

afterEach(() => void vi.useRealTimers());

test("the first call is immediate, and those that follow are one after each interval", () => {
  vi.useFakeTimers();
  const run = vi.fn();
  const throttle = new Throttle(500, run);
  throttle.ask();
  expect(run).toHaveBeenCalledTimes(1);
  throttle.ask();
  throttle.ask();
  vi.advanceTimersByTime(499);
  expect(run).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(1);
  expect(run).toHaveBeenCalledTimes(2);
  vi.advanceTimersByTime(5000);
  expect(run).toHaveBeenCalledTimes(2);
  throttle.ask();
  throttle.ask();
  throttle.stop();
  vi.advanceTimersByTime(5000);
  expect(run).toHaveBeenCalledTimes(3);
});
