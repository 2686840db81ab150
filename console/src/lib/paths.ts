import type { Ref } from "../api/types.ts";

/** Route is what a URL shows. */
export type Route =
  | { view: "home" }
  | { view: "realms" }
  | { view: "overview"; realm: string }
  | { view: "object"; realm: string; object: Ref }
  | { view: "unknown" };

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

export function objectPath(realm: string, object: Ref): string {
  return path("r", realm, "o", ...objectParts(object)) + query({ uid: object.uid });
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
  if (parts.length === 6 && third === "o" && resource && namespace && name) {
    const uid = new URLSearchParams(search).get("uid");
    return { view: "object", realm, object: { resource, name, ...(namespace === "-" ? {} : { namespace }), ...(uid ? { uid } : {}) } };
  }
  return { view: "unknown" };
}

/** nameOf returns an object's resource and name as the command line writes them. */
export function nameOf(object: Ref): string {
  return object.name === "" ? object.resource : `${object.resource}/${object.name}`;
}
