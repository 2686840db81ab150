import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Plugin } from "vite";
import { type WebSocket, WebSocketServer } from "ws";
import type { Ask } from "../src/api/types.ts";
import { answer } from "./answers.ts";
import { Deletions } from "./deletions.ts";
import { Fixtures } from "./fixtures.ts";
import { Forest } from "./forest.ts";

/** The policy of the real server. Vite's own server of development needs inline styles, so that only its preview has it. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/** mock is a server of /api for development: user ana, password secret. The realm staging is healthy, and default is not.
 * A page with ?objects=100000 sets how many objects graphs have. */
export function mock(): Plugin {
  const state = { signedIn: true, objects: 300 };
  const handle = (request: IncomingMessage, response: ServerResponse, next: () => void) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    const objects = Number(url.searchParams.get("objects"));
    if (objects > 0) {
      state.objects = objects;
    }
    if (!url.pathname.startsWith("/api/")) {
      next();
      return;
    }
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      const [status, body] = answer(state, request.method ?? "GET", url, text);
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(body === undefined ? undefined : JSON.stringify(body));
    });
  };
  return {
    name: "mock",
    configureServer(server) {
      server.middlewares.use(handle);
      live(server.httpServer as Server | null, state);
    },
    configurePreviewServer(server) {
      server.middlewares.use((_, response, next) => {
        response.setHeader("Content-Security-Policy", policy);
        next();
      });
      server.middlewares.use(handle);
      live(server.httpServer as Server | null, state);
    },
  };
}

function live(server: Server | null, state: { objects: number }): void {
  const sockets = new WebSocketServer({ noServer: true });
  server?.on("upgrade", (request, socket, head) => {
    if (request.url === "/api/live") {
      sockets.handleUpgrade(request, socket, head, (ws) => follow(ws, state));
    }
  });
}

function follow(ws: WebSocket, state: { objects: number }): void {
  const timers = new Map<number, NodeJS.Timeout>();
  const forests = new Map<number, Forest>();
  ws.on("message", (data: Buffer) => {
    const ask = JSON.parse(data.toString()) as Ask;
    clearInterval(timers.get(ask.id));
    if (ask.end) {
      forests.delete(ask.id);
      return;
    }
    if (ask.view === "Graph") {
      const { graph = {} } = ask;
      const before = forests.get(ask.id);
      const forest = before ?? new Forest(state.objects);
      forests.set(ask.id, forest);
      ws.send(forest.frame(ask.id, graph, before === undefined));
      const tick = () => {
        forest.tick(5);
        ws.send(forest.frame(ask.id, graph, false));
      };
      timers.set(ask.id, setInterval(tick, state.objects > 10_000 ? 20_000 : 3000));
      return;
    }
    let n = 0;
    const send = () => {
      const f = new Fixtures(Date.now() - n * 2000);
      n++;
      if (ask.view === "Events") {
        const [row] = f.events().rows ?? [];
        const time = new Date().toISOString();
        ws.send(JSON.stringify({ id: ask.id, events: { rows: row && [{ ...row, root: 50_000 + n, first: 1000 + n, last: 1000 + n, time, latest: time }], last: 1000 + n, missing: [] } }));
        return;
      }
      if (ask.view === "Object") {
        ws.send(JSON.stringify({ id: ask.id, changed: true }));
        return;
      }
      if (ask.view === "Deletion") {
        const removed = Math.min(12_034, 8_000 + n * 425);
        const deletion = new Deletions(Date.now() - n * 2000).progress(removed < 12_034 ? "Running" : "Ended", { removed, remaining: 12_034 - removed });
        ws.send(JSON.stringify({ id: ask.id, deletion }));
        return;
      }
      const overview = ask.realm === "staging" ? f.healthy() : f.busy();
      overview.time = new Date().toISOString();
      for (const d of overview.deletions ?? []) {
        const done = Math.min(d.remaining, Math.round(d.rate * n * 2));
        d.remaining -= done;
        d.removed += done;
      }
      ws.send(JSON.stringify({ id: ask.id, overview: { ...overview, realm: ask.realm } }));
    };
    if (ask.view !== "Object") {
      send();
    }
    timers.set(ask.id, setInterval(send, 2000));
  });
  ws.on("close", () => timers.forEach(clearInterval));
}
