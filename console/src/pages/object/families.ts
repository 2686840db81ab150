import { signal } from "@preact/signals";
import { failureOf } from "../../api/client.ts";
import type { Family } from "../../api/types.ts";
import type { Branch } from "./rows.ts";

/** Families reads the relatives of objects, as rows of the tree are opened. */
export class Families {
  readonly branches = signal<ReadonlyMap<string, Branch>>(new Map());
  private readonly reading = new Map<string, number>();
  private turn = 0;

  constructor(private readonly read: (uid: string, from: number, background: boolean) => Promise<Family>) {}

  /** open reads an object's relatives, unless they are known. */
  open(uid: string): void {
    if (!this.reading.has(uid) && this.branches.value.get(uid)?.family === undefined) {
      void this.load(uid, 1);
    }
  }

  /** more reads the next dependents. */
  more(uid: string): void {
    void this.load(uid, (this.branches.value.get(uid)?.dependents.length ?? 0) + 1);
  }

  /** retry reads again what could not be read. */
  retry(uid: string): void {
    void this.load(uid, 1);
  }

  /** refresh reads again what is known of objects, for the page itself. Their rows stay until it is read. */
  refresh(uids: Iterable<string>): void {
    for (const uid of uids) {
      void this.load(uid, Math.max(1, this.branches.value.get(uid)?.dependents.length ?? 0), true);
    }
  }

  /** load reads dependents until it has at least a number of them. A later load of the same object replaces it. */
  private async load(uid: string, wanted: number, background = false): Promise<void> {
    const turn = ++this.turn;
    this.reading.set(uid, turn);
    let branch: Branch;
    try {
      let family = await this.read(uid, 0, background);
      const first = family;
      const dependents = [...(family.dependents ?? [])];
      while (dependents.length < wanted && dependents.length < family.total && (family.dependents ?? []).length > 0) {
        family = await this.read(uid, dependents.length, background);
        dependents.push(...(family.dependents ?? []));
      }
      branch = { family: { ...first, total: family.total }, dependents };
    } catch (error) {
      const failure = failureOf(error);
      const before = this.branches.value.get(uid);
      if (before?.family === undefined) {
        branch = { dependents: [], failure };
      } else if (failure.reason === "NotFound") {
        branch = before; // the object was removed: the page, or the row above, says so when it is read again
      } else {
        branch = { ...before, failure };
      }
    }
    if (this.reading.get(uid) === turn) {
      this.reading.delete(uid);
      this.branches.value = new Map(this.branches.value).set(uid, branch);
    }
  }
}
