import { expect, test } from "vitest";
import { Fixtures } from "../../dev/fixtures.ts";
import { objectOf, pieces } from "./mentions.ts";

const { kinds } = new Fixtures(0);

test("objects that a text mentions are found, in their namespaces", () => {
  expect(pieces("deployments.apps/web waits for pods/a (shop), blocked by example.com/bucket.", "prod", kinds)).toEqual([
    { text: "deployments.apps/web", object: { resource: "deployments.apps", namespace: "prod", name: "web" } },
    " waits for ",
    { text: "pods/a", object: { resource: "pods", namespace: "shop", name: "a" } },
    " (shop), blocked by example.com/bucket.",
  ]);
  expect(pieces("because ana deleted namespaces/shop.", undefined, kinds)).toEqual(["because ana deleted ", { text: "namespaces/shop", object: { resource: "namespaces", name: "shop" } }, "."]);
});

test("a name that would be cut is no mention", () => {
  for (const text of ["configmaps/javascript:attacked('link') is kept", "configmaps/a(b), configmaps/a,b", "xpods/a(pods/b", "configmaps/it's"]) {
    expect(pieces(text, "shop", kinds)).toEqual([text]);
  }
  const mentioned = (text: string) => pieces(text, "shop", kinds).flatMap((piece) => (typeof piece === "string" ? [] : [piece.text]));
  expect(mentioned(`waits for (pods/a), "pods/b"; 'pods/c': pods/a:b, pods/ü-<b>. And configmaps/x…`)).toEqual(["pods/a", "pods/b", "pods/c", "pods/a:b", "pods/ü-<b>", "configmaps/x…"]);
});

test("what is not known to be an object is text", () => {
  for (const text of ["", "and/or", "pods/", "/web", "https://example.com/pods/a", "pods/a"]) {
    expect(pieces(text, undefined, kinds)).toEqual(text === "" ? [] : [text]);
  }
});

test("kinds are found by kind and group", () => {
  expect(objectOf("Deployment.apps/web", "shop", kinds, "u")).toEqual({ resource: "deployments.apps", namespace: "shop", name: "web", uid: "u" });
  expect(objectOf("Secret/tls", "shop", kinds)).toEqual({ resource: "secrets", namespace: "shop", name: "tls" });
  expect(objectOf("Namespace/shop", "other", kinds)).toEqual({ resource: "namespaces", name: "shop" });
  expect(objectOf("Pod/a", undefined, kinds)).toBeUndefined();
});

test("the class of an owner is no namespace", () => {
  expect(pieces("configmaps/web (solid) owns it", "shop", kinds)[0]).toEqual({ text: "configmaps/web", object: { resource: "configmaps", namespace: "shop", name: "web" } });
});
