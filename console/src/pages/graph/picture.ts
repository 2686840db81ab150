import type { GraphFrame, GraphPlace } from "../../api/types.ts";
import type { Frame } from "./frame.ts";
import { closedBit, kinds, lookOf, type Look } from "./look.ts";

/** Change says which slots differ after a frame. */
export interface Change {
  /** first: all slots differ. */
  first: boolean;
  slots: Set<number>;
}

/** Chunk has the names and keys that came in one frame, until none of its nodes is shown any more. */
interface Chunk {
  names: Uint8Array;
  keys: Uint8Array;
  nodes: number;
}

const text = new TextDecoder();
const none: GraphPlace = { resource: "" };

/**
 * Picture has the nodes that are shown, in columns of typed arrays. A node has a slot while it is shown; slots are used again, so that
 * what draws them changes only what has changed. Names stay bytes until one is needed.
 */
export class Picture {
  head: GraphFrame | undefined;
  places: GraphPlace[] = [];
  /** slots is the length of the columns in use. Those with number 0 are free. */
  slots = 0;
  number = new Uint32Array(0);
  /** above is the slot of the node above; -1 if there is none. */
  above = new Int32Array(0);
  x = new Float32Array(0);
  y = new Float32Array(0);
  below = new Uint32Array(0);
  look = new Uint32Array(0);
  place = new Uint32Array(0);
  /** others are the pairs of numbers of owners and dependents. */
  readonly others = new Map<string, readonly [number, number]>();
  private chunk = new Uint32Array(0);
  private nameAt = new Uint32Array(0);
  private nameLength = new Uint32Array(0);
  private keyAt = new Uint32Array(0);
  private keyLength = new Uint32Array(0);
  private readonly slotOf = new Map<number, number>();
  private free: number[] = [];
  private readonly chunks = new Map<number, Chunk>();
  private nextChunk = 1;

  /** apply changes the picture as a frame says. */
  apply(frame: Frame): Change {
    const { head } = frame;
    const slots = new Set<number>();
    if (head.first) {
      this.clear();
    }
    this.head = head;
    for (const place of head.places ?? []) {
      this.places.push(place);
    }
    for (const number of frame.removed) {
      const slot = this.slotOf.get(number);
      if (slot !== undefined) {
        this.remove(slot);
        slots.add(slot);
      }
    }
    this.reserve(this.slots + Math.max(0, head.named - this.free.length));
    this.name(frame);
    for (let i = 0; i < head.nodes; i++) {
      const slot = this.slotOf.get(frame.numbers[i] ?? 0);
      if (slot === undefined) {
        throw new Error(`a message changes node ${frame.numbers[i] ?? 0}, which is not shown; load the page again`);
      }
      this.above[slot] = this.slotOf.get(frame.above[i] ?? 0) ?? -1;
      this.x[slot] = frame.x[i] ?? 0;
      this.y[slot] = frame.y[i] ?? 0;
      this.below[slot] = frame.below[i] ?? 0;
      this.look[slot] = frame.looks[i] ?? 0;
      this.place[slot] = frame.places[i] ?? 0;
      slots.add(slot);
    }
    for (let i = 0; i < frame.othersRemoved.length; i += 2) {
      this.others.delete(`${frame.othersRemoved[i] ?? 0} ${frame.othersRemoved[i + 1] ?? 0}`);
    }
    for (let i = 0; i < frame.othersAdded.length; i += 2) {
      const pair = [frame.othersAdded[i] ?? 0, frame.othersAdded[i + 1] ?? 0] as const;
      this.others.set(`${pair[0]} ${pair[1]}`, pair);
    }
    return { first: head.first === true, slots };
  }

  private clear(): void {
    this.places = [];
    this.slots = 0;
    this.number.fill(0);
    this.slotOf.clear();
    this.free = [];
    this.chunks.clear();
    this.others.clear();
  }

  /** reserve makes the columns so long, and some more. */
  private reserve(length: number): void {
    if (length <= this.number.length) {
      return;
    }
    const size = Math.max(256, length + (length >> 3));
    const grown = <T extends Uint32Array | Int32Array | Float32Array>(column: T, empty: T): T => {
      empty.set(column);
      return empty;
    };
    this.number = grown(this.number, new Uint32Array(size));
    this.above = grown(this.above, new Int32Array(size));
    this.x = grown(this.x, new Float32Array(size));
    this.y = grown(this.y, new Float32Array(size));
    this.below = grown(this.below, new Uint32Array(size));
    this.look = grown(this.look, new Uint32Array(size));
    this.place = grown(this.place, new Uint32Array(size));
    this.chunk = grown(this.chunk, new Uint32Array(size));
    this.nameAt = grown(this.nameAt, new Uint32Array(size));
    this.nameLength = grown(this.nameLength, new Uint32Array(size));
    this.keyAt = grown(this.keyAt, new Uint32Array(size));
    this.keyLength = grown(this.keyLength, new Uint32Array(size));
  }

