import { count } from "./numbers.ts";

interface Words {
  /** word is the type of an event, as the beginning of a line. */
  word: string;
  /** one and many are what happened to a number of objects. */
  one: string;
  many: string;
  /** did is what somebody did to an object whose verb is not known. */
  did: string;
}

/** The types of events in plain words. */
const types: Record<string, Words> = {
  ObjectCreated: { word: "Created", one: "object created", many: "objects created", did: "created" },
  ObjectUpdated: { word: "Updated", one: "object updated", many: "objects updated", did: "updated" },
  DeletionMarked: { word: "Deletion began", one: "deletion began", many: "deletions began", did: "began to delete" },
  ObjectDeleted: { word: "Removed", one: "object removed", many: "objects removed", did: "removed" },
  FinalizerRemoved: { word: "Finalizer removed", one: "finalizer removed", many: "finalizers removed", did: "removed a finalizer from" },
  OwnerReferencesRemoved: { word: "Owner references removed", one: "object without references to its owners", many: "objects without references to their owners", did: "removed owner references from" },
  LossAccepted: { word: "Loss accepted", one: "loss accepted", many: "losses accepted", did: "accepted the loss of" },
  RealmContinued: { word: "Realm continued", one: "realm continued", many: "realms continued", did: "continued" },
  RealmResumed: { word: "Realm resumed", one: "realm resumed", many: "realms resumed", did: "resumed" },
  KeyChanged: { word: "Key changed", one: "key changed", many: "keys changed", did: "changed the key of" },
};

/** The verbs of commands in plain words. */
const verbs: Record<string, string> = {
  create: "created",
  update: "updated",
  updatestatus: "updated the status of",
  patch: "patched",
  apply: "applied",
  applyacross: "applied",
  import: "imported",
  restore: "restored",
  delete: "deleted",
  deletecollection: "deleted",
  deleteunreadable: "deleted unreadable",
  protect: "protected",
  unprotect: "removed the protection of",
  removefinalizer: "removed a finalizer from",
  forcefinalizer: "removed by force a finalizer from",
};

/** The reasons of events in plain words, as a sentence without its period. */
const reasons: Record<string, string> = {
  Requested: "Requested by a client",
  OwnerAbsent: "All owners of the object are gone",
  OwnerWaiting: "Its owner is being deleted in the foreground",
  OwnerOrphans: "Its owner is being deleted and orphans its dependents",
  SolidOwnerRemains: "Another owner remains",
  Finalized: "A finalizer or the agent has completed",
  Cycle: "The object waited for itself",
  InitializationFailed: "The initialization of the object failed",
  Container: "Its namespace or its kind is being deleted",
  Unreachable: "Only a cycle of owners refers to the object",
  Protected: "The object was protected",
  Unprotected: "The protection of the object was removed",
  Forced: "The finalizer was removed in place of its program",
  UseBound: "A use of the object was bound to the object of its name",
  Restored: "The object, or an owner reference of it, was restored",
};

/** reasonWord returns the reason of an event in words; the reason itself if it has none. */
export function reasonWord(reason: string): string {
  return Object.hasOwn(reasons, reason) ? (reasons[reason] ?? reason) : reason;
}

/** typeWord returns the type of an event in words; the type itself if it has none. */
export function typeWord(type: string): string {
  return Object.hasOwn(types, type) ? (types[type]?.word ?? type) : type;
}

/** typeCount returns a number of events of a type, such as "12,034 objects removed". */
export function typeCount(type: string, n: number): string {
  const words = Object.hasOwn(types, type) ? types[type] : undefined;
  return words === undefined ? `${count(n)} ${type}` : `${count(n)} ${n === 1 ? words.one : words.many}`;
}

/** did returns what a command did, such as "deleted". The type is that of its first event. */
export function did(verb: string | undefined, type: string | undefined): string {
  if (verb !== undefined && Object.hasOwn(verbs, verb)) {
    return verbs[verb] ?? verb;
  }
  return type !== undefined && Object.hasOwn(types, type) ? (types[type]?.did ?? type) : (verb ?? type ?? "changed");
}
