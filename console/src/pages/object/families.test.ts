import { waitFor } from "@testing-library/preact";
import { expect, test, vi } from "vitest";
import { Fixtures } from "../../../dev/fixtures.ts";
import { Failed } from "../../api/client.ts";
import { Families } from "./families.ts";

const f = new Fixtures(0);
const set = "7d400000-0000-4000-8000-000000000000";

test("dependents are read in parts, and all of those again after a change", async () => {
  const read = vi.fn((uid: string, from: number) => Promise.resolve(f.family(uid, from)));
  const families = new Families(read);
  const known = () => families.branches.value.get(set)?.dependents.length;
  families.open(set);
  families.open(set);
  await waitFor(() => expect(known()).toBe(200));
  families.open(set);
  expect(read).toHaveBeenCalledTimes(1);
  families.more(set);
  await waitFor(() => expect(known()).toBe(361));
  read.mockClear();
  families.refresh([set]);
  await waitFor(() => expect(read.mock.calls).toEqual([
    [set, 0, true],
    [set, 200, true],
  ]));
  expect(known()).toBe(361);
});

test("an object that was removed keeps what was read of it", async () => {
  let reads = 0;
  const families = new Families((uid, from) => (reads++ === 0 ? Promise.resolve(f.family(uid, from)) : Promise.reject(new Failed({ reason: "NotFound", message: "no such object" }, 404))));
  families.open(set);
  await waitFor(() => expect(families.branches.value.get(set)).toBeDefined());
  const before = families.branches.value;
  families.refresh([set]);
  await waitFor(() => expect(families.branches.value).not.toBe(before));
  expect(families.branches.value.get(set)).toBe(before.get(set));
});

test("a failure keeps what was read", async () => {
  let fails = false;
  const families = new Families((uid, from) => (fails ? Promise.reject(new Failed({ reason: "X", message: "no reply" }, 503)) : Promise.resolve(f.family(uid, from))));
  families.open(set);
  await waitFor(() => expect(families.branches.value.get(set)).toBeDefined());
  fails = true;
  families.refresh([set]);
  await waitFor(() => expect(families.branches.value.get(set)?.failure?.message).toBe("no reply"));
  expect(families.branches.value.get(set)?.dependents).toHaveLength(200);
  families.open("other");
  await waitFor(() => expect(families.branches.value.get("other")?.failure).toBeDefined());
  fails = false;
  families.retry("other");
  await waitFor(() => expect(families.branches.value.get("other")?.family).toBeDefined());
});