  /** name gives slots, names and keys to the nodes that a frame names. */
  private name({ head, numbers, nameLengths, keyLengths, names, keys }: Frame): void {
    if (head.named === 0) {
      return;
    }
    const id = this.nextChunk++;
    const chunk: Chunk = { names: names.slice(), keys: keys.slice(), nodes: 0 }; // the message itself is not kept
    this.chunks.set(id, chunk);
    let nameAt = 0;
    let keyAt = 0;
    for (let i = 0; i < head.named; i++) {
      const number = numbers[i] ?? 0;
      let slot = this.slotOf.get(number);
      if (slot === undefined) {
        slot = this.free.pop() ?? this.slots++;
        this.slotOf.set(number, slot);
      } else {
        this.release(slot);
      }
      chunk.nodes++;
      this.number[slot] = number;
      this.chunk[slot] = id;
      this.nameAt[slot] = nameAt;
      this.keyAt[slot] = keyAt;
      nameAt += this.nameLength[slot] = nameLengths[i] ?? 0;
      keyAt += this.keyLength[slot] = keyLengths[i] ?? 0;
    }
  }

  private remove(slot: number): void {
    this.release(slot);
    this.slotOf.delete(this.number[slot] ?? 0);
    this.number[slot] = 0;
    this.free.push(slot);
  }

  private release(slot: number): void {
    const id = this.chunk[slot] ?? 0;
    const chunk = this.chunks.get(id);
    if (chunk !== undefined && --chunk.nodes === 0) {
      this.chunks.delete(id);
    }
  }

  /** shown returns whether a slot has a node. */
  shown(slot: number): boolean {
    return slot >= 0 && slot < this.slots && this.number[slot] !== 0;
  }

  slot(number: number): number {
    return this.slotOf.get(number) ?? -1;
  }

  lookOf(slot: number): Look {
    return lookOf(this.look[slot] ?? 0);
  }

  placeOf(slot: number): GraphPlace {
    return this.places[this.place[slot] ?? 0] ?? none;
  }

  nameOf(slot: number): string {
    const from = this.nameAt[slot] ?? 0;
    const names = this.chunks.get(this.chunk[slot] ?? 0)?.names;
    return names === undefined ? "" : text.decode(names.subarray(from, from + (this.nameLength[slot] ?? 0)));
  }

  private keyBytes(slot: number): Uint8Array {
    const from = this.keyAt[slot] ?? 0;
    return this.chunks.get(this.chunk[slot] ?? 0)?.keys.subarray(from, from + (this.keyLength[slot] ?? 0)) ?? new Uint8Array(0);
  }

  /** keyOf returns the key of a node: of an object its uid. */
  keyOf(slot: number): string {
    const bytes = this.keyBytes(slot);
    if (bytes.length !== 17 || bytes[0] !== 1) {
      return text.decode(bytes);
    }
    const hex = Array.from(bytes.subarray(1), (b) => b.toString(16).padStart(2, "0")).join("");
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
  }

  /** find returns the slot of the node with a key; -1 if it is not shown. */
  find(key: string): number {
    const bytes = encodeKey(key);
    for (let slot = 0; slot < this.slots; slot++) {
      if (this.number[slot] !== 0 && this.keyLength[slot] === bytes.length && this.hasKey(slot, bytes)) {
        return slot;
      }
    }
    return -1;
  }

  /** findAll returns the slots of the nodes with some of the keys, without those that are not shown. It looks at all nodes once. */
  findAll(keys: readonly string[]): Map<string, number> {
    const found = new Map<string, number>();
    const all = keys.map((key) => ({ key, bytes: encodeKey(key) }));
    const ends = new Uint8Array(256);
    all.forEach(({ bytes }) => (ends[bytes.at(-1) ?? 0] = 1));
    for (let slot = 0; slot < this.slots && found.size < all.length; slot++) {
      const length = this.keyLength[slot] ?? 0;
      const end = this.chunks.get(this.chunk[slot] ?? 0)?.keys[(this.keyAt[slot] ?? 0) + length - 1] ?? 0;
      if (this.number[slot] !== 0 && ends[end] === 1) {
        const one = all.find(({ bytes }) => bytes.length === length && this.hasKey(slot, bytes));
        if (one !== undefined) {
          found.set(one.key, slot);
        }
      }
    }
    return found;
  }

  private hasKey(slot: number, bytes: Uint8Array): boolean {
    const keys = this.chunks.get(this.chunk[slot] ?? 0)?.keys;
    const from = this.keyAt[slot] ?? 0;
    return keys !== undefined && bytes.every((byte, i) => keys[from + i] === byte);
  }

  /** isOpen returns whether nodes below a node are shown. */
  isOpen(slot: number): boolean {
    const look = this.look[slot] ?? 0;
    return (look & closedBit) === 0 && ((look >> 8) & 3) !== kinds.rest && (this.below[slot] ?? 0) > 0;
  }
}

/** encodeKey returns the bytes of a key in a frame. A UUID is in its canonical form: the server sends others as text. */
export function encodeKey(key: string): Uint8Array {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(key)) {
    return new TextEncoder().encode(key);
  }
  const hex = key.replaceAll("-", "");
  return Uint8Array.from({ length: 17 }, (_, i) => (i === 0 ? 1 : parseInt(hex.slice(2 * i - 2, 2 * i), 16)));
}
