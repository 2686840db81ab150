import { createServer, request as start, type IncomingHttpHeaders } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { limit } from "./limit.ts";

export interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

/** request sends a request as no browser would: with any Host and Origin. Of a WebSocket that is opened, only the status is read. */
export async function request(url: string, method = "GET", headers: Record<string, string> = {}, body = ""): Promise<Reply> {
  const sent = start(url, { method, headers, timeout: limit, agent: false });
  return new Promise<Reply>((resolve, reject) => {
    sent.on("error", reject);
    sent.on("timeout", () => sent.destroy(new Error(`${method} ${url}: no reply`)));
    sent.on("upgrade", (response, socket) => {
      socket.destroy();
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: "" });
    });
    sent.on("response", (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => (text += chunk.toString()));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
    });
    sent.end(body);
  });
}

/** otherServer serves a page, as that of an attacker, and returns its URL and a function that ends it. */
export async function otherServer(html: string): Promise<{ url: string; close: () => Promise<void> }> {
  const server = createServer((_, response) => {
    response.writeHead(200, { "Content-Type": "text/html" });
    response.end(html);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
