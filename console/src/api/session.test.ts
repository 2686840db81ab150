import { expect, test, vi } from "vitest";
import { Fixtures } from "../../dev/fixtures.ts";
import { Client, Failed } from "./client.ts";
import { Sessions } from "./session.ts";

const f = new Fixtures(0);

/** set up a client whose requests get these replies in turn. */
function replies(...list: [number, unknown][]) {
  const client = new Client();
  const sessions = new Sessions(client);
  const seen: string[] = [];
  vi.stubGlobal("fetch", (at: string, init: RequestInit) => {
    const headers = new Headers(init.headers);
    seen.push(`${init.method ?? ""} ${at} ${typeof init.body === "string" ? init.body : ""} ${headers.get("Coppice-CSRF") ?? ""}`.trim().replaceAll("  ", " "));
    const next = list.shift();
    if (next === undefined) {
      return Promise.reject(new TypeError("connection refused"));
    }
    return Promise.resolve(new Response(typeof next[1] === "string" ? next[1] : next[1] === undefined ? null : JSON.stringify(next[1]), { status: next[0] }));
  });
  return { client, sessions, seen };
}

const at = (hash: string) => ({ hash, pathname: "/r/default", search: "?a=b" }) as Location;

function past() {
  const replaceState = vi.fn();
  return { history: { state: null, replaceState } as unknown as History, replaceState };
}

test("a token leaves the address before it is sent", async () => {
  const { sessions, seen } = replies([200, f.session]);
  const { history, replaceState } = past();
  const started = sessions.start(at("#token=abc"), history);
  expect(replaceState).toHaveBeenCalledWith(null, "", "/r/default?a=b");
  await started;
  expect(seen).toEqual(['POST /api/session {"token":"abc"}']);
  expect(sessions.state.value).toEqual({ is: "in", session: f.session });
});

test("a token that is refused says why, and how to sign in", async () => {
  const { sessions } = replies([401, { reason: "Unauthorized", message: "the token is of an earlier start" }], [401, { ...f.ways, local: true }]);
  await sessions.start(at("#token=old"), past().history);
  expect(sessions.state.value).toMatchObject({ is: "out", expired: false, ways: { local: true }, failure: { message: "the token is of an earlier start" } });
});

test("requests that change something have the token of the session", async () => {
  const { client, sessions, seen } = replies([200, f.session], [200, []], [204, undefined], [401, f.ways]);
  await sessions.start(at(""), past().history);
  await client.kinds("default");
  await sessions.signOut();
  expect(seen).toEqual(["GET /api/session", "GET /api/realms/default/kinds", "DELETE /api/session csrf-of-ana", "GET /api/session"]);
  expect(sessions.state.value).toMatchObject({ is: "out", expired: false });
});

test("a session that has ended is noticed by a request, and by a check", async () => {
  const first = replies([200, f.session], [401, { reason: "SignedOut", message: "sign in" }], [401, f.ways]);
  await first.sessions.start(at(""), past().history);
  await expect(first.client.kinds("default")).rejects.toThrow("sign in");
  await vi.waitFor(() => expect(first.sessions.state.value).toMatchObject({ is: "out", expired: true }), { timeout: 30_000 });
  const second = replies([200, f.session], [401, f.ways]);
  await second.sessions.start(at(""), past().history);
  await second.sessions.check();
  expect(second.sessions.state.value).toMatchObject({ is: "out", expired: true });
});

test("errors say what failed and what to do", async () => {
  const { client, sessions } = replies([502, "<html>bad gateway</html>"], [500, { odd: true }], [403, { reason: "Forbidden", message: "you may not" }]);
  const failure = (await client.kinds("default").catch((e: unknown) => e)) as Failed;
  expect(failure.failure).toMatchObject({ reason: "Unreachable", retry: true });
  expect(failure.message).toContain("status 502");
  await expect(client.kinds("default")).rejects.toThrow("The console answered with status 500");
  await expect(client.kinds("default")).rejects.toThrow("you may not");
  await sessions.start(at(""), past().history);
  expect(sessions.state.value).toMatchObject({ is: "unreachable", failure: { reason: "Unreachable" } });
});
