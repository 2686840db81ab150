import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { allow, found } from "./lib/browser.ts";
import { Up } from "./lib/coppice.ts";
import { otherServer, request } from "./lib/http.ts";
import { until } from "./lib/limit.ts";
import { base, heading, openLocal } from "./lib/pages.ts";

let up: Up;
let at: string;
beforeAll(async () => {
  up = await Up.start();
  at = base(up.console);
});

/** A WebSocket as a browser opens it. */
const upgrade = { Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==" };

/** session signs in without a browser. */
async function session(): Promise<{ cookie: string; csrf: string; header: string }> {
  const token = new URL(up.console).hash.slice("#token=".length);
  const reply = await request(`${at}/api/session`, "POST", { "Content-Type": "application/json", Origin: at }, JSON.stringify({ token }));
  expect(reply.status, reply.body).toBe(200);
  const header = reply.headers["set-cookie"]?.[0] ?? "";
  return { header, cookie: header.split(";")[0] ?? "", csrf: (JSON.parse(reply.body) as { csrf: string }).csrf };
}

describe("requests that no page of the console sends", () => {
  test("a foreign Host is refused on every path", async () => {
    for (const path of ["/", "/r/default", "/api/session", "/api/realms/default/overview", "/api/live", "/assets/none.js"]) {
      const reply = await request(at + path, "GET", { Host: "evil.example.com" });
      expect(reply.status, path).toBe(421);
      expect(reply.body, path).not.toContain("<script");
    }
    expect((await request(`${at}/`)).status).toBe(200);
  });

  test("a foreign Origin is refused, with a session and without", async () => {
    const { cookie, csrf } = await session();
    for (const headers of [{ Origin: "https://evil.example.com" }, { Origin: "null" }, { "Sec-Fetch-Site": "cross-site" }, { "Sec-Fetch-Site": "same-site" }]) {
      const all = { ...headers, Cookie: cookie, "Coppice-CSRF": csrf };
      const said = JSON.stringify(headers);
      expect((await request(`${at}/api/session`, "DELETE", all)).status, said).toBe(403);
      expect((await request(`${at}/api/session`, "POST", headers, "{}")).status, said).toBe(403);
      expect((await request(`${at}/api/live`, "GET", { ...all, ...upgrade })).status, said).toBe(403);
    }
    expect((await request(`${at}/api/live`, "GET", { Cookie: cookie, ...upgrade })).status, "no Origin").toBe(403);
    expect((await request(`${at}/api/live`, "GET", { Cookie: cookie, ...upgrade, Origin: at })).status, "its own Origin").toBe(101);
    expect((await request(`${at}/api/session`, "GET", { Cookie: cookie })).status, "the session goes on").toBe(200);
  });

  test("a cookie is for this server alone, and a sign-in without the token is refused", async () => {
    const { header } = await session();
    expect(header).toMatch(/; HttpOnly/);
    expect(header).toMatch(/; SameSite=Strict/);
    const wrong = await request(`${at}/api/session`, "POST", { Origin: at }, JSON.stringify({ token: "wrong" }));
    expect(wrong.status).toBe(401);
    expect(wrong.headers["set-cookie"]).toBeUndefined();
    expect((await request(`${at}/api/realms/default/overview`)).status).toBe(401);
  });

  test("every reply has the headers that protect pages", async () => {
    for (const path of ["/", "/r/default", "/api/session", "/assets/none.js", "/api/none"]) {
      const { headers } = await request(at + path);
      const policy = String(headers["content-security-policy"]);
      expect(policy, path).toContain("default-src 'none'");
      expect(policy, path).toContain("frame-ancestors 'none'");
      expect(policy, path).not.toContain("unsafe");
      expect(headers["x-content-type-options"], path).toBe("nosniff");
      expect(headers["referrer-policy"], path).toBe("no-referrer");
    }
  });
});

describe("pages of other servers", () => {
  let other: Awaited<ReturnType<typeof otherServer>>;
  beforeAll(async () => {
    other = await otherServer(`<!doctype html><title>other</title><iframe src="${at}/r/default"></iframe>`);
  });
  afterAll(() => other.close());

  test("cannot show the console in a frame, open its WebSocket, or end a session", async () => {
    const mine = await openLocal(up);
    // The other page is of the same site: browsers send it the cookie, and only the checks of the console protect the session.
    allow(/frame-ancestors/i, /chrome-error/, /WebSocket connection to .* failed/, /CORS policy/, /Failed to load resource/);
    const page = await mine.context().newPage();
    await page.goto(other.url);
    const framed = await until("the frame has loaded, or was refused", () => page.frames().find((f) => f !== page.mainFrame() && f.url() !== "about:blank" && f.url() !== ""));
    expect(framed.url()).toBe("chrome-error://chromewebdata/");
    const outcome = await page.evaluate(async (console) => {
      const socket = await new Promise((resolve) => {
        const ws = new WebSocket(console.replace("http", "ws") + "/api/live");
        ws.onopen = () => resolve("opened");
        ws.onerror = () => resolve("refused");
      });
      const read = await fetch(`${console}/api/session`, { credentials: "include" }).then(
        () => "read",
        () => "refused",
      );
      await fetch(`${console}/api/session`, { method: "DELETE", credentials: "include" }).catch(() => undefined);
      await fetch(`${console}/api/session`, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }).catch(() => undefined);
      return { socket, read };
    }, at);
    expect(outcome).toEqual({ socket: "refused", read: "refused" });
    await mine.reload();
    expect(await heading(mine).textContent(), "the session goes on").toContain("Realm default");
  });

  test("code of the page itself needs the CSRF token", async () => {
    const page = await openLocal(up);
    allow(/status of 403 .*\/api\/session/);
    const end = (headers: Record<string, string>) => page.evaluate(async (h) => (await fetch("/api/session", { method: "DELETE", headers: h })).status, headers);
    expect(await end({})).toBe(403);
    expect(await end({ "Coppice-CSRF": "wrong" })).toBe(403);
    const { csrf } = await page.evaluate(async () => (await (await fetch("/api/session")).json()) as { csrf: string });
    expect(await end({ "Coppice-CSRF": csrf })).toBe(204);
    expect(await page.evaluate(async () => (await fetch("/api/session")).status)).toBe(401);
    expect(found(), "nothing but the refusals").toEqual([]);
  });
});
