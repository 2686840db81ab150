import type Sigma from "sigma";
import { expect, test } from "vitest";
import { fitted, Lens } from "./lens.ts";
import { scale } from "./view.ts";

/** camera is one of sigma whose animations do not advance. */
function camera() {
  const made = {
    x: 0.5,
    y: 0.5,
    ratio: 1,
    minRatio: 0,
    maxRatio: 100,
    goal: undefined as { x: number; y: number; ratio: number } | undefined,
    ended: (): void => undefined,
    getBoundedRatio: (ratio: number) => Math.min(made.maxRatio, Math.max(made.minRatio, ratio)),
    isAnimated: () => made.goal !== undefined,
    setState: (state: object) => void Object.assign(made, state),
    animate(goal: { x: number; y: number; ratio: number }, _: object, ended: () => void) {
      made.ended();
      made.goal = goal;
      made.ended = ended;
    },
  };
  return made;
}

function lens() {
  const its = camera();
  const sigma = { getCamera: () => its, getDimensions: () => ({ width: 1000, height: 500 }), graphToViewport: ({ x }: { x: number }) => ({ x: 2 * x, y: 0 }) };
  return { its, lens: new Lens(sigma as unknown as Sigma) };
}

test("each of several fast presses zooms", () => {
  const { its, lens: l } = lens();
  l.zoom(1.5);
  its.ratio = 0.9; // some way there
  l.zoom(1.5);
  l.zoom(2);
  expect(its.goal?.ratio).toBeCloseTo(1 / 4.5);
  its.ended(); // a person turns the wheel
  l.zoom(2);
  expect(its.goal?.ratio).toBeCloseTo(0.45);
});

test("a picture that moves takes the camera with it, also while it is going to a place", () => {
  const { its, lens: l } = lens();
  l.shift(10, 20);
  expect([its.x, its.y]).toEqual([0.5 + 10 / scale, 0.5 - 20 / scale]);
  l.move(100, 200, 4);
  l.shift(10, 20);
  expect(its.goal).toEqual({ x: 0.11, y: 1 - 0.2 - 0.02, ratio: 0.5 });
});

test("all of a picture is in the window, with space for labels and for the buttons", () => {
  const { its, lens: l } = lens();
  for (const [w, h] of [[3, 1], [300, 20], [20, 300]] as const) {
    l.fit(w, h);
    const { unit, left, top } = l.view();
    expect(left).toBeGreaterThanOrEqual(23.9);
    expect(left + w * unit).toBeLessThanOrEqual(890.1);
    expect(top).toBeGreaterThanOrEqual(23.9);
    expect(top + h * unit).toBeLessThanOrEqual(464.1);
    expect(its.maxRatio).toBeCloseTo(its.ratio * 2);
  }
  const narrow = fitted(300, 20, { width: 360, height: 400 });
  expect(narrow.left + 300 * narrow.unit).toBeCloseTo(304);
});
