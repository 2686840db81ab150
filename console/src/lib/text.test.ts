import { expect, test } from "vitest";
import { sentence, visible, visibleLines } from "./text.ts";

test("characters that are not seen are escaped", () => {
  expect(visible("photo\u202Egnp.exe")).toBe("photo\\u{202e}gnp.exe");
  for (const hidden of ["\u0000", "\n", "\u001b", "\u007f", "\u0085", "\u00ad", "\u061c", "\u200b", "\u200f", "\u2028", "\u2066", "\u2069", "\ufeff", "\u{e0041}", "\ud800"]) {
    expect(visible(`a${hidden}b`), hidden.codePointAt(0)?.toString(16)).toMatch(/^a\\u\{[0-9a-f]{4,}\}b$/);
  }
});

test("other texts stay", () => {
  for (const text of ["", "web-7d4", "größe", "日本語", "<img src=x onerror=alert(1)>", "a b", "עברית", "😀"]) {
    expect(visible(text)).toBe(text);
  }
});

test("lines stay in texts of several lines", () => {
  expect(visibleLines("a:\n\tb: \u202Ec\r\n")).toBe("a:\n\tb: \\u{202e}c\\u{000d}\n");
});

test("errors of the server are sentences", () => {
  expect(["no reply within 5s", "Too many.", "", "why?"].map(sentence)).toEqual(["No reply within 5s.", "Too many.", "", "Why?"]);
});
