import { kinds } from "./look.ts";
import type { Picture } from "./picture.ts";

/** How far a box reaches beyond the nodes in it, in units: on the right, labels belong to it. */
const margin = 1;
const right = 3;

/** boxesOf returns a box for each open namespace, with all nodes below it: left, top, right and bottom of one after the other. */
export function boxesOf(picture: Picture): number[] {
  const { above, number, slots, x, y } = picture;
  const kindOf = (slot: number) => ((picture.look[slot] ?? 0) >> 8) & 3;
  const boxes: number[] = [];
  const boxAt = new Int32Array(slots).fill(-1); // by slot, where the box of its namespace begins
  for (let slot = 0; slot < slots; slot++) {
    if (number[slot] !== 0 && kindOf(slot) === kinds.namespace && picture.isOpen(slot)) {
      boxAt[slot] = boxes.length;
      const [px, py] = [x[slot] ?? 0, y[slot] ?? 0];
      boxes.push(px - margin, py - margin, px + right, py + margin);
    }
  }
  if (boxes.length === 0) {
    return boxes;
  }
  const grown = Float64Array.from(boxes);
  const none = -2;
  const path: number[] = [];
  for (let slot = 0; slot < slots; slot++) {
    if (number[slot] === 0) {
      continue;
    }
    let at = slot;
    while (at >= 0 && boxAt[at] === -1) {
      path.push(at);
      at = above[at] ?? -1;
    }
    const box = at < 0 ? none : (boxAt[at] ?? none);
    for (let next = path.pop(); next !== undefined; next = path.pop()) {
      boxAt[next] = box;
    }
    if (box >= 0) {
      grown[box + 2] = Math.max(grown[box + 2] ?? 0, (x[slot] ?? 0) + right);
      grown[box + 3] = Math.max(grown[box + 3] ?? 0, (y[slot] ?? 0) + margin);
    }
  }
  return Array.from(grown);
}
