import type { GraphFrame, GraphPlace } from "../../api/types.ts";
import { count, of } from "../../lib/numbers.ts";
import { visible } from "../../lib/text.ts";
import { lookOf as stateOf } from "../../ui/state.tsx";
import { kinds, states } from "./look.ts";
import type { Picture } from "./picture.ts";

/** stateWord returns the word for a state by its number. */
export function stateWord(state: number): string {
  return stateOf(states[state] ?? "").word;
}

const meanings = [
  "It exists, and is not being deleted.",
  "It is not being deleted, and deletions of it are refused.",
  "It is being deleted.",
  "None of its owners is known to exist, and one was never seen.",
  "All its owners are gone, and its deletion has not begun.",
  "It is being deleted, and waits for a finalizer, an agent or other objects.",
];

/** meaningOf says what a state means. */
export function meaningOf(state: number): string {
  return meanings[state] ?? "";
}

/** isGroupKey returns whether a key is that of a node that stands for several objects. */
export function isGroupKey(key: string): boolean {
  return /^(ns|kind|rest):/.test(key);
}

/** placeOf returns the resource and the namespace of an object, or those that a group stands for. */
export function placeOf(picture: Picture, slot: number): GraphPlace {
  const { kind } = picture.lookOf(slot);
  if (kind === kinds.object) {
    return picture.placeOf(slot);
  }
  const parts = picture.keyOf(slot).split(":");
  const [resource, namespace] = kind === kinds.namespace ? ["", parts[1]] : [parts[1] ?? "", parts[2]];
  return namespace ? { resource, namespace } : { resource };
}

/** placeWords names the resource and the namespace of a node. */
export function placeWords(picture: Picture, slot: number): string {
  const { resource, namespace } = placeOf(picture, slot);
  return visible(namespace ? `${resource} in ${namespace}` : resource);
}

/** titleOf names a node. */
export function titleOf(picture: Picture, slot: number): string {
  switch (picture.lookOf(slot).kind) {
    case kinds.namespace: {
      const { namespace } = placeOf(picture, slot);
      return namespace === undefined ? "without a namespace" : `namespace ${visible(namespace)}`;
    }
    case kinds.resource:
      return placeWords(picture, slot);
    case kinds.rest:
      return `and ${count(picture.below[slot] ?? 0)} more`;
    default:
      return visible(picture.nameOf(slot));
  }
}

/** labelOf is the text at a node: its name, how many objects are below a closed one or a group, and the worst that it hides. */
export function labelOf(picture: Picture, slot: number): string {
  const { kind, closed, hidden } = picture.lookOf(slot);
  const below = picture.below[slot] ?? 0;
  const parts = [titleOf(picture, slot)];
  if (kind === kinds.namespace || kind === kinds.resource) {
    parts.push(count(below));
  } else if (closed && kind === kinds.object) {
    parts.push(`${count(below)} below`);
  }
  const text = parts.join(" · ");
  return hidden > 0 && (closed || kind === kinds.rest) ? `${text}, ${stateWord(hidden).toLowerCase()}` : text;
}

/** belowWords says how many objects are below a node, and what is not shown of them; number is how it names the number. */
export function belowWords(picture: Picture, slot: number, number: (n: number) => string = count): string {
  const { closed, hidden, kind } = picture.lookOf(slot);
  const worst = hidden > 0 ? `; at least one is ${stateWord(hidden).toLowerCase()}` : "";
  if (kind === kinds.rest) {
    return `not shown${worst}`;
  }
  const below = picture.below[slot] ?? 0;
  if (below === 0) {
    return number(0);
  }
  return closed ? `${number(below)}, closed${worst}` : number(below);
}

/** spoken says in words what is selected. */
export function spoken(picture: Picture, slot: number): string {
  const { kind, state } = picture.lookOf(slot);
  const title = titleOf(picture, slot);
  const parts = kind === kinds.object ? [title, placeWords(picture, slot), stateWord(state)] : [title];
  return [...parts, belowWords(picture, slot, (n) => (n === 0 ? "no objects below" : `${of(n, "object")} below`))].join(", ");
}

/** statusWords counts the objects of the selection, those that are shown if some are not, and the groups. */
export function statusWords(picture: Picture, head: GraphFrame): string {
  const shown = [0, 0, 0, 0];
  for (let slot = 0; slot < picture.slots; slot++) {
    if (picture.number[slot] !== 0) {
      const kind = ((picture.look[slot] ?? 0) >> 8) & 3;
      shown[kind] = (shown[kind] ?? 0) + 1;
    }
  }
  const [objects = 0, namespaces = 0, resources = 0] = shown;
  const parts = [`${of(head.objects, "object")}${head.loading === true ? " so far" : ""}`];
  if (objects < head.objects) {
    parts.push(`${count(objects)} of them shown`);
  }
  if (namespaces + resources > 0) {
    parts.push(of(namespaces + resources, "group"));
  }
  return parts.join(", ") + (head.loading === true ? "; the objects are still being read" : "");
}
