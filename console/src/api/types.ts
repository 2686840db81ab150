// Written from the types of cmd/coppice/internal/console/view by its test, with -update. Do not edit.

export interface SignIn {
  token?: string;
  user?: string;
  password?: string;
  credentials?: string;
}

export interface Ways {
  local: boolean;
  version: string;
}

export interface Session {
  user: string;
  local: boolean;
  csrf: string;
  version: string;
  realms: Realm[] | null;
  idleSeconds: number;
}

export interface Failure {
  reason: string;
  message: string;
  retry?: boolean;
}

export interface Overview {
  realm: string;
  revision: number;
  time: string;
  loading?: boolean;
  partial?: boolean;
  objects: number;
  terminating: number;
  garbage: number;
  writer?: string;
  paused?: boolean;
  deletions: Deletion[] | null;
  deletionsTotal: number;
  stuck: Stuck[] | null;
  longest: Terminating[] | null;
  finalizers: FinalizerInUse[] | null;
  warnings: Warning[] | null;
  warningsTotal: number;
  services: Service[] | null;
  storage?: Storage;
  missing: Missing[] | null;
}

export interface Kind {
  resource: string;
  kind: string;
  apiVersion: string;
  namespaced: boolean;
}

export interface ObjectPage {
  resource: string;
  namespace?: string;
  name: string;
  uid?: string;
  kind: Kind;
  state: string;
  revision?: number;
  manifest?: string;
  hidden?: boolean;
  explanation: Explanation;
  text: string;
  warnings: Warning[] | null;
  missing: Missing[] | null;
}

export interface History {
  events: LogEvent[] | null;
  complete: boolean;
  before?: number;
  skipped: number[] | null;
  missing: Missing[] | null;
}

export interface Family {
  revision: number;
  loading?: boolean;
  self: Relative;
  owners: Relative[] | null;
  dependents: Relative[] | null;
  from: number;
  total: number;
}

export interface Found {
  matches: Relative[] | null;
  more?: boolean;
  loading?: boolean;
}

export interface Ask {
  id: number;
  end?: boolean;
  realm?: string;
  view?: string;
  uid?: string;
}

export interface News {
  id: number;
  overview?: Overview;
  changed?: boolean;
  error?: Failure;
  lost?: string;
  found?: boolean;
}

export interface Realm {
  name: string;
  state?: string;
  writer?: string;
  waiting?: string;
}

export interface Deletion {
  root: Ref;
  gone?: boolean;
  began: string;
  remaining: number;
  removed: number;
  rate: number;
  blocked: number;
}

export interface Stuck {
  blocker: string;
  subject?: string;
  says: string;
  objects: number;
  oldest?: string;
  examples: Terminating[] | null;
  cure: Cure;
}

export interface Terminating {
  resource: string;
  namespace?: string;
  name: string;
  uid?: string;
  since: string;
  waitsFor?: string;
}

export interface FinalizerInUse {
  name: string;
  objects: number;
  terminating: number;
  oldest?: string;
  consumer: string;
  says: string;
}

export interface Warning {
  resource: string;
  namespace?: string;
  name: string;
  uid?: string;
  reason: string;
  message: string;
  time: string;
}

export interface Service {
  name: string;
  address: string;
  ready: boolean;
  waiting?: string;
  revision?: number;
  lag?: number;
}

export interface Storage {
  logBytes: number;
  stateBytes: number;
  archiveBytes: number;
  archived: boolean;
  archiveError?: string;
  diskBytes: number;
  diskFreeBytes: number;
  cutWaits?: string;
}

export interface Missing {
  part: string;
  why: string;
}

export interface Explanation {
  resource: string;
  namespace?: string;
  name: string;
  uid: string;
  state: string;
  summary: string;
  since?: string;
  because?: string[];
  causes?: Cause[];
  owners?: Owner[];
  finalizers?: Finalizer[];
  agent?: Agent;
  conditions?: Condition[];
  dependents?: Dependents;
  contents?: Remainder[];
  uses?: Use[];
  users?: number;
  usedBy?: string[];
  generation?: Generation;
  importEnds?: string;
  protected?: string;
  expiresAt?: string;
  notices?: Notice[];
  expiryPolicies?: ExpiryPolicy[];
  waitsForProtected?: string[];
  pending?: PendingWork[];
  skipped?: number[];
}

export interface LogEvent {
  resource: string;
  namespace?: string;
  name: string;
  uid?: string;
  revision: number;
  time: string;
  type: string;
  actor?: string;
  verb?: string;
  reason?: string;
  note?: string;
  detail?: string;
  cause?: number;
  because: string[] | null;
}

export interface Relative {
  resource: string;
  namespace?: string;
  name: string;
  uid?: string;
  state: string;
  owners: number;
  dependents: number;
  below: number;
  controller?: boolean;
  blocking?: boolean;
}

export interface Ref {
  resource: string;
  namespace?: string;
  name: string;
  uid?: string;
}

export interface Cure {
  says: string;
  command?: string;
}

export interface Cause {
  revision: number;
  time: string;
  type: string;
  resource: string;
  namespace?: string;
  name: string;
  actor: string;
  verb: string;
  reason: string;
}

export interface Owner {
  depth: number;
  of: string;
  owner: string;
  uid: string;
  class: string;
  why: string;
  unknownUntil?: string;
  controller?: boolean;
  blocking?: boolean;
  terminating?: boolean;
}

export interface Finalizer {
  name: string;
  builtIn?: boolean;
  since?: string;
  consumer?: string;
  process?: string;
  calls?: number;
  state?: string;
  failures?: number;
  lastError?: string;
  nextRetry?: string;
}

export interface Agent {
  until: string;
  consumer?: string;
  process?: string;
  calls?: number;
  state?: string;
  since?: string;
  failures?: number;
  lastError?: string;
  nextRetry?: string;
}

export interface Condition {
  type: string;
  status: string;
  reason: string;
  message: string;
  since?: string;
}

export interface Dependents {
  all: number;
  blocking: number;
  unmarked?: number;
  late?: LateDependents[];
  blockers?: Blocker[];
  truncated?: boolean;
}

export interface Remainder {
  object: string;
  namespace?: string;
  uid: string;
  blockedBy: string;
}

export interface Use {
  object: string;
  namespace?: string;
  state: string;
}

export interface Generation {
  awaited: number;
  observed: number;
}

export interface Notice {
  policy: string;
  given: string;
  ends: string;
  due?: string;
  answeredBy?: string;
  reason?: string;
  vetoUntil?: string;
}

export interface ExpiryPolicy {
  policy: string;
  says: string;
}

export interface PendingWork {
  object: string;
  what: string;
  since: string;
  due?: string;
}

export interface LateDependents {
  actor: string;
  count: number;
  last: string;
  time: string;
}

export interface Blocker {
  object: string;
  uid: string;
  blocked?: string;
}
