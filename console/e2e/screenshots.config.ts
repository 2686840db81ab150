import { mergeConfig } from "vitest/config";
import tests from "./vitest.config.ts";

/** Writes the pictures of docs/console.md: npm run screenshots. */
export default mergeConfig({ ...tests, test: { ...tests.test, include: [] } }, { test: { include: ["screenshots.ts"] } });
