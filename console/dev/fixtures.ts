import type { Cascade, EventRow, Events, Family, Found, History, Kind, ObjectPage, Overview, Ref, Relative, Session, Terminating, Ways } from "../src/api/types.ts";

/** What the server of development and the unit tests send. Times are before the time that is given. */
export class Fixtures {
  constructor(private readonly now: number) {}

  ago(seconds: number): string {
    return new Date(this.now - seconds * 1000).toISOString();
  }

  readonly ways: Ways = { local: false, version: "v0.9.0" };

  readonly session: Session = {
    user: "ana",
    local: false,
    csrf: "csrf-of-ana",
    version: "v0.9.0",
    realms: [
      { name: "default", state: "active", writer: "graph-1" },
      { name: "previews", state: "deleting", waiting: "its archive: 2 segments are not copied" },
      { name: "staging", state: "active", writer: "graph-2" },
    ],
    idleSeconds: 3600,
  };

  readonly kinds: Kind[] = [
    { resource: "deployments.apps", kind: "Deployment", apiVersion: "apps/v1", namespaced: true },
    { resource: "replicasets.apps", kind: "ReplicaSet", apiVersion: "apps/v1", namespaced: true },
    { resource: "pods", kind: "Pod", apiVersion: "v1", namespaced: true },
    { resource: "configmaps", kind: "ConfigMap", apiVersion: "v1", namespaced: true },
    { resource: "secrets", kind: "Secret", apiVersion: "v1", namespaced: true },
    { resource: "namespaces", kind: "Namespace", apiVersion: "v1", namespaced: false },
    { resource: "buckets.storage.example.com", kind: "Bucket", apiVersion: "storage.example.com/v1", namespaced: true },
  ];

  readonly web: Ref = { resource: "deployments.apps", namespace: "shop", name: "web", uid: "4b0c7a52-91de-4a0e-8a55-3f2a9f1a2c11" };
  readonly pod: Ref = { resource: "pods", namespace: "shop", name: "web-7d4-x", uid: "9d1e6f3a-0c55-47b1-b6f4-7a52e1c0d9aa" };

  healthy(): Overview {
    return {
      realm: "default",
      revision: 48_211,
      time: this.ago(0),
      objects: 12_408,
      writer: "graph-1",
      terminating: 0,
      garbage: 0,
      deletions: [],
      deletionsTotal: 0,
      stuck: null,
      longest: [],
      finalizers: [{ name: "example.com/bucket", objects: 310, terminating: 0, consumer: "Alive", says: "2 processes pull calls" }],
      warnings: [],
      warningsTotal: 0,
      services: [
        { name: "graph-1", address: "http://10.0.0.11:9440", ready: true, revision: 48_211 },
        { name: "graph-2", address: "http://10.0.0.12:9440", ready: true, revision: 48_211 },
      ],
      storage: { logBytes: 48_211_004, stateBytes: 91_220_114, archiveBytes: 0, archived: false, diskBytes: 107_374_182_400, diskFreeBytes: 81_000_000_000 },
      missing: [],
    };
  }

