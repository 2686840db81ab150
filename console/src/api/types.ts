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
  causes?: string[];
  call?: number;
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
  events?: EventFilter;
  after?: number;
  graph?: GraphAsk;
}

export interface News {
  id: number;
  overview?: Overview;
  changed?: boolean;
  deletion?: Progress;
  events?: Events;
  error?: Failure;
  lost?: string;
  found?: boolean;
}

export interface GraphFrame {
  first?: boolean;
  loading?: boolean;
  revision: number;
  objects: number;
  totals: number[] | null;
  shown: number;
  most: number;
  full?: boolean;
  depth: number;
  levels: number;
  partial?: boolean;
  trouble?: string;
  othersLeft?: number;
  outside: string[] | null;
  width: number;
  height: number;
  places: GraphPlace[] | null;
  removed: number;
  nodes: number;
  named: number;
  othersRemoved: number;
  othersAdded: number;
}

export interface GraphNext {
  uid?: string;
}

export interface Rights {
  delete: boolean;
  plan: boolean;
  removeFinalizers: string[] | null;
  forceFinalizers: string[] | null;
  listParked: boolean;
  retryParked: boolean;
  dropParked: boolean;
  resume: boolean;
  events: boolean;
}

export interface Plan {
  id: string;
  plan: string;
  revision: number;
  object: Ref;
  policy: string;
  counts: PlanCounts;
  says: string;
  confirm: boolean;
  goes: number;
  unbound?: boolean;
  waits: string[] | null;
  notes: string[] | null;
  root: PlanNode;
  below: PlanBelow;
  command?: string;
  missing: Missing[] | null;
}

export interface PlanBelow {
  nodes: PlanNode[] | null;
  from: number;
  total: number;
}

export interface Delete {
  object: Ref;
  plan: string;
  unbound?: boolean;
}

export interface Deleted {
  object: Ref;
  pending: boolean;
  revision: number;
  warnings: string[] | null;
}

export interface Progress {
  root: Ref;
  gone?: boolean;
  began: string;
  remaining: number;
  removed: number;
  rate: number;
  blocked: number;
  state: string;
  loading?: boolean;
  partial?: boolean;
  waiting: Terminating[] | null;
}

export interface RemoveFinalizer {
  object: Ref;
  finalizer: string;
  reason: string;
  force?: boolean;
  call?: number;
}

export interface Done {
  says: string;
  warnings: string[] | null;
}

export interface ParkedPage {
  work: ParkedWork[] | null;
  next?: number;
}

export interface ChangeParked {
  action: string;
  ids: number[] | null;
}

export interface ParkedResult {
  done: number;
  failed: string[] | null;
}

export interface EventFilter {
  resource?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  actor?: string;
  cause?: number;
  since?: string;
  until?: string;
}

export interface Events {
  rows: EventRow[] | null;
  before?: number;
  searched?: string;
  last: number;
  missing: Missing[] | null;
}

export interface Cascade {
  events: LogEvent[] | null;
  from?: number;
  skip?: number;
  searched?: string;
  missing: Missing[] | null;
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
  waits?: string;
  owners: number;
  dependents: number;
  below: number;
  controller?: boolean;
  blocking?: boolean;
}

export interface GraphAsk {
  namespace?: string;
  labels?: string;
  root?: string;
  open?: string[];
  shut?: string[];
  show?: string[];
}

export interface GraphPlace {
  resource: string;
  namespace?: string;
}

export interface Ref {
  resource: string;
  namespace?: string;
  name: string;
  uid?: string;
}

export interface PlanCounts {
  removed: number;
  removedLater: number;
  blocked: number;
  orphaned: number;
  stripped: number;
  kept: number;
  protected: number;
}

export interface PlanNode {
  resource: string;
  namespace?: string;
  name: string;
  uid?: string;
  group?: number;
  outcome: string;
  says: string;
  terminating?: boolean;
  uncertain?: boolean;
  children: number;
  below: number;
}

export interface ParkedWork {
  id: number;
  time: string;
  subject: string;
  by: string;
  attempts: number;
  error: string;
  says: string;
  object?: Ref;
}

export interface EventRow {
  root: number;
  mark?: string;
  first: number;
  last: number;
  begins: boolean;
  time: string;
  latest: string;
  actor?: string;
  verb?: string;
  note?: string;
  type?: string;
  object: Ref;
  objects: number;
  says?: string;
  counts: EventCount[] | null;
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

export interface EventCount {
  type: string;
  count: number;
  own?: number;
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
