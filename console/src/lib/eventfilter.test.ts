import { expect, test } from "vitest";
import { absoluteTimes, type Choices, choicesOf, filterOf, fromLocalTime, localTime, objectChoices, objectText } from "./eventfilter.ts";
import { eventsPath, routeOf } from "./paths.ts";

test("choices are in the URL, and come back from it", () => {
  const all: Choices[] = [
    {},
    { resource: "deployments.apps", namespace: "shop", name: "a&b=c#d", uid: "u" },
    { actor: "ana+bob <x>", cause: "17", since: "2h", until: "2026-11-30T10:00:00Z" },
  ];
  for (const choices of all) {
    const url = new URL(eventsPath("a/b", choices), "http://console");
    expect(routeOf(url.pathname, url.search)).toEqual({ view: "events", realm: "a/b" });
    expect(choicesOf(url.search)).toEqual(choices);
  }
  expect(choicesOf("?actor=&cause=%20&other=x")).toEqual({});
});

test("relative times stay in the URL, and are absolute for the server", () => {
  const now = Date.parse("2026-11-30T10:00:00Z");
  expect(absoluteTimes({ since: "2h", until: "15m", actor: "ana" }, now)).toEqual({ since: "2026-11-30T08:00:00.000Z", until: "2026-11-30T09:45:00.000Z", actor: "ana" });
  expect(absoluteTimes({ since: "monday" }, now)).toEqual({ since: "monday" });
  expect(filterOf({ actor: "ana", cause: "12" })).toEqual({ actor: "ana", cause: 12 });
});

test("objects are written with their namespace", () => {
  for (const text of ["deployments.apps/shop/web", "namespaces/shop"]) {
    expect(objectText(objectChoices(text) ?? {})).toBe(text);
  }
  for (const wrong of ["", "web", "pods/", "/web", "pods/shop/", "a/b/c/d"]) {
    expect(objectChoices(wrong), wrong).toBeUndefined();
  }
});

test("fields of times keep the time", () => {
  const time = "2026-11-30T10:20:30.000Z";
  expect(fromLocalTime(localTime(time))).toBe(time);
  expect(localTime("2h")).toBe("");
  expect(fromLocalTime("")).toBeUndefined();
});
