import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Plugin } from "vite";
import { type WebSocket, WebSocketServer } from "ws";
import type { Ask, Failure, SignIn } from "../src/api/types.ts";
import { Fixtures } from "./fixtures.ts";

/** The policy of the real server. Vite's own server of development needs inline styles, so that only its preview has it. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/** mock is a server of /api for development: user ana, password secret. The realm staging is healthy, and default is not. */
export function mock(): Plugin {
  const state = { signedIn: true };
  const handle = (request: IncomingMessage, response: ServerResponse, next: () => void) => {
    const url = new URL(request.url ?? "/", "http://localhost");
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
      live(server.httpServer as Server | null);
    },
    configurePreviewServer(server) {
      server.middlewares.use((_, response, next) => {
        response.setHeader("Content-Security-Policy", policy);
        next();
      });
      server.middlewares.use(handle);
      live(server.httpServer as Server | null);
    },
  };
}

function live(server: Server | null): void {
  const sockets = new WebSocketServer({ noServer: true });
  server?.on("upgrade", (request, socket, head) => {
    if (request.url === "/api/live") {
      sockets.handleUpgrade(request, socket, head, (ws) => follow(ws));
    }
  });
}

function follow(ws: WebSocket): void {
  const timers = new Map<number, NodeJS.Timeout>();
  ws.on("message", (data: Buffer) => {
    const ask = JSON.parse(data.toString()) as Ask;
    clearInterval(timers.get(ask.id));
    if (ask.end) {
      return;
    }
    let n = 0;
    const send = () => {
      const f = new Fixtures(Date.now() - n * 2000);
      n++;
      if (ask.view === "Object") {
        ws.send(JSON.stringify({ id: ask.id, changed: true }));
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
    if (ask.view === "Overview") {
      send();
    }
    timers.set(ask.id, setInterval(send, 2000));
  });
  ws.on("close", () => timers.forEach(clearInterval));
}

function answer(state: { signedIn: boolean }, method: string, url: URL, text: string): [number, unknown] {
  const f = new Fixtures(Date.now());
  const failure = (status: number, reason: string, message: string): [number, Failure] => [status, { reason, message }];
  if (url.pathname === "/api/session") {
    if (method === "POST") {
      const { user, password, credentials, token } = JSON.parse(text) as SignIn;
      if ((user === "ana" && password === "secret") || credentials !== undefined || token === "local") {
        state.signedIn = true;
        return [200, f.session];
      }
      return failure(401, "Unauthorized", "NATS refuses this user and password; check both.");
    }
    if (method === "DELETE") {
      state.signedIn = false;
      return [204, undefined];
    }
    return state.signedIn ? [200, f.session] : [401, f.ways];
  }
  if (!state.signedIn) {
    return failure(401, "SignedOut", "There is no session; sign in.");
  }
  const [, , , realm, what, resource, , name] = url.pathname.split("/").map(decodeURIComponent);
  switch (what) {
    case "overview":
      return [200, { ...(realm === "staging" ? f.healthy() : f.busy()), realm }];
    case "kinds":
      return [200, f.kinds];
    case "family":
      return [200, f.family(url.searchParams.get("uid") ?? "", Number(url.searchParams.get("from")))];
    case "search":
      return [200, f.found(url.searchParams.get("q") ?? "")];
    case "history":
      return [200, f.history(url.searchParams.has("before") ? 1 : undefined)];
    case "objects":
      if (resource === "secrets") {
        return [200, f.secret(url.searchParams.get("reveal") === "true")];
      }
      if (name === "web-7d4-k") {
        return [200, f.removed()];
      }
      return name === "none" ? failure(404, "NotFound", "pods/none does not exist, and the log does not mention it.") : [200, { ...f.terminating(), resource, name }];
  }
  return failure(404, "NotFound", `${url.pathname} does not exist.`);
}
