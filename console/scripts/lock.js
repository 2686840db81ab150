// Rewrites package-lock.json without hosts: addresses of packages ("resolved") and of funding pages. npm finds the packages
// in the registry that it is set up for, and compares them with the hashes of the lock file.
import { readFileSync, writeFileSync } from "node:fs";

const path = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(path, "utf8"));
for (const entry of Object.values(lock.packages)) {
  delete entry.resolved;
  delete entry.funding;
}
const text = JSON.stringify(lock, null, 2) + "\n";
if (text.includes("://")) {
  throw new Error("package-lock.json still names a host; remove the member that has it in console/scripts/lock.js");
}
writeFileSync(path, text);
