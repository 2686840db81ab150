// Writes dist/sources.sha256: the hash of the files that decide about what is in dist. console/embed_test.go computes it too.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const skipped = new Set(["dist", "node_modules", "dev", "e2e"]);
const hash = (content) => createHash("sha256").update(content).digest("hex");

function files(directory) {
  return readdirSync(root + directory, { withFileTypes: true }).flatMap((entry) => {
    const path = directory + entry.name;
    if (entry.isDirectory()) {
      return directory === "" && skipped.has(entry.name) ? [] : files(path + "/");
    }
    return /\.(test\.tsx?|go)$/.test(entry.name) ? [] : [path];
  });
}

// Names are ASCII, so that the order of JavaScript is that of bytes.
const lines = files("")
  .sort()
  .map((path) => `${hash(readFileSync(root + path))}  ${path}\n`);
writeFileSync(root + "dist/sources.sha256", hash(lines.join("")) + "\n");
