import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** The tests of the console in Chromium, with real services. Each wait has a limit of its own: see lib/limit.ts. */
export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  cacheDir: "../node_modules/.vite/e2e",
  test: {
    include: ["**/*.test.ts"],
    globalSetup: ["binary.ts"],
    setupFiles: ["setup.ts"],
    // A file has a browser and services of its own. Two at a time are what two cores carry.
    pool: "forks",
    maxWorkers: 2,
    // Many waits, each of which has its own limit.
    testTimeout: 300_000,
    hookTimeout: 120_000,
  },
});
