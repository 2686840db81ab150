import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, expect } from "vitest";
import { closeBrowser, closeContexts, found, pages } from "./lib/browser.ts";
import { removeDirectories } from "./lib/coppice.ts";
import { endAll } from "./lib/program.ts";

/** Errors of pages fail a test. E2E_FAILURES is a directory for pictures of the pages of tests that fail. */
afterEach(async ({ task }) => {
  const problems = found();
  const failed = task.result?.state === "fail" || problems.length > 0;
  const dir = process.env.E2E_FAILURES;
  if (failed && dir !== undefined && dir !== "") {
    await mkdir(dir, { recursive: true });
    await Promise.all(pages().map((page, i) => page.screenshot({ path: join(dir, `${task.name.replaceAll(/[^a-z0-9]+/gi, "-")}-${i}.png`), fullPage: true })));
  }
  await closeContexts();
  expect(problems, "errors of the pages").toEqual([]);
});

afterAll(async () => {
  await closeBrowser();
  await endAll();
  await removeDirectories();
});