  busy(): Overview {
    const t = (object: Ref, seconds: number, waitsFor?: string): Terminating => ({ ...object, since: this.ago(seconds), ...(waitsFor === undefined ? {} : { waitsFor }) });
    const bucket = (n: number): Ref => ({ resource: "buckets.storage.example.com", namespace: "previews", name: `pr-${n}-artifacts`, uid: `b0c4e700-0000-4000-8000-${String(n).padStart(12, "0")}` });
    const worker: Ref = { resource: "replicasets.apps", namespace: "shop", name: "worker-5f7", uid: "1f3c8b7e-6a1f-4ce9-93cc-51a1b8ad0001" };
    return {
      ...this.healthy(),
      revision: 48_930,
      objects: 12_811,
      terminating: 1_422,
      garbage: 17,
      stuck: [
        {
          blocker: "Finalizer",
          subject: "example.com/dns",
          says: "No program runs the finalizer example.com/dns: 12 objects wait for it.",
          objects: 12,
          oldest: this.ago(3 * 86_400 + 7_200),
          examples: [t(bucket(1180), 3 * 86_400 + 7_200), t(bucket(1204), 2 * 86_400), t(bucket(1211), 86_400 + 3_000), t(bucket(1220), 50_000), t(bucket(1221), 49_000)],
          cure: { says: "Start the program that runs it, or remove the finalizer by force if its work is done:", command: "coppice remove-finalizer buckets.storage.example.com/pr-1180-artifacts example.com/dns -n previews --reason 'zone is gone'" },
        },
        {
          blocker: "Parked",
          subject: "example.com/bucket",
          says: "The call of example.com/bucket for 1 object is parked after 5 attempts: no bucket.",
          objects: 1,
          oldest: this.ago(7_300),
          examples: [t(this.pod, 7_300)],
          cure: { says: "Repair what the error names, then have the call tried again:", command: "coppice parked retry pods/web-7d4-x -n shop" },
        },
        {
          blocker: "Brake",
          subject: "pods",
          says: "The brake of pods is tripped: the collector has deleted 500 of them within 10 minutes.",
          objects: 903,
          oldest: this.ago(640),
          examples: [t({ resource: "pods", namespace: "shop", name: "worker-5f7-2x9", uid: "1f3c8b7e-6a1f-4ce9-93cc-51a1b8ad0002" }, 640)],
          cure: { says: "If these deletions are meant, let them continue:", command: "coppice brake release pods" },
        },
        {
          blocker: "UnknownOwner",
          says: "4 objects name owners that Coppice has never seen. They are kept until the owner grace ends.",
          objects: 4,
          oldest: this.ago(500),
          examples: [t({ resource: "configmaps", namespace: "shop", name: "legacy\u202Egnp.settings", uid: "1f3c8b7e-6a1f-4ce9-93cc-51a1b8ad0003" }, 500)],
          cure: { says: "Import the owners, or remove the references to them." },
        },
      ],
      deletions: [
        { root: { resource: "namespaces", name: "previews", uid: "77a0d3c1-1111-4222-8333-944455556666" }, began: this.ago(3 * 86_400 + 7_300), remaining: 1_211, removed: 4_802, rate: 212.4, blocked: 12 },
        { root: worker, began: this.ago(660), remaining: 181, removed: 40, rate: 0, blocked: 0 },
        { root: this.web, began: this.ago(7_320), remaining: 3, removed: 1, rate: 0, blocked: 1 },
        { root: { resource: "deployments.apps", namespace: "shop", name: "checkout-with-a-rather-long-name-of-a-preview-environment", uid: "77a0d3c1-1111-4222-8333-944455557777" }, gone: true, began: this.ago(21), remaining: 27, removed: 90, rate: 4.2, blocked: 0 },
      ],
      deletionsTotal: 6,
      longest: [
        t(bucket(1180), 3 * 86_400 + 7_200, "finalizer example.com/dns"),
        t(bucket(1204), 2 * 86_400, "finalizer example.com/dns"),
        t(bucket(1211), 86_400 + 3_000, "finalizer example.com/dns"),
        t(this.web, 7_320, "1 dependent"),
        t(this.pod, 7_300, "finalizer example.com/bucket"),
        t(worker, 660),
      ],
      finalizers: [
        { name: "example.com/dns", objects: 300, terminating: 12, oldest: this.ago(3 * 86_400 + 7_200), consumer: "None", says: "no consumer; no program has ever pulled its calls" },
        { name: "example.com/bucket", objects: 310, terminating: 4, oldest: this.ago(7_300), consumer: "Failing", says: "bucket-controller-0 fails: no bucket" },
        { name: "example.com/certificates", objects: 44, terminating: 2, oldest: this.ago(12), consumer: "Busy", says: "2 calls in progress" },
        { name: "backup.example.com/final-snapshot", objects: 9, terminating: 0, consumer: "Silent", says: "the consumer has not pulled for 20 minutes" },
      ],
      warnings: [
        { ...this.pod, reason: "FinalizerParked", message: "finalizer example.com/bucket is parked after 5 attempts: no bucket", time: this.ago(7_100) },
        { resource: "configmaps", namespace: "shop", name: "web", uid: "c0ffee00-0000-4000-8000-000000000001", reason: "OwnerMismatch", message: "the owner reference to deployments.apps/api has the uid of another object", time: this.ago(20_000) },
        { resource: "", name: "", reason: "ArchiveFailing", message: "the archive has not been written for 3 hours", time: this.ago(11_000) },
      ],
      warningsTotal: 9,
      services: [
        { name: "graph-1", address: "http://10.0.0.11:9440", ready: true, revision: 48_930 },
        { name: "graph-2", address: "http://10.0.0.12:9440", ready: true, revision: 48_918, lag: 12 },
        { name: "processor-1", address: "http://10.0.0.13:9440", ready: true },
        { name: "finalizers-1", address: "http://10.0.0.14:9440", ready: false, waiting: "cannot be reached: connection refused" },
      ],
      storage: {
        logBytes: 948_211_004,
        stateBytes: 191_220_114,
        archiveBytes: 5_948_211_004,
        archived: true,
        archiveError: "write s3://archive/default/00048: access denied; give the user of the archiver the permission to write",
        diskBytes: 107_374_182_400,
        diskFreeBytes: 9_900_000_000,
        cutWaits: "the archive has not copied commits 40,112 to 48,930",
      },
      missing: [{ part: "consumers of finalizers and agents", why: "the finalizers service does not answer; start one, or wait until it is ready" }],
    };
  }

