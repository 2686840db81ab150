import type { GraphFrame } from "../../api/types.ts";

/** Frame is a binary message of a graph; see GraphFrame in the package view. Its columns are views of the message. */
export interface Frame {
  head: GraphFrame;
  removed: Uint32Array;
  numbers: Uint32Array;
  above: Uint32Array;
  x: Float32Array;
  y: Float32Array;
  below: Uint32Array;
  looks: Uint32Array;
  places: Uint32Array;
  nameLengths: Uint32Array;
  keyLengths: Uint32Array;
  names: Uint8Array;
  keys: Uint8Array;
  othersRemoved: Uint32Array;
  othersAdded: Uint32Array;
}

const text = new TextDecoder();

function sum(lengths: Uint32Array): number {
  return lengths.reduce((a, b) => a + b, 0);
}

/** decode reads a message. Numbers are little-endian, as are those of all machines with a browser. */
export function decode(message: ArrayBuffer): Frame {
  let at = 8;
  const take = (bytes: number, what: string): number => {
    const from = at;
    at += (bytes + 3) & ~3;
    if (from + bytes > message.byteLength) {
      throw new Error(`a message of ${message.byteLength} bytes ends before its ${what}, which needs ${from + bytes}; load the page again`);
    }
    return from;
  };
  if (message.byteLength < at) {
    throw new Error(`a message of ${message.byteLength} bytes has no head; load the page again`);
  }
  const length = new DataView(message).getUint32(4, true);
  const head = JSON.parse(text.decode(new Uint8Array(message, take(length, "head"), length))) as GraphFrame;
  const uint = (n: number, what: string) => new Uint32Array(message, take(4 * n, what), n);
  const float = (n: number, what: string) => new Float32Array(message, take(4 * n, what), n);
  const bytes = (n: number, what: string) => new Uint8Array(message, take(n, what), n);
  const { nodes, named } = head;
  const removed = uint(head.removed, "removed nodes");
  const numbers = uint(nodes, "numbers");
  const above = uint(nodes, "nodes above");
  const x = float(nodes, "positions");
  const y = float(nodes, "positions");
  const below = uint(nodes, "counts");
  const looks = uint(nodes, "looks");
  const places = uint(nodes, "places");
  const nameLengths = uint(named, "lengths of names");
  const keyLengths = uint(named, "lengths of keys");
  const names = bytes(sum(nameLengths), "names");
  const keys = bytes(sum(keyLengths), "keys");
  const othersRemoved = uint(2 * head.othersRemoved, "other owners");
  const othersAdded = uint(2 * head.othersAdded, "other owners");
  return { head, removed, numbers, above, x, y, below, looks, places, nameLengths, keyLengths, names, keys, othersRemoved, othersAdded };
}
