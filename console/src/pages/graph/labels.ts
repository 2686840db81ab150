import { count } from "../../lib/numbers.ts";
import { visible } from "../../lib/text.ts";
import type { Grid } from "./grid.ts";
import { kinds } from "./look.ts";
import type { Palette } from "./palette.ts";
import type { Picture } from "./picture.ts";
import { Taken } from "./taken.ts";
import { Ruler, shortened } from "./text.ts";
import { radiusOf, sizeOf, type View, zoomButtons } from "./view.ts";
import { labelOf, placeOf, placeWords, stateWord, titleOf } from "./words.ts";

/** From so many pixels of a unit on, objects without dependents have labels, and the second line is shown. */
const leavesFrom = 13;
const placesFrom = 34;
/** From so many on, owners have labels, which keep away from nodes; below it, owners in a window with few nodes have, or only groups. */
const ownersFrom = 7;
const fewOwnersFrom = 3;
const fewNodes = 1500;
/** In a window of which the nodes are that small, so many owners are looked at: the others find no space. */
const mostSmall = 120;
/** At most so many labels of each sort are drawn, and so many owners are looked at. */
const mostGroups = 300;
const mostOwners = 160;
const mostLeaves = 450;
const mostExamined = 3000;

const fontSize = 12;
const smallFontSize = 10.5;
/** A label ends so many pixels before what is next. */
const space = 4;

/** In less space no label fits, and none that is shortened, in pixels. */
const leastRoom = 8;
const leastShort = 30;

/** nameOf is the title of a node where its surroundings say the rest: a square is a namespace, and a kind is in one. */
function nameOf(picture: Picture, slot: number): string {
  const { kind } = picture.lookOf(slot);
  if (kind !== kinds.namespace && kind !== kinds.resource) {
    return titleOf(picture, slot);
  }
  const { resource, namespace } = placeOf(picture, slot);
  return kind === kinds.resource ? visible(resource) : namespace === undefined ? "in no namespace" : visible(namespace);
}

/** textsOf returns the labels that a node can have, the longest first. The last may be shortened, unless the node hides what is blocked. */
export function textsOf(picture: Picture, slot: number): { texts: string[]; shorten: boolean } {
  const { kind, closed, hidden } = picture.lookOf(slot);
  const name = nameOf(picture, slot);
  if (kind === kinds.rest || (kind === kinds.object && !closed)) {
    return { texts: [kind === kinds.rest ? labelOf(picture, slot) : name], shorten: kind !== kinds.rest };
  }
  const below = count(picture.below[slot] ?? 0);
  const counted = `${name} · ${below}${kind === kinds.object ? " below" : ""}`;
  if (!closed || hidden === 0) {
    return { texts: [counted, name], shorten: true };
  }
  const word = stateWord(hidden).toLowerCase();
  return { texts: [`${counted}, ${word}`, `${name}, ${word}`, name], shorten: hidden !== blocked };
}

const blocked = 5;

/** Labels writes the names of nodes: first of groups, then of owners, those on top first, then of others where there is room. */
export class Labels {
  /** groups and owners are the nodes with something below them, in the order in which they get labels. */
  private groups = new Uint32Array(0);
  private owners = new Uint32Array(0);
  /** rank is the place in owners, by slot. */
  private rank = new Uint32Array(0);
  private readonly ruler = new Ruler();

  constructor(
    private readonly picture: Picture,
    private readonly grid: Grid,
  ) {}

  /** build sorts the owners again. */
  build(): void {
    const { picture } = this;
    const { below, number, slots } = picture;
    const depth = this.depths();
    const groups: number[] = [];
    const owners: number[] = [];
    for (let slot = 0; slot < slots; slot++) {
      if (number[slot] !== 0 && (below[slot] ?? 0) > 0) {
        (((picture.look[slot] ?? 0) & 0x300) === 0 ? owners : groups).push(slot);
      }
    }
    const first = (a: number, b: number) => (depth[a] ?? 0) - (depth[b] ?? 0) || (below[b] ?? 0) - (below[a] ?? 0) || a - b;
    this.groups = Uint32Array.from(groups).sort(first);
    this.owners = Uint32Array.from(owners).sort(first);
    this.rank = new Uint32Array(slots);
    this.owners.forEach((slot, i) => {
      this.rank[slot] = i + 1;
    });
  }