  terminating(): ObjectPage {
    return {
      ...this.web,
      kind: { resource: "deployments.apps", kind: "Deployment", apiVersion: "apps/v1", namespaced: true },
      state: "Terminating",
      revision: 48_812,
      manifest: `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: ${this.web.uid ?? ""}
  resourceVersion: "48812"
  generation: 3
  creationTimestamp: "${this.ago(864_000)}"
  deletionTimestamp: "${this.ago(7_320)}"
  finalizers:
  - foregroundDeletion
  labels:
    app: web
spec:
  replicas: 2
  selector:
    matchLabels:
      app: web
status:
  readyReplicas: 1
`,
      explanation: {
        ...this.web,
        uid: this.web.uid ?? "",
        state: "Terminating",
        summary: "deployments.apps/web is being deleted in the foreground since 10:33:05 and waits for 1 dependent: pods/web-7d4-x, blocked by example.com/bucket (parked after 5 attempts: no bucket)",
        since: this.ago(7_320),
        because: ["ana deleted deployments.apps/web"],
        causes: [{ revision: 48_812, time: this.ago(7_320), type: "DeletionMarked", resource: "deployments.apps", namespace: "shop", name: "web", actor: "ana", verb: "delete", reason: "Requested" }],
        owners: [{ depth: 0, of: "deployments.apps/web", owner: "buckets.storage.example.com/assets", uid: "b0c4e700-0000-4000-8000-000000000007", class: "Solid", why: "the owner exists", controller: true, blocking: true }],
        finalizers: [
          { name: "foregroundDeletion", builtIn: true, since: this.ago(7_320) },
          { name: "example.com/bucket", since: this.ago(7_300), consumer: "Failing", process: "bucket-controller-0", calls: 4, state: "Parked", failures: 5, lastError: "no bucket" },
          { name: "example.com/dns", since: this.ago(7_300), consumer: "Failing", process: "dns-0", calls: 1, state: "Failed", failures: 2, lastError: "dial tcp 10.1.2.3:443: i/o timeout", nextRetry: this.ago(-42) },
        ],
        conditions: [{ type: "DeletionBlocked", status: "True", reason: "FinalizerParked", message: "finalizer example.com/bucket is parked", since: this.ago(7_100) }],
        dependents: { all: 2, blocking: 1, unmarked: 1, blockers: [{ object: "pods/web-7d4-x", uid: this.pod.uid ?? "", blocked: "blocked by example.com/bucket (parked after 5 attempts: no bucket)" }], late: [{ actor: "bob", count: 1, last: "configmaps/late", time: this.ago(600) }] },
        pending: [{ object: "deployments.apps/web", what: "examine dependents", since: this.ago(20) }],
        uses: [{ object: "Secret/tls", state: "resolved" }],
        users: 1,
        usedBy: ["deployments.apps/gateway"],
        expiresAt: this.ago(-86_400),
      },
      text: "deployments.apps/web is being deleted in the foreground since 10:33:05 and waits for 1 dependent: pods/web-7d4-x, blocked by example.com/bucket (parked after 5 attempts: no bucket)\n\nWhy:         ana deleted deployments.apps/web\nOwners:\n  buckets.storage.example.com/assets   controller, blocking   solid: the owner exists\nDependents:  2 objects (1 blocking)\nFinalizers:\n  foregroundDeletion   for 2h   built in\n  example.com/bucket   for 2h   parked after 5 attempts: no bucket\nBlocked by:\n  pods/web-7d4-x  blocked by example.com/bucket\n",
      warnings: [{ ...this.web, reason: "FinalizerParked", message: "a finalizer below this object is parked", time: this.ago(7_100) }],
      missing: [],
    };
  }

