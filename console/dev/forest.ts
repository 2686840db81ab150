import type { GraphAsk, GraphPlace } from "../src/api/types.ts";
import { kinds } from "../src/pages/graph/look.ts";
import { encodeFrame, type GraphNode } from "./graphframes.ts";

/** Thing is an object or a group of the forest. */
interface Thing {
  number: number;
  name: string;
  key: string;
  place: number;
  state: number;
  kind: number;
  above: Thing | undefined;
  things: Thing[];
  below: number;
  worst: number;
  open: boolean;
  w: number;
  h: number;
}

const perNamespace = 1500;

/** uidOf is the uid of the object with a number. */
export function uidOf(number: number): string {
  return `0b1ec700-0000-4000-8000-${String(number).padStart(12, "0")}`;
}

/**
 * Forest makes a graph of a number of objects, for development and tests, and arranges it nearly as the server does: deployments with
 * replica sets and pods, objects without owners, some states of each kind. It changes a little with each tick.
 */
export class Forest {
  private readonly tops: Thing[] = [];
  private readonly all: Thing[] = [];
  private readonly places: GraphPlace[] = [{ resource: "" }];
  private readonly others: [number, number][] = [];
  private readonly totals = [0, 0, 0, 0, 0, 0];
  private readonly sent = new Map<number, string>();
  private revision = 48_900;

  constructor(objects: number) {
    const several = objects > 300;
    for (let ns = 0; this.objects < objects; ns++) {
      const namespace = ["shop", "checkout", "search", "previews", "media", "billing"][ns] ?? `team-${ns}`;
      const top = several ? this.add(undefined, namespace, `ns:${namespace}`, 0, 0, kinds.namespace) : undefined;
      for (let d = 0, from = this.objects; this.objects < objects && (!several || this.objects - from < perNamespace); d++) {
        this.deployment(top, namespace, d, objects);
      }
    }
    for (const top of this.tops) {
      count(top);
    }
  }

  private get objects(): number {
    return this.totals.reduce((a, b) => a + b, 0);
  }

  private place(resource: string, namespace: string): number {
    const at = this.places.findIndex((p) => p.resource === resource && p.namespace === namespace);
    return at >= 0 ? at : this.places.push({ resource, namespace }) - 1;
  }

  private add(above: Thing | undefined, name: string, key: string, place: number, state: number, kind: number = kinds.object): Thing {
    const number = this.all.length + 1;
    const thing: Thing = { number, name, key: key || uidOf(number), place, state, kind, above, things: [], below: 0, worst: state, open: true, w: 0, h: 0 };
    (above?.things ?? this.tops).push(thing);
    this.all.push(thing);
    if (kind === kinds.object) {
      this.totals[state] = (this.totals[state] ?? 0) + 1;
    }
    return thing;
  }

  private deployment(top: Thing | undefined, namespace: string, d: number, objects: number): void {
    const left = () => objects - this.objects;
    const app = `${["web", "api", "worker", "cache", "gateway", "mail"][d % 6] ?? "app"}${d < 6 ? "" : `-${d}`}`;
    const going = d % 11 === 3;
    const root = this.add(top, app, "", this.place("deployments.apps", namespace), going ? 2 : d % 13 === 5 ? 1 : 0);
    const pods = d % 17 === 7 ? 60 : 2 + (d % 5);
    if (left() > 0) {
      const set = this.add(root, `${app}-7d4b9`, "", this.place("replicasets.apps", namespace), going ? 2 : 0);
      for (let i = 0; i < pods && left() > 0; i++) {
        const pod = this.add(set, `${app}-7d4b9-${(i * 7919 + d * 104_729 + 50_000).toString(36).slice(-5)}`, "", this.place("pods", namespace), going ? (i === 0 ? 5 : 2) : 0);
        if (i === 0 && d % 4 === 1) {
          this.others.push([root.number, pod.number]);
        }
      }
    }
    if (left() > 0 && d % 2 === 0) {
      this.add(root, `${app}-settings`, "", this.place("configmaps", namespace), d % 26 === 12 ? 3 : 0);
    }
    if (left() > 0 && d % 3 === 0) {
      this.add(top, `legacy-${app}`, "", this.place("configmaps", namespace), d % 27 === 9 ? 4 : 0);
    }
  }

  /** ask decides what is open. */
  ask({ open = [], shut = [], show = [] }: GraphAsk): void {
    for (const thing of this.all) {
      thing.open = !shut.includes(thing.key) && (this.all.length <= 110_000 || thing.kind === kinds.namespace || open.includes(thing.key));
    }
    for (const thing of this.all.filter((t) => show.includes(t.key) || open.includes(t.key))) {
      for (let at = thing.above; at !== undefined; at = at.above) {
        at.open = true;
      }
    }
  }

  /** tick changes the states of some objects. */
  tick(n: number): void {
    for (let i = 0; i < n; i++) {
      const thing = this.all[(this.revision * 7919 + i * 31) % this.all.length];
      if (thing?.kind === kinds.object) {
        this.totals[thing.state] = (this.totals[thing.state] ?? 0) - 1;
        thing.state = thing.state === 0 ? 2 : 0;
        this.totals[thing.state] = (this.totals[thing.state] ?? 0) + 1;
      }
    }
    this.revision++;
    this.tops.forEach(count);
  }

