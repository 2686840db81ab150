import type { Ref } from "../api/types.ts";
import type { Choices } from "./eventfilter.ts";
import { type GraphChoice, graphQuery } from "./graphchoice.ts";

/** Route is what a URL shows. */
export type Route =
  | { view: "home" }
  | { view: "realms" }
  | { view: "overview"; realm: string }
  | { view: "events"; realm: string }
  | { view: "graph"; realm: string }
  | { view: "object"; realm: string; object: Ref }
  | { view: "delete"; realm: string; object: Ref; choice: Choice }
  | { view: "deletion"; realm: string; root: Root }
  | { view: "parked"; realm: string }
  | { view: "unknown" };

/** Choice is what a person has chosen for a deletion; what is undefined, the server chooses. */
export interface Choice {
  policy?: string;
  /** grace is the grace period in seconds. */
  grace?: number;
}

/** Root is the root of a deletion. Its names are a title until data arrives, and may be missing. */
export interface Root {
  uid: string;
  resource?: string;
  namespace?: string;
  name?: string;
  /** rev is the revision of the event that began the deletion. */
  rev?: number;
}

/** path builds a path of its parts, each of which may have any characters. */
export function path(...parts: string[]): string {
  return "/" + parts.map(encodeURIComponent).join("/");
}

/** query builds the part of a URL from "?" on, without what is undefined or empty. */
export function query(values: Record<string, string | number | undefined>): string {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== "");
  return set.length === 0 ? "" : "?" + set.map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`).join("&");
}

/** objectParts are the parts of a path that name an object, in URLs of pages and of the API. */
export function objectParts(object: Ref): [string, string, string] {
  return [object.resource, object.namespace ?? "-", object.name];
}

export function overviewPath(realm: string): string {
  return path("r", realm);
}

export function eventsPath(realm: string, choices: Choices = {}): string {
  return path("r", realm, "events") + query({ ...choices });
}

export function graphPath(realm: string, choice: GraphChoice = {}): string {
  return path("r", realm, "graph") + graphQuery(choice);
}

export function objectPath(realm: string, object: Ref): string {
  return path("r", realm, "o", ...objectParts(object)) + query({ uid: object.uid });
}

/** finalizersPath leads to the finalizers on the page of an object. */
export function finalizersPath(realm: string, object: Ref): string {
  return path("r", realm, "o", ...objectParts(object)) + query({ uid: object.uid, at: "finalizers" });
}

export function deletePath(realm: string, object: Ref, { policy, grace }: Choice = {}): string {
  return path("r", realm, "delete", ...objectParts(object)) + query({ uid: object.uid, policy, grace });
}

export function deletionPath(realm: string, { uid, resource, namespace, name, rev }: Root): string {
  return path("r", realm, "deletion", uid) + query({ resource, namespace, name, rev });
}

export function parkedPath(realm: string): string {
  return path("r", realm, "parked");
}

/** cascadePath is that of the events that follow from the one with a revision. */
export function cascadePath(realm: string, rev: number): string {
  return path("r", realm, "events") + query({ cause: rev });
}

/** routeOf is the inverse of the functions above. */
export function routeOf(pathname: string, search: string): Route {
  let parts: string[];
  try {
    parts = pathname.split("/").slice(1).map(decodeURIComponent);
  } catch {
    return { view: "unknown" }; // it has "%" without two digits
  }
  if (parts.length > 1 && parts.at(-1) === "") {
    parts.pop();
  }
  const [first, realm, third, resource, namespace, name] = parts;
  if (parts.length === 1 && first === "") {
    return { view: "home" };
  }
  if (parts.length === 1 && first === "realms") {
    return { view: "realms" };
  }
  if (first !== "r" || realm === undefined || realm === "") {
    return { view: "unknown" };
  }
  if (parts.length === 2) {
    return { view: "overview", realm };
  }
  if (parts.length === 3 && third === "events") {
    return { view: "events", realm };
  }
  if (parts.length === 3 && third === "graph") {
    return { view: "graph", realm };
  }
  const values = new URLSearchParams(search);
  const value = <K extends string>(key: K): Partial<Record<K, string>> => {
    const text = values.get(key);
    return (text ? { [key]: text } : {}) as Partial<Record<K, string>>;
  };
  const number = <K extends string>(key: K): Partial<Record<K, number>> => {
    const text = values.get(key) ?? "";
    return (/^\d{1,15}$/.test(text) ? { [key]: Number(text) } : {}) as Partial<Record<K, number>>;
  };
  if (parts.length === 6 && resource && namespace && name) {
    const object: Ref = { resource, name, ...(namespace === "-" ? {} : { namespace }), ...value("uid") };
    if (third === "o") {
      return { view: "object", realm, object };
    }
    if (third === "delete") {
      return { view: "delete", realm, object, choice: { ...value("policy"), ...number("grace") } };
    }
  }
  if (parts.length === 4 && third === "deletion" && resource) {
    return { view: "deletion", realm, root: { uid: resource, ...value("resource"), ...value("namespace"), ...value("name"), ...number("rev") } };
  }
  if (parts.length === 3 && third === "parked") {
    return { view: "parked", realm };
  }
  return { view: "unknown" };
}

/** nameOf returns an object's resource and name as the command line writes them. */
export function nameOf(object: Ref): string {
  return object.name === "" ? object.resource : `${object.resource}/${object.name}`;
}
