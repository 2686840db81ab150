import type { GraphFrame } from "../src/api/types.ts";
import { encodeKey } from "../src/pages/graph/picture.ts";

/** GraphNode is a node of a frame. One with a key is new. */
export interface GraphNode {
  number: number;
  above?: number;
  x: number;
  y: number;
  below?: number;
  state?: number;
  hidden?: number;
  kind?: number;
  closed?: boolean;
  line?: boolean;
  place?: number;
  name?: string;
  key?: string;
}

export interface GraphContents {
  head?: Partial<GraphFrame>;
  removed?: number[];
  nodes?: GraphNode[];
  othersRemoved?: [number, number][];
  othersAdded?: [number, number][];
}

const utf8 = new TextEncoder();

/** encodeFrame writes a message as the server does. */
export function encodeFrame(id: number, { head = {}, removed = [], nodes = [], othersRemoved = [], othersAdded = [] }: GraphContents): ArrayBuffer {
  const named = nodes.filter((n) => n.key !== undefined);
  const all = [...named, ...nodes.filter((n) => n.key === undefined)];
  const full: GraphFrame = {
    revision: 1,
    objects: 0,
    totals: [0, 0, 0, 0, 0, 0],
    shown: nodes.length,
    most: 150_000,
    depth: 4,
    levels: 4,
    outside: [],
    width: nodes.reduce((most, n) => Math.max(most, n.x + 3), 0),
    height: nodes.reduce((most, n) => Math.max(most, n.y + 1), 0),
    places: [],
    ...head,
    removed: removed.length,
    nodes: nodes.length,
    named: named.length,
    othersRemoved: othersRemoved.length,
    othersAdded: othersAdded.length,
  };
  const json = utf8.encode(JSON.stringify(full));
  const names = named.map((n) => utf8.encode(n.name ?? ""));
  const keys = named.map((n) => encodeKey(n.key ?? ""));
  const uint = (values: number[]) => new Uint8Array(new Uint32Array(values).buffer);
  const float = (values: number[]) => new Uint8Array(new Float32Array(values).buffer);
  const look = (n: GraphNode) => (n.state ?? 0) | ((n.hidden ?? 0) << 4) | ((n.kind ?? 0) << 8) | (n.closed ? 1 << 10 : 0) | (n.line ? 1 << 11 : 0);
  const parts = [
    uint([id, json.length]),
    json,
    uint(removed),
    uint(all.map((n) => n.number)),
    uint(all.map((n) => n.above ?? 0)),
    float(all.map((n) => n.x)),
    float(all.map((n) => n.y)),
    uint(all.map((n) => n.below ?? 0)),
    uint(all.map(look)),
    uint(all.map((n) => n.place ?? 0)),
    uint(names.map((b) => b.length)),
    uint(keys.map((b) => b.length)),
    joined(names, 0),
    joined(keys, 0),
    uint(othersRemoved.flat()),
    uint(othersAdded.flat()),
  ];
  const message = joined(parts, 4);
  message.fill(0x20, 8 + json.length, (8 + json.length + 3) & ~3);
  return message.buffer;
}

/** joined puts blocks behind each other, each at a multiple of align bytes. */
function joined(blocks: Uint8Array[], align: 0 | 4): Uint8Array<ArrayBuffer> {
  const padded = (n: number) => (align === 4 ? (n + 3) & ~3 : n);
  const all = new Uint8Array(blocks.reduce((sum, b) => sum + padded(b.length), 0));
  let at = 0;
  for (const block of blocks) {
    all.set(block, at);
    at += padded(block.length);
  }
  return all;
}