  /** depths returns how many nodes are above each. */
  private depths(): Int32Array {
    const { above, slots } = this.picture;
    const depth = new Int32Array(slots).fill(-1);
    const path: number[] = [];
    for (let slot = 0; slot < slots; slot++) {
      let at = slot;
      while (at >= 0 && (depth[at] ?? 0) < 0) {
        path.push(at);
        at = above[at] ?? -1;
      }
      let d = at < 0 ? -1 : (depth[at] ?? 0);
      for (let next = path.pop(); next !== undefined; next = path.pop()) {
        depth[next] = ++d;
      }
    }
    return depth;
  }

  draw(to: CanvasRenderingContext2D, view: View, palette: Palette, selected: number, hovered: number): void {
    const { picture, grid } = this;
    const taken = new Taken(view);
    const { unit, left, top, width, height } = view;
    taken.take(width - zoomButtons.width, 0, zoomButtons.width, zoomButtons.height);
    const window = [-left / unit, -top / unit, (width - left) / unit, (height - top) / unit] as const;
    // Nodes that are smaller lie too close together to be kept free.
    const near = unit >= ownersFrom || (unit >= fewOwnersFrom && grid.count(...window) <= fewNodes);
    const owners: number[] = [];
    if (near) {
      grid.visit(...window, (slot) => {
        if (this.inside(view, slot)) {
          this.keepFree(view, slot, taken);
          if ((this.rank[slot] ?? 0) > 0) {
            owners.push(slot);
          }
        }
      });
    }
    to.textBaseline = "middle";
    to.lineJoin = "round";
    for (const slot of [selected, hovered]) {
      if (picture.shown(slot) && this.inside(view, slot)) {
        this.mark(to, view, palette, slot, slot === selected, taken);
      }
    }
    const groups = this.groups.subarray(0, mostExamined).filter((slot) => this.inside(view, slot));
    if (!near) {
      groups.forEach((slot) => this.keepFree(view, slot, taken));
    }
    this.writeAll(to, view, palette, groups, taken, mostGroups);
    if (!near) {
      return;
    }
    owners.sort((a, b) => (this.rank[a] ?? 0) - (this.rank[b] ?? 0));
    this.writeAll(to, view, palette, unit < ownersFrom ? owners.slice(0, mostSmall) : owners, taken, mostOwners);
    if (unit < leavesFrom) {
      return;
    }
    let drawn = 0;
    grid.visit(...window, (slot) => {
      if (drawn < mostLeaves && (picture.below[slot] ?? 0) === 0 && this.inside(view, slot)) {
        drawn += this.write(to, view, palette, slot, taken);
      }
    });
  }

  private x(view: View, slot: number): number {
    return (this.picture.x[slot] ?? 0) * view.unit + view.left;
  }

  private y(view: View, slot: number): number {
    return (this.picture.y[slot] ?? 0) * view.unit + view.top;
  }

  /** inside returns whether a node is in the window: a label does not stand at its edge for one that is not. */
  private inside(view: View, slot: number): boolean {
    const x = this.x(view, slot);
    const y = this.y(view, slot);
    return x >= 0 && x < view.width && y >= 0 && y < view.height;
  }

  private keepFree(view: View, slot: number, taken: Taken): void {
    const radius = this.radius(view, slot) + (view.unit < fewOwnersFrom ? 0 : 1);
    taken.take(this.x(view, slot) - radius, this.y(view, slot) - radius, 2 * radius, 2 * radius);
  }

  private writeAll(to: CanvasRenderingContext2D, view: View, palette: Palette, slots: Iterable<number>, taken: Taken, most: number): void {
    let drawn = 0;
    for (const slot of slots) {
      drawn += this.write(to, view, palette, slot, taken);
      if (drawn >= most) {
        return;
      }
    }
  }

