/** The states of nodes by their numbers, which grow with their severity. Names are those of StateMark. */
export const states = ["Present", "Protected", "Terminating", "UnknownOwner", "Garbage", "Blocked"] as const;

export const kinds = { object: 0, namespace: 1, resource: 2, rest: 3 } as const;

/** Look is what the look of a node says. */
export interface Look {
  state: number;
  /** hidden is the most severe state below it that is not shown. */
  hidden: number;
  kind: number;
  /** closed: nodes below it are not shown. */
  closed: boolean;
  /** line: a line leads to it from the node above. */
  line: boolean;
}

export function lookOf(bits: number): Look {
  return { state: bits & 15, hidden: (bits >> 4) & 15, kind: (bits >> 8) & 3, closed: (bits & closedBit) !== 0, line: (bits & lineBit) !== 0 };
}

export const closedBit = 1 << 10;
export const lineBit = 1 << 11;
