/// <reference types="vitest/config" />
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { licences } from "./scripts/licences.ts";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [licences(fileURLToPath(new URL("../docs/licences.md", import.meta.url)))],
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
    include: ["src/**/*.test.{ts,tsx}"],
  },
});
