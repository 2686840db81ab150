import { signal } from "@preact/signals";
import { failureOf } from "../../api/client.ts";
import type { Family } from "../../api/types.ts";
import type { Branch } from "./rows.ts";

/** Families reads the relatives of objects, as rows of the tree are opened. */
export class Families {
  readonly branches = signal<ReadonlyMap<string, Branch>>(new Map());
  private readonly reading = new Map<string, number>();
  private turn = 0;

  constructor(private readonly read: (uid: string, from: number) => Promise<Family>) {}

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

  /** refresh reads again what is known of the objects that are shown. The rows stay until it is read. */
  refresh(shown: readonly string[]): void {
    for (const uid of shown) {
      void this.load(uid, Math.max(1, this.branches.value.get(uid)?.dependents.length ?? 0));
    }
  }

  /** load reads dependents until it has at least a number of them. A later load of the same object replaces it. */
  private async load(uid: string, wanted: number): Promise<void> {
    const turn = ++this.turn;
    this.reading.set(uid, turn);
    let branch: Branch;
    try {
      let family = await this.read(uid, 0);
      const first = family;
      const dependents = [...(family.dependents ?? [])];
      while (dependents.length < wanted && dependents.length < family.total && (family.dependents ?? []).length > 0) {
        family = await this.read(uid, dependents.length);
        dependents.push(...(family.dependents ?? []));
      }
      branch = { family: { ...first, total: family.total }, dependents };
    } catch (error) {
      const before = this.branches.value.get(uid);
      branch = before?.family === undefined ? { dependents: [], failure: failureOf(error) } : { ...before, failure: failureOf(error) };
    }
    if (this.reading.get(uid) === turn) {
      this.reading.delete(uid);
      this.branches.value = new Map(this.branches.value).set(uid, branch);
    }
  }
}
