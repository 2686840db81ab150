import { signal } from "@preact/signals";
import { failureOf } from "../../api/client.ts";
import type { Plan, PlanBelow } from "../../api/types.ts";
import { type Branch, partsOf } from "./rows.ts";

/** Branches reads the nodes of a plan, as rows of the tree are opened. */
export class Branches {
  readonly known = signal<ReadonlyMap<string, Branch>>(new Map());
  private readonly reading = new Set<string>();

  /** forgotten is called if the console does not know the plan any more. */
  constructor(
    plan: Plan,
    private readonly read: (uid: string, resource: string | undefined, from: number) => Promise<PlanBelow>,
    private readonly forgotten: () => void,
  ) {
    this.known.value = new Map([[plan.root.uid ?? "", { nodes: plan.below.nodes ?? [], total: plan.below.total }]]);
  }

  /** open reads the first nodes, unless they are known or could not be read. */
  open(id: string): void {
    if (!this.known.value.has(id)) {
      void this.more(id);
    }
  }

  /** more reads the next nodes, or again what could not be read. */
  async more(id: string): Promise<void> {
    if (this.reading.has(id)) {
      return;
    }
    this.reading.add(id);
    const before = this.known.value.get(id);
    const nodes = before?.nodes ?? [];
    const { uid, resource } = partsOf(id);
    let after: Branch;
    try {
      const below = await this.read(uid, resource, nodes.length);
      after = { nodes: [...nodes, ...(below.nodes ?? [])], total: below.total };
    } catch (error) {
      const failure = failureOf(error);
      after = { nodes, ...(before?.total === undefined ? {} : { total: before.total }), failure };
      if (failure.reason === "NotFound") {
        this.forgotten();
      }
    }
    this.reading.delete(id);
    this.known.value = new Map(this.known.value).set(id, after);
  }
}
