import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

interface Package {
  name: string;
  version: string;
  licence: string;
  text: string;
}

// licences writes what is bundled and under which licence: the list dist/licences.json, and a document with the texts.
export function licences(document: string): Plugin {
  return {
    name: "licences",
    apply: "build",
    generateBundle(_, bundle) {
      const found = new Map<string, Package>();
      for (const chunk of Object.values(bundle)) {
        const modules = chunk.type === "chunk" ? chunk.moduleIds : [];
        for (const id of modules) {
          const directory = packageOf(id);
          if (directory !== undefined && !found.has(directory)) {
            found.set(directory, read(directory));
          }
        }
      }
      const list = [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
      const names = list.map(({ name, version, licence }) => ({ name, version, licence }));
      this.emitFile({ type: "asset", fileName: "licences.json", source: JSON.stringify(names, null, 2) + "\n" });
      writeFileSync(document, markdown(list));
    },
  };
}

// packageOf returns the directory of the package that a module is from; undefined for the console's own.
function packageOf(id: string): string | undefined {
  return /^.*\/node_modules\/(@[^/]+\/)?[^/]+/.exec(id)?.[0];
}

function read(directory: string): Package {
  const { name, version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8")) as Record<string, unknown>;
  const file = readdirSync(directory).find((entry) => /^licen[cs]e(\.(md|txt))?$/i.test(entry));
  if (typeof name !== "string" || typeof version !== "string" || typeof license !== "string") {
    throw new Error(`${directory}: package.json has no name, version or licence; do not bundle this package`);
  }
  return { name, version, licence: license, text: file === undefined ? "" : readFileSync(join(directory, file), "utf8").trim() };
}

function quoted(text: string): string {
  return text.replace(/^(?=.)/gm, "> ").replace(/^$/gm, ">");
}

function markdown(list: Package[]): string {
  const parts = list.map(
    ({ name, version, licence, text }) =>
      `## ${name} ${version}\n\nLicence: ${licence}.${text === "" ? " The package has no file with its text." : "\n\n" + quoted(text)}\n`,
  );
  return `# Licences of the console

The program \`coppice\` contains the assets of the console, and these packages are bundled in them. The build of the console
writes this document.

${parts.join("\n")}`;
}
