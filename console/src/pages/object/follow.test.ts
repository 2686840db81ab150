import { expect, test } from "vitest";
import { Fixtures } from "../../../dev/fixtures.ts";
import { Following, above, mostFollowed, openIn } from "./follow.ts";
import { rowsOf } from "./rows.ts";

test("what stays is not asked for again, and what is not wanted ends", () => {
  const said: string[] = [];
  const following = new Following((uid) => {
    said.push(`ask ${uid}`);
    return () => said.push(`end ${uid}`);
  });
  following.want(["a", "b"]);
  following.want(["b", "c"]);
  following.want([]);
  expect(said).toEqual(["ask a", "ask b", "end a", "ask c", "end b", "end c"]);
  said.length = 0;
  following.want(Array.from({ length: mostFollowed + 5 }, (_, i) => String(i)));
  expect(said).toHaveLength(mostFollowed);
});

test("the rows above an object show what is below it", () => {
  const f = new Fixtures(0);
  const web = f.web.uid ?? "";
  const set = "7d400000-0000-4000-8000-000000000000";
  const branches = new Map([web, set].map((uid) => [uid, { family: f.family(uid), dependents: f.family(uid).dependents ?? [] }]));
  const rows = rowsOf(web, branches, new Set(["owners", "dependents", `dependents:${set}`]));
  expect(openIn(rows)).toEqual([set]);
  expect(above(rows, f.pod.uid ?? "")).toEqual([f.pod.uid, set]);
  expect(above(rows, "none")).toEqual([]);
});