  secret(reveal: boolean): ObjectPage {
    const ref: Ref = { resource: "secrets", namespace: "shop", name: "tls", uid: "5ec4e700-0000-4000-8000-000000000001" };
    const head = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: tls\n  namespace: shop\n";
    return {
      ...ref,
      kind: { resource: "secrets", kind: "Secret", apiVersion: "v1", namespaced: true },
      state: "Active",
      revision: 77,
      manifest: head + (reveal ? "data:\n  password: aHVudGVyMg==\n" : "data:\n  password: (not shown)\n"),
      ...(reveal ? {} : { hidden: true }),
      explanation: { ...ref, uid: ref.uid ?? "", state: "Active", summary: "secrets/tls is kept: it has no owners" },
      text: "secrets/tls is kept: it has no owners\n",
      warnings: null,
      missing: [{ part: "expiry policies", why: "the user may not list expirypolicies; ask an administrator for the verb list" }],
    };
  }

  removed(): ObjectPage {
    const ref: Ref = { resource: "pods", namespace: "shop", name: "web-7d4-k", uid: "9d1e6f3a-0c55-47b1-b6f4-7a52e1c0d9bb" };
    return {
      ...ref,
      kind: { resource: "pods", kind: "Pod", apiVersion: "v1", namespaced: true },
      state: "Removed",
      explanation: {
        ...ref,
        uid: ref.uid ?? "",
        state: "Removed",
        summary: "pods/web-7d4-k was removed at 10:33:05, because replicasets.apps/web-7d4 was deleting in the foreground, because ana deleted deployments.apps/web",
        since: this.ago(7_315),
        because: ["replicasets.apps/web-7d4 was deleting in the foreground", "ana deleted deployments.apps/web"],
      },
      text: "pods/web-7d4-k was removed at 10:33:05\n",
      warnings: null,
      missing: null,
    };
  }

  relative(object: Ref, state: string, owners: number, dependents: number, below = dependents): Relative {
    return { ...object, state, owners, dependents, below };
  }

  /** family has three levels below the Deployment, with more dependents of the second than one reply has. */
  family(uid: string, from = 0): Family {
    const self = this.relative(this.web, "Terminating", 1, 2, 364);
    const assets = this.relative({ resource: "buckets.storage.example.com", namespace: "shop", name: "assets", uid: "b0c4e700-0000-4000-8000-000000000007" }, "Protected", 0, 1, 365);
    const set = this.relative({ resource: "replicasets.apps", namespace: "shop", name: "web-7d4", uid: "7d400000-0000-4000-8000-000000000000" }, "Blocked", 1, 361);
    const config = this.relative({ resource: "configmaps", namespace: "shop", name: "web", uid: "c0ffee00-0000-4000-8000-000000000001" }, "Present", 2, 0);
    const states = ["Blocked", "Terminating", "Present", "UnknownOwner", "Garbage", "Protected", "Absent"];
    const pods = Array.from({ length: set.dependents }, (_, i): Relative =>
      i === 0
        ? { ...this.relative(this.pod, "Blocked", 1, 0), controller: true, blocking: true }
        : { ...this.relative({ resource: "pods", namespace: "shop", name: `web-7d4-${String(i).padStart(3, "0")}`, uid: `9d1e6f3a-0000-4000-8000-${String(i).padStart(12, "0")}` }, states[i % states.length] ?? "", 1, 0), controller: true },
    );
    const family = (of: Relative, owners: Relative[], dependents: Relative[]): Family => ({
      revision: 48_930,
      self: of,
      owners,
      dependents: dependents.slice(from, from + 200),
      from,
      total: dependents.length,
    });
    switch (uid) {
      case set.uid:
        return family(set, [self], pods);
      case assets.uid:
        return family(assets, [], [self]);
      case self.uid:
        return family(self, [{ ...assets, controller: true, blocking: true }], [{ ...set, controller: true, blocking: true }, config]);
    }
    return family(this.relative({ resource: "pods", namespace: "shop", name: "other", uid }, "Present", 1, 0), [set], []);
  }

