/// <reference types="vitest/config" />
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { mock } from "./dev/mock.ts";
import { licences } from "./scripts/licences.ts";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [licences(fileURLToPath(new URL("../docs/licences.md", import.meta.url))), mock()],
  server: { host: "127.0.0.1", port: 9451 },
  preview: { host: "127.0.0.1", port: 9452 },
  build: {
    target: "es2022",
    // The Content-Security-Policy of the console allows neither inline code nor inline assets.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
  },
  test: {
    environment: "happy-dom",
    setupFiles: ["dev/setup.ts"],
    testTimeout: 120_000,
    include: ["src/**/*.test.{ts,tsx}"],
  },
});
