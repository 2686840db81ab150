import type { Deleted, Failure, ParkedPage, Plan, PlanBelow, PlanNode, Progress, Rights } from "../src/api/types.ts";
import { Fixtures } from "./fixtures.ts";

/** What the server of development and the unit tests send about deletions and repairs. */
export class Deletions {
  readonly set = "7d400000-0000-4000-8000-000000000000";
  private readonly f: Fixtures;

  constructor(private readonly now: number) {
    this.f = new Fixtures(now);
  }

  /** rights are those of a user who may do all of it. */
  rights(finalizers: string[]): Rights {
    return { delete: true, plan: true, removeFinalizers: finalizers, forceFinalizers: finalizers, listParked: true, retryParked: true, dropParked: true, resume: true, events: true };
  }

  readonly reader: Rights = { delete: false, plan: false, removeFinalizers: [], forceFinalizers: [], listParked: false, retryParked: false, dropParked: false, resume: false, events: false };

  private node(resource: string, name: string, uid: string, more: Partial<PlanNode> = {}): PlanNode {
    return { resource, namespace: "shop", name, uid, outcome: "Removed", says: "removed", children: 0, below: 0, ...more };
  }

  /** plan is of the Deployment web, with 360 Pods below its ReplicaSet. */
  plan(policy: string, more: Partial<Plan> = {}): Plan {
    const { web } = this.f;
    return {
      id: `id-of-${policy}`,
      plan: `${policy.toLowerCase()}-8a3c8b8e61cf3e52@48930`,
      revision: 48_930,
      object: web,
      policy,
      counts: { removed: 361, removedLater: 1, blocked: 1, orphaned: 0, stripped: 1, kept: 0, protected: 0 },
      says: "363 objects removed, 1 of them blocked",
      confirm: true,
      goes: 363,
      waits: ["1 object then waits for the finalizer example.com/bucket: no program asks for its calls."],
      notes: ["example.com/bucket took 40 s lately for an object\u202E"],
      root: this.node("deployments.apps", "web", web.uid ?? "", { children: 2, below: 363 }),
      below: { nodes: [this.node("replicasets.apps", "web-7d4", this.set, { children: 2, below: 361 }), this.node("configmaps", "web", "c0ffee00-0000-4000-8000-000000000001", { outcome: "Stripped", says: "keeps another owner" })], from: 0, total: 2 },
      command: `coppice delete deployments.apps/web -n shop --plan=${policy.toLowerCase()}-8a3c8b8e61cf3e52@48930`,
      missing: [],
      ...more,
    };
  }

  below(uid: string, resource: string | null, from: number): PlanBelow {
    if (uid !== this.set) {
      return { nodes: [], from, total: 0 };
    }
    if (resource === null) {
      const pods: PlanNode = { resource: "pods", name: "", group: 360, outcome: "Removed", says: "removed", children: 360, below: 360 };
      return { nodes: [this.node("pods", "web-7d4-x", this.f.pod.uid ?? "", { outcome: "Blocked", says: "blocked by example.com/bucket" }), pods], from, total: 2 };
    }
    const size = Math.min(200, 360 - from);
    return { nodes: Array.from({ length: size }, (_, i) => this.node(resource, `web-7d4-${String(from + i).padStart(3, "0")}`, `9d1e0000-0000-4000-8000-${String(from + i).padStart(12, "0")}`)), from, total: 360 };
  }

  readonly deleted: Deleted = { object: { ...new Fixtures(0).web }, pending: true, revision: 48_931, warnings: [] };

  readonly changed: Failure = { reason: "Conflict", message: "the plan is not what the deletion would do now", causes: ["pods/web-7d4-400 in shop was created", "the counts differ"] };

  progress(state: string, more: Partial<Progress> = {}): Progress {
    return {
      root: this.f.web,
      began: new Date(this.now - 72_000).toISOString(),
      remaining: 4_034,
      removed: 8_000,
      rate: 212.4,
      blocked: 1,
      state,
      waiting: [{ ...this.f.pod, since: this.f.ago(70), waitsFor: "finalizer example.com/bucket" }],
      ...more,
    };
  }

  parked(after: number): ParkedPage {
    const work = (id: number) => ({ id, time: this.f.ago(7_100 - id), subject: `coppice.default.work.${id}`, by: "finalizers-1", attempts: 5, error: `no bucket ${id}`, says: `the call ${id} of finalizer example.com/bucket` });
    if (after > 0) {
      return { work: [work(3)] };
    }
    return { work: [{ ...work(1), object: this.f.pod }, work(2)], next: 2 };
  }
}