  found(q: string): Found {
    const all = [this.relative(this.web, "Terminating", 1, 2), this.relative(this.pod, "Blocked", 1, 0), this.relative({ resource: "configmaps", namespace: "shop", name: "web", uid: "c0ffee00-0000-4000-8000-000000000001" }, "Present", 2, 0)];
    return { matches: all.filter((r) => r.name.includes(q)), more: true };
  }

  /** events has a deletion whose command is in olderEvents. */
  events(): Events {
    const row = (root: number, last: number, ago: number, more: Partial<EventRow>): EventRow => {
      const time = this.ago(ago);
      return { root, first: last, last, begins: true, time, latest: time, object: this.web, objects: 1, counts: [{ type: "ObjectUpdated", count: 1, own: 1 }], actor: "ana", verb: "apply", type: "ObjectUpdated", ...more };
    };
    return {
      rows: [
        row(48_940, 940, 30, { note: "generation 4" }),
        { ...row(48_812, 930, 600, { begins: false, verb: "delete", type: "DeletionMarked", counts: [{ type: "DeletionMarked", count: 2 }, { type: "ObjectDeleted", count: 12_030 }] }), time: this.ago(7_320) },
        { root: 0, mark: "Realm", first: 920, last: 920, begins: false, time: this.ago(700), latest: this.ago(700), object: { resource: "", name: "" }, objects: 0, counts: [], type: "RealmResumed", actor: "ana", says: "The realm was resumed: it deletes objects again." },
        row(48_800, 915, 90_000, { actor: "ci", verb: "import", type: "ObjectCreated", objects: 40, counts: [{ type: "ObjectCreated", count: 40, own: 40 }] }),
        { root: 0, mark: "Skipped", first: 912, last: 912, begins: false, time: this.ago(90_100), latest: this.ago(90_100), object: { resource: "", name: "" }, objects: 0, counts: [], says: "The message at position 912 of the log is no commit of the realm, and graph services skip it: it has no key of the realm." },
      ],
      before: 900,
      last: 940,
      searched: this.ago(90_100),
      missing: [],
    };
  }

  olderEvents(): Events {
    const [, deletion] = this.events().rows ?? [];
    if (deletion === undefined) {
      throw new Error("the events have a deletion");
    }
    const time = this.ago(7_320);
    return {
      rows: [
        { ...deletion, begins: true, first: 850, last: 860, time, latest: time, counts: [{ type: "DeletionMarked", count: 1, own: 1 }, { type: "ObjectDeleted", count: 4 }] },
        { root: 0, mark: "Lost", first: 1, last: 800, begins: false, time: this.ago(100_000), latest: this.ago(100_000), object: { resource: "", name: "" }, objects: 0, counts: [], says: "Commits cannot be read: sequence 1 is neither in the log nor in the archive any more." },
      ],
      last: 940,
      missing: [],
    };
  }

  cascade(root: number, later: boolean): Cascade {
    const [removed, marked, updated] = this.history().events ?? [];
    if (removed === undefined || marked === undefined || updated === undefined) {
      throw new Error("a history has events");
    }
    if (root !== 48_812) {
      return { events: [{ ...updated, revision: root }], missing: [] };
    }
    return later
      ? { events: [{ ...removed, ...this.pod, revision: 48_935, type: "ObjectDeleted" }], missing: [] }
      : { events: [marked, removed], from: 930, skip: 2, searched: this.ago(600), missing: [] };
  }

  history(before?: number): History {
    if (before !== undefined) {
      return { events: [{ ...this.web, revision: 41_002, time: this.ago(864_000), type: "ObjectCreated", actor: "ci", verb: "import", reason: "Requested", because: [] }], complete: true, skipped: [], missing: [] };
    }
    return {
      events: [
        { ...this.web, revision: 48_930, time: this.ago(600), type: "OwnerReferencesRemoved", detail: "references to deployments.apps/api", cause: 48_929, because: ["replicasets.apps/web-7d4 was deleting in the foreground", "ana deleted deployments.apps/web"] },
        { ...this.web, revision: 48_812, time: this.ago(7_320), type: "DeletionMarked", actor: "ana", verb: "delete", reason: "Requested", detail: "finalizers foregroundDeletion", because: ["ana deleted deployments.apps/web"] },
        { ...this.web, revision: 47_200, time: this.ago(90_000), type: "ObjectUpdated", actor: "ci", verb: "apply", reason: "Requested", note: "generation 3", because: [] },
      ],
      complete: false,
      before: 47_000,
      skipped: [12, 13],
      missing: [],
    };
  }
}
