import { join } from "node:path";
import { directory, run, type Installation } from "./coppice.ts";
import { request } from "./http.ts";
import { list, type Manifest } from "./objects.ts";
import { Program } from "./program.ts";

/** Services are a NATS server with one user and, each in a process of its own, two graph services and a processor. */
export class Services implements Installation {
  nats = "";
  /** server is the address with the user. */
  private server = "";
  services: string[] = [];
  private graphs = new Map<string, Program>();

  static async start(): Promise<Services> {
    const made = new Services();
    const dir = await directory();
    const nats = new Program(["-a", "127.0.0.1", "-p", "-1", "--user", "ana", "--pass", "any", "-js", "-sd", join(dir, "nats")], {}, "natsServer");
    const address = `127.0.0.1:${await nats.says(/Listening for client connections on \S+:(\d+)/)}`;
    made.nats = `nats://${address}`;
    made.server = `nats://ana:any@${address}`;
    await nats.says(/(Server is ready)/);
    const secret = join(dir, "coppice.secret");
    await run(["secret", "new", secret], {}, "");
    for (const name of ["one", "two"]) {
      await made.graph(join(dir, name), secret);
    }
    const processor = new Program(["processor", "--server", made.server, "--http", "127.0.0.1:0"]);
    await processor.says(/(health and metrics)/);
    return made;
  }

  private async graph(data: string, secret: string): Promise<void> {
    const graph = new Program(["graph", "--server", this.server, "--data", data, "--secret", secret, "--http", "127.0.0.1:0"]);
    const url = await graph.says(/health and metrics.*url=(\S+)\/metrics/);
    await graph.says(/msg=(ready|"standing by)/);
    this.services.push(url);
    this.graphs.set(url, graph);
  }

  /** kill ends the graph service with an address at once. */
  async kill(url: string): Promise<void> {
    await this.graphs.get(url)?.end("SIGKILL");
    this.graphs.delete(url);
  }

  async run(args: string[], { input = "" } = {}): Promise<string> {
    return run(args, { NATS_URL: this.server, COPPICE_ACTOR: "ana" }, input);
  }

  async put(...objects: Manifest[]): Promise<void> {
    await this.run(["import", "-f", "-"], { input: list(objects) });
  }

  /** writer returns the address of the graph service that writes the realm. */
  async writer(): Promise<string> {
    for (const url of this.graphs.keys()) {
      const { body } = await request(`${url}/readyz`);
      if (body.includes("default: writer")) {
        return url;
      }
    }
    throw new Error("no graph service is the writer");
  }
}

