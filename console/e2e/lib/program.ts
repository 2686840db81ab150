import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { inject } from "vitest";
import { until } from "./limit.ts";

/** The environment of programs: variables that configure Coppice or NATS are left out. */
export function environment(more: Record<string, string>): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(COPPICE|NATS)_|^XDG_CONFIG_HOME$/.test(name));
  return { ...Object.fromEntries(kept), ...more };
}

const running = new Set<Program>();

/** Program is a process that runs until it is killed. */
export class Program {
  private child: ChildProcess;
  private said = "";
  private ended = "";

  constructor(
    readonly args: string[],
    env: Record<string, string> = {},
    readonly command: "coppice" | "natsServer" | "finalizer" = "coppice",
  ) {
    this.child = spawn(inject(command), args, { env: environment(env), stdio: ["ignore", "pipe", "pipe"] });
    running.add(this);
    const hear = (chunk: Buffer) => {
      this.said += chunk.toString();
    };
    this.child.stdout?.on("data", hear);
    this.child.stderr?.on("data", hear);
    this.child.on("error", (error) => (this.ended = error.message));
    this.child.on("exit", (code, signal) => {
      this.ended = `it ended with ${signal ?? String(code)}`;
      running.delete(this);
    });
  }

  /** says waits until the program has printed what matches, and returns the first group. */
  async says(pattern: RegExp): Promise<string> {
    return until(`${this.line()} prints ${pattern.source}`, () => {
      const match = pattern.exec(this.said);
      if (match === null && this.ended !== "") {
        throw new Error(`${this.line()}: ${this.ended}\n${this.said}`);
      }
      return match?.[1] ?? undefined;
    });
  }

  private line(): string {
    return [this.command, ...this.args].join(" ");
  }

  /** end ends the program: SIGKILL is a crash, after SIGTERM it stops its work first. */
  async end(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) {
      return;
    }
    const gone = once(this.child, "exit");
    this.child.kill(signal);
    await gone;
  }
}

/** endAll ends the programs that still run. */
export async function endAll(): Promise<void> {
  await Promise.all([...running].map((program) => program.end()));
}
