import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    /** coppice is the path of the program, natsServer that of a NATS server, and finalizer that of a program whose calls fail. */
    coppice: string;
    natsServer: string;
    finalizer: string;
  }
}

/** The program is that of the variable COPPICE, or is built from this repository, as the NATS server is. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), "coppice-e2e-"));
  const build = async (what: string, name: string): Promise<string> => {
    await promisify(execFile)("go", ["build", "-o", `${dir}/`, what], {
      cwd: fileURLToPath(new URL("../..", import.meta.url)),
      env: { CGO_ENABLED: "0", ...process.env },
    });
    return join(dir, name);
  };
  const given = process.env.COPPICE ?? "";
  project.provide("coppice", given !== "" ? given : await build("./cmd/coppice", "coppice"));
  project.provide("natsServer", await build("github.com/nats-io/nats-server/v2", "nats-server"));
  project.provide("finalizer", await build("./console/e2e/finalizer", "finalizer"));
  return () => rm(dir, { recursive: true, force: true });
}
