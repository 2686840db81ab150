import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { list, type Manifest } from "./objects.ts";
import { environment, Program } from "./program.ts";

const directories: string[] = [];

/** directory makes a directory, which is removed after the tests of a file. */
export async function directory(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), "coppice-e2e-"));
  directories.push(dir);
  return dir;
}

/** removeDirectories removes them. */
export async function removeDirectories(): Promise<void> {
  await Promise.all(directories.map((dir) => rm(dir, { recursive: true, force: true })));
}

export interface Options {
  /** auth: the users have passwords. */
  auth?: boolean;
  usersFile?: string;
  /** console is false for an `up` without a console. */
  console?: boolean;
  realms?: string[];
}

/** Up is a `coppice up` on free ports, in a directory of its own. */
export class Up {
  private program: Program | undefined;
  /** nats, health and console are URLs. That of the console has the token, if it has one. */
  nats = "";
  health = "";
  console = "";

  get services(): string[] {
    return [this.health];
  }

  private constructor(
    readonly data: string,
    private readonly options: Options,
  ) {}

  static async start(options: Options = {}): Promise<Up> {
    const up = new Up(join(await directory(), "data"), options);
    await up.again();
    return up;
  }

  /** again starts it, on the ports that it had before. */
  async again(): Promise<void> {
    const { auth, usersFile, console: shown = true, realms = [] } = this.options;
    const args = ["up", "--data", this.data, "--port", port(this.nats) || "-1", "--http", host(this.health) || "127.0.0.1:0"];
    args.push("--console", shown ? host(this.console) || "127.0.0.1:0" : "none", "--log-level", "error");
    if (auth) {
      args.push("--auth");
    }
    if (usersFile !== undefined) {
      args.push("--users-file", usersFile);
    }
    for (const realm of realms) {
      args.push("--realm", realm);
    }
    this.program = new Program(args);
    this.nats = await this.program.says(/^ready in \S+ (nats:\S+),/m);
    this.health = await this.program.says(/^health and metrics: (http:\S+)\/metrics$/m);
    if (shown) {
      this.console = await this.program.says(/^console: (\S+)$/m);
    }
  }

  /** kill ends it at once, as kill -9 does. */
  async kill(): Promise<void> {
    await this.program?.end("SIGKILL");
  }

  /** password is that of a user. */
  async password(user: string): Promise<string> {
    const context = JSON.parse(await readFile(join(this.data, "users", "nats", "context", `${user}.json`), "utf8")) as { password: string };
    return context.password;
  }

  /** run runs a command with the permissions of a user, and returns what it prints. The user matters with auth only. */
  async run(args: string[], { input = "", user = "operator" } = {}): Promise<string> {
    const env: Record<string, string> = this.options.auth
      ? { XDG_CONFIG_HOME: join(this.data, "users"), NATS_CONTEXT: user }
      : { NATS_URL: this.nats, COPPICE_ACTOR: "ana" };
    return run(args, env, input);
  }

  /** put imports objects: they keep their uids. */
  async put(...objects: Manifest[]): Promise<void> {
    await this.run(["import", "-f", "-"], { input: list(objects) });
  }

  /** remove deletes an object, and does not wait until it is removed. */
  async remove(name: string, ...flags: string[]): Promise<void> {
    await this.run(["delete", name, ...flags]);
  }
}

/** Installation is what a console is a client of. */
export interface Installation {
  nats: string;
  /** services are the URLs of HTTP servers whose health the console reads. */
  services: string[];
}

/** Console is a `coppice console`, next to an installation. */
export class Console {
  private program: Program | undefined;
  url = "";

  private constructor(
    private readonly of: Installation,
    private readonly flags: string[],
  ) {}

  static async start(of: Installation, ...flags: string[]): Promise<Console> {
    const console = new Console(of, flags);
    await console.again();
    return console;
  }

  /** again starts it, on the port that it had before. */
  async again(): Promise<void> {
    const services = this.of.services.flatMap((url) => ["--service-url", url]);
    this.program = new Program(["console", "--server", this.of.nats, "--listen", host(this.url) || "127.0.0.1:0", "--http", "none", ...services, ...this.flags]);
    this.url = await this.program.says(/console\b.*\burl=(\S+)/);
  }

  async kill(): Promise<void> {
    await this.program?.end("SIGKILL");
  }
}

/** host returns HOST:PORT of a URL, "" of "". */
function host(url: string): string {
  return url === "" ? "" : new URL(url).host;
}

function port(url: string): string {
  return url === "" ? "" : (/:(\d+)$/.exec(url)?.[1] ?? "");
}

/** run runs a command, and returns what it prints. */
export function run(args: string[], env: Record<string, string>, input: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(inject("coppice"), args, { env: environment(env) });
    let out = "";
    let said = "";
    child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) {
        resolve(out);
      } else {
        reject(new Error(`coppice ${args.join(" ")}: ended with ${String(code)}\n${said}${out}`));
      }
    });
    child.stdin.on("error", () => undefined); // a command can end without reading it
    child.stdin.end(input);
  });
}
