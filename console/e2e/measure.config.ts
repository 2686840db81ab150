import { mergeConfig } from "vitest/config";
import tests from "./vitest.config.ts";

/** Measures the graph in Chromium, and writes what docs/performance.md has of it: npm run measure. */
export default mergeConfig({ ...tests, test: { ...tests.test, include: [] } }, { test: { include: ["measure.ts"], testTimeout: 3_600_000, hookTimeout: 3_600_000 } });
