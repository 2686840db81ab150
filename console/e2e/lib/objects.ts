import { createHash } from "node:crypto";

/** Manifest is an object as coppice imports it. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    uid: string;
    creationTimestamp?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    finalizers?: string[];
    ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string; controller?: boolean; blockOwnerDeletion?: boolean }[];
  };
  [member: string]: unknown;
}

export interface Details {
  namespace?: string;
  owners?: Manifest[];
  finalizers?: string[];
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  /** more are members next to metadata. */
  more?: Record<string, unknown>;
}

const versions: Record<string, string> = { Deployment: "apps/v1", ReplicaSet: "apps/v1", StatefulSet: "apps/v1", Job: "batch/v1" };

/** object returns an object of a kind that each realm has. Its uid follows from its kind, namespace and name. */
export function object(kind: string, name: string, { namespace = "shop", owners = [], finalizers, labels, annotations, more }: Details = {}): Manifest {
  const hash = createHash("sha256").update(`${kind} ${namespace} ${name}`).digest("hex");
  return {
    apiVersion: versions[kind] ?? "v1",
    kind,
    metadata: {
      name,
      namespace,
      uid: `${hash.slice(0, 8)}-${hash.slice(8, 12)}-4${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`,
      ...(labels === undefined ? {} : { labels }),
      ...(annotations === undefined ? {} : { annotations }),
      ...(finalizers === undefined ? {} : { finalizers }),
      ...(owners.length === 0 ? {} : { ownerReferences: owners.map(reference) }),
    },
    ...more,
  };
}

/** reference is a reference to the controller of an object, whose deletion in the foreground waits for it. */
function reference({ apiVersion, kind, metadata: { name, uid } }: Manifest) {
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** family returns a Deployment, its ReplicaSet and ConfigMaps below it. The first of them has the finalizers. */
export function family(name: string, { below = 3, finalizers = [], namespace = "shop" }: { below?: number; finalizers?: string[]; namespace?: string } = {}): Manifest[] {
  const root = object("Deployment", name, { namespace });
  const middle = object("ReplicaSet", `${name}-7d4`, { namespace, owners: [root] });
  const leaves = Array.from({ length: below }, (_, i) =>
    object("ConfigMap", `${name}-7d4-${i}`, { namespace, owners: [middle], ...(i === 0 && finalizers.length > 0 ? { finalizers } : {}) }),
  );
  return [root, middle, ...leaves];
}

/** list is what coppice import reads. */
export function list(objects: Manifest[]): string {
  return JSON.stringify({ apiVersion: "v1", kind: "List", items: objects });
}

/** path is that of the page of an object. */
export function path(resource: string, { metadata: { namespace = "-", name, uid } }: Manifest, realm = "default"): string {
  return `/r/${[realm, "o", resource, namespace, name].map(encodeURIComponent).join("/")}?uid=${uid}`;
}
