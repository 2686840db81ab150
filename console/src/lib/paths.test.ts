import { expect, test } from "vitest";
import type { Ref } from "../api/types.ts";
import { deletePath, deletionPath, objectPath, overviewPath, parkedPath, path, query, routeOf } from "./paths.ts";

function route(at: string) {
  const url = new URL(at, "http://console");
  return routeOf(url.pathname, url.search);
}

test("a URL leads back to what it was built of", () => {
  const names = ["web", "a/b", "a?b#c", "50%", "%2F", "a b", "../x", "größe", "<script>", "a&uid=1", '"', "\u202Ex", "a+b", "-"];
  for (const name of names) {
    expect(route(overviewPath(name))).toEqual({ view: "overview", realm: name });
    const object: Ref = { resource: "deployments.apps", namespace: "shop", name, uid: name };
    expect(route(objectPath(name, object))).toEqual({ view: "object", realm: name, object });
    const clusterScoped: Ref = { resource: name, name };
    expect(route(objectPath("default", clusterScoped))).toEqual({ view: "object", realm: "default", object: clusterScoped });
    const choice = { policy: "Foreground", grace: 0 };
    expect(route(deletePath(name, object, choice))).toEqual({ view: "delete", realm: name, object, choice });
    expect(route(deletePath("default", clusterScoped))).toEqual({ view: "delete", realm: "default", object: clusterScoped, choice: {} });
    const root = { ...object, uid: name, rev: 87 };
    expect(route(deletionPath(name, root))).toEqual({ view: "deletion", realm: name, root });
    expect(route(deletionPath("default", { uid: name }))).toEqual({ view: "deletion", realm: "default", root: { uid: name } });
    expect(route(parkedPath(name))).toEqual({ view: "parked", realm: name });
  }
});

test("each part is encoded", () => {
  expect(path("api", "realms", "a/b", "search")).toBe("/api/realms/a%2Fb/search");
  expect(query({ q: "a&b", uid: undefined, from: 200, none: "" })).toBe("?q=a%26b&from=200");
  expect(objectPath("default", { resource: "namespaces", name: "shop" })).toBe("/r/default/o/namespaces/-/shop");
});

test("numbers that are none are left out", () => {
  for (const text of ["-1", "x", "1e3", "0x1", "99999999999999999999"]) {
    expect(route(`/r/default/delete/pods/shop/a?grace=${text}`)).toMatchObject({ choice: {} });
    expect(route(`/r/default/deletion/u?rev=${text}`)).toEqual({ view: "deletion", realm: "default", root: { uid: "u" } });
  }
});

test("views", () => {
  expect(route("/")).toEqual({ view: "home" });
  expect(route("/realms")).toEqual({ view: "realms" });
  expect(route("/realms/")).toEqual({ view: "realms" });
  expect(route("/r/default/")).toEqual({ view: "overview", realm: "default" });
  for (const unknown of ["/x", "/r", "/r/", "/r/default/x", "/r/default/o/pods/shop", "/r/default/o/pods/shop/a/b", "/r/default/o/pods//a", "/r/default/delete/pods/shop", "/r/default/deletion", "/r/default/deletion/", "/r/default/parked/1", "/r/%E0%A4%A"]) {
    expect(route(unknown), unknown).toEqual({ view: "unknown" });
  }
});
