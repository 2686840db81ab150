import { expect, test } from "vitest";
import { did, reasonWord, typeCount, typeWord } from "./eventwords.ts";

test("events and commands are said in plain words", () => {
  expect(typeWord("DeletionMarked")).toBe("Deletion began");
  expect(typeCount("ObjectDeleted", 12_034)).toBe("12,034 objects removed");
  expect(typeCount("ObjectDeleted", 1)).toBe("1 object removed");
  expect(reasonWord("OwnerWaiting")).toBe("Its owner is being deleted in the foreground");
  expect(did("delete", "DeletionMarked")).toBe("deleted");
  expect(did("propose", "ObjectDeleted")).toBe("removed");
});

test("what is not known keeps its own word", () => {
  for (const name of ["ObjectShrunk", "constructor", "__proto__"]) {
    expect(typeWord(name)).toBe(name);
    expect(typeCount(name, 2)).toBe(`2 ${name}`);
    expect(reasonWord(name)).toBe(name);
    expect(did(name, name)).toBe(name);
  }
});