  /** frame is what has changed since the last one. */
  frame(id: number, ask: GraphAsk, first: boolean): ArrayBuffer {
    if (first) {
      this.sent.clear();
    }
    this.ask(ask);
    const nodes: GraphNode[] = [];
    const size = arrange(this.tops, 0, 0, undefined, nodes);
    const now = new Set(nodes.map((n) => n.number));
    const removed = [...this.sent.keys()].filter((number) => !now.has(number));
    removed.forEach((number) => this.sent.delete(number));
    const changed = nodes.flatMap((n) => {
      const { name, key, ...rest } = n;
      const text = JSON.stringify(rest);
      const before = this.sent.get(n.number);
      this.sent.set(n.number, text);
      return before === text ? [] : [before === undefined ? { ...rest, name: name ?? "", key: key ?? "" } : rest];
    });
    return encodeFrame(id, {
      head: { ...(first ? { first } : {}), revision: this.revision, objects: this.objects, totals: this.totals, shown: nodes.length, width: size.w, height: size.h, places: first ? this.places : [], outside: (ask.show ?? []).filter((uid) => !this.all.some((t) => t.key === uid)) },
      removed,
      nodes: changed,
      othersAdded: first ? this.others.filter(([a, b]) => now.has(a) && now.has(b)) : [],
    });
  }
}

/** count sets how many objects are below a thing, and the worst state of it and of what is below. */
function count(thing: Thing): void {
  thing.below = 0;
  thing.worst = thing.state;
  for (const t of thing.things) {
    count(t);
    thing.below += t.below + 1;
    thing.worst = Math.max(thing.worst, t.worst);
  }
}

/** depthOf is how much lower than a thing what is below it begins. */
function depthOf(thing: Thing): number {
  return thing.kind === kinds.object ? 1.5 : 2;
}

/** measure sets the sizes of boxes. */
function measure(thing: Thing): void {
  const inner = thing.open && thing.things.length > 0 ? arrange(thing.things, 0, 0, thing, undefined) : { w: 0, h: 0 };
  thing.w = Math.max(thing.open || thing.kind === kinds.object ? 3 : groupWidth, inner.w);
  thing.h = inner.h === 0 ? 1 : depthOf(thing) + inner.h;
}

/** The spaces between open groups, and below them, and the width of a closed one. */
const groupGap = 6;
const groupRow = 3;
const groupWidth = 6;

/** arrange places things in a box: a block of leaves, then families and closed owners in rows. Without nodes it measures only. */
function arrange(things: Thing[], x: number, y: number, above: Thing | undefined, nodes: GraphNode[] | undefined): { w: number; h: number } {
  if (nodes === undefined || above === undefined) {
    things.forEach(measure);
  }
  const leaves = things.filter((t) => t.things.length === 0);
  const owners = things.filter((t) => t.things.length > 0);
  const gaps = (t: Thing): [number, number] => (!t.open ? [0, 0] : t.kind === kinds.object ? [1, 1] : [groupGap, groupRow]);
  const area = owners.reduce((sum, t) => sum + 1.6 * (t.w + gaps(t)[0]) * (t.h + gaps(t)[1]), leaves.length * 3);
  const target = Math.max(Math.sqrt(area * 1.6), owners.length > 0 ? 24 : 3);
  const columns = leaves.length <= 6 && owners.length === 0 ? leaves.length : Math.max(1, Math.floor(target / 3));
  let w = 0;
  leaves.forEach((t, i) => {
    const column = i % columns;
    w = Math.max(w, 3 * (column + 1));
    nodes?.push(node(t, x + 3 * column, y + Math.floor(i / columns), i < columns));
  });
  let h = leaves.length === 0 ? 0 : Math.ceil(leaves.length / columns);
  let left = 0;
  let top = h === 0 ? 0 : h + 1;
  const firstTop = top;
  let space = 0;
  const closed = owners.filter((t) => !t.open).length;
  const fromGroup = (above?.kind ?? kinds.object) !== kinds.object;
  for (const t of owners) {
    if (!t.open) {
      left = Math.ceil(left / t.w) * t.w;
    }
    if (left > 0 && left + t.w > target) {
      left = 0;
      top = h + space;
      space = 0;
    }
    if (nodes !== undefined) {
      const line = fromGroup ? top === 0 : t.open || closed <= 200 || top === firstTop;
      nodes.push(node(t, x + left + (t.open && t.kind === kinds.object ? t.w / 2 - 1.5 : 0), y + top, line));
      if (t.open) {
        arrange(t.things, x + left, y + top + depthOf(t), t, nodes);
      }
    }
    const [right, under] = gaps(t);
    w = Math.max(w, left + t.w);
    left += t.w + right;
    h = Math.max(h, top + t.h);
    space = Math.max(space, under);
  }
  return { w, h };
}

function node(t: Thing, x: number, y: number, line: boolean): GraphNode {
  const closed = !t.open && t.things.length > 0;
  const hidden = closed ? Math.max(0, ...t.things.map((c) => c.worst)) : 0;
  return { number: t.number, above: t.above?.number ?? 0, x, y, below: t.below, state: t.state, hidden, kind: t.kind, closed, line: line && t.above !== undefined, place: t.place, name: t.name, key: t.key };
}