  /** write writes the label of a node, if its place is free; it returns how many it has written. */
  private write(to: CanvasRenderingContext2D, view: View, palette: Palette, slot: number, taken: Taken): number {
    const { picture, ruler } = this;
    const { kind } = picture.lookOf(slot);
    const heading = kind === kinds.namespace || kind === kinds.resource;
    const owner = heading || (picture.below[slot] ?? 0) > 0;
    const font = `${heading ? 600 : 400} ${fontSize}px ${palette.font}`;
    const at = this.x(view, slot) + this.gap(view, slot);
    // Where rows are close together, a label stands a little higher than its node: there is more space above than below.
    const y = this.y(view, slot) - (owner ? Math.min(heading ? 5 : 3, Math.max(0, 9 - view.unit)) : 0);
    const half = view.unit < ownersFrom ? 3 : 5;
    if (taken.room(at, y - half, leastRoom, 2 * half) < leastRoom) {
      return 0;
    }
    const { texts, shorten } = textsOf(picture, slot);
    const end = heading ? 1 : space;
    const room = taken.room(at, y - half, ruler.width(to, font, texts[0] ?? "") + end, 2 * half) - end;
    let text = texts.find((each) => ruler.width(to, font, each) <= room) ?? "";
    if (text === "" && shorten && room > leastShort) {
      text = shortened(texts.at(-1) ?? "", (each) => ruler.width(to, font, each) <= room);
    }
    if (text === "") {
      return 0;
    }
    taken.take(at, y - half, ruler.width(to, font, text), 2 * half);
    to.font = font;
    if (owner) {
      to.strokeStyle = palette.ground;
      to.lineWidth = 3;
      to.strokeText(text, at, y);
    }
    to.fillStyle = owner ? palette.text : palette.dim;
    to.fillText(text, at, y);
    if (kind === kinds.object && view.unit >= placesFrom) {
      this.writePlace(to, palette, slot, at, y, taken);
    }
    return 1;
  }

  /** writePlace writes the second line of a label: the resource and the namespace. */
  private writePlace(to: CanvasRenderingContext2D, palette: Palette, slot: number, at: number, y: number, taken: Taken): void {
    const { picture, ruler } = this;
    const font = `${smallFontSize}px ${palette.font}`;
    const words = placeWords(picture, slot);
    const room = taken.room(at, y + 8, ruler.width(to, font, words) + space, 9) - space;
    const fits = (text: string) => ruler.width(to, font, text) <= room;
    const place = [words, visible(placeOf(picture, slot).resource)].find(fits) ?? shortened(words, fits);
    to.font = font;
    to.fillStyle = palette.dim;
    to.fillText(place, at, y + 13);
  }

  private radius(view: View, slot: number): number {
    const { kind, state, closed } = this.picture.lookOf(slot);
    return radiusOf(view.unit, sizeOf(this.picture.below[slot] ?? 0, closed, kind), kind, state) * (closed ? 1.75 : 1.2);
  }

  private gap(view: View, slot: number): number {
    return this.radius(view, slot) + (view.unit < fewOwnersFrom ? 4 : 5);
  }

  /** mark shows which node is selected, or under the pointer, with all of its name. */
  private mark(to: CanvasRenderingContext2D, view: View, palette: Palette, slot: number, selected: boolean, taken: Taken): void {
    const { picture, ruler } = this;
    const x = this.x(view, slot);
    const y = this.y(view, slot);
    const gap = this.gap(view, slot);
    const [font, small] = [`600 ${fontSize}px ${palette.font}`, `${smallFontSize}px ${palette.font}`];
    const fits = (by: string) => (text: string) => ruler.width(to, by, text) <= Math.min(560, view.width - 20);
    const text = shortened(labelOf(picture, slot), fits(font));
    const place = picture.lookOf(slot).kind === kinds.object ? shortened(placeWords(picture, slot), fits(small)) : "";
    const width = Math.max(ruler.width(to, font, text), ruler.width(to, small, place)) + 12;
    const height = place === "" ? 20 : 34;
    const most = view.width - (y < zoomButtons.height + 12 ? zoomButtons.width : 0);
    const left = x + gap + width > most ? Math.max(2, x - gap - width) : x + gap;
    taken.take(left, y - 10, width, height);
    to.fillStyle = palette.ground;
    to.strokeStyle = selected ? palette.accent : palette.line;
    to.lineWidth = selected ? 1.5 : 1;
    to.beginPath();
    to.roundRect(left, y - 11, width, height, 4);
    to.fill();
    to.stroke();
    to.font = font;
    to.fillStyle = palette.text;
    to.fillText(text, left + 6, y);
    if (place !== "") {
      to.font = small;
      to.fillStyle = palette.dim;
      to.fillText(place, left + 6, y + 14);
    }
    if (selected) {
      to.lineWidth = 2;
      to.strokeStyle = palette.accent;
      to.beginPath();
      to.arc(x, y, gap + 1, 0, 2 * Math.PI);
      to.stroke();
    }
  }
}
