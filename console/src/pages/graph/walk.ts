import type { Picture } from "./picture.ts";

/** before orders nodes as they are read: by rows, and in a row from left to right. */
function before(picture: Picture, a: number, b: number): boolean {
  const dy = (picture.y[a] ?? 0) - (picture.y[b] ?? 0);
  const dx = (picture.x[a] ?? 0) - (picture.x[b] ?? 0);
  return dy < 0 || (dy === 0 && (dx < 0 || (dx === 0 && a < b)));
}

/** first returns the first of the nodes that match; -1 if none does. */
function first(picture: Picture, matches: (slot: number) => boolean): number {
  let found = -1;
  for (let slot = 0; slot < picture.slots; slot++) {
    if (picture.number[slot] !== 0 && matches(slot) && (found < 0 || before(picture, slot, found))) {
      found = slot;
    }
  }
  return found;
}

/** last returns the last of the nodes that match; -1 if none does. */
function last(picture: Picture, matches: (slot: number) => boolean): number {
  let found = -1;
  for (let slot = 0; slot < picture.slots; slot++) {
    if (picture.number[slot] !== 0 && matches(slot) && (found < 0 || before(picture, found, slot))) {
      found = slot;
    }
  }
  return found;
}

export type Step = "up" | "down" | "left" | "right" | "home" | "end";

/** step returns the node that a key leads to from another one; the same one if there is none. Without one it is the first. */
export function step(picture: Picture, from: number, to: Step): number {
  const above = picture.above[from] ?? -1;
  const sibling = (slot: number) => picture.above[slot] === above;
  const reached = () => {
    if (from < 0) {
      return first(picture, () => true);
    }
    switch (to) {
      case "up":
        return above;
      case "down":
        return first(picture, (slot) => picture.above[slot] === from);
      case "left":
        return last(picture, (slot) => sibling(slot) && before(picture, slot, from));
      case "right":
        return first(picture, (slot) => sibling(slot) && before(picture, from, slot));
      case "home":
        return first(picture, sibling);
      case "end":
        return last(picture, sibling);
    }
  };
  const found = reached();
  return found < 0 ? from : found;
}

/** isBelow returns whether a node is another one, or below it. */
export function isBelow(picture: Picture, slot: number, top: number): boolean {
  for (let at = slot, steps = 0; at >= 0 && steps <= picture.slots; at = picture.above[at] ?? -1, steps++) {
    if (at === top) {
      return true;
    }
  }
  return false;
}
