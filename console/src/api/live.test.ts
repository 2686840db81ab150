import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeSocket } from "../../dev/tab.tsx";
import { Live } from "./live.ts";

let random = 0;
let closed = 0;
let live: Live;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.all = [];
  random = 0;
  closed = 0;
  live = new Live(
    () => new FakeSocket(),
    () => closed++,
    () => random,
  );
});

afterEach(() => void vi.useRealTimers());

const listener = () => ({ news: vi.fn(), again: vi.fn() });

test("asks are sent when the connection opens, and news goes to who asked", () => {
  const a = listener();
  const b = listener();
  live.ask({ realm: "default", view: "Overview" }, a);
  live.start();
  live.start();
  expect(FakeSocket.all).toHaveLength(1);
  expect(live.connection.value.is).toBe("connecting");
  const socket = FakeSocket.last;
  socket.open();
  expect(live.connection.value.is).toBe("live");
  const end = live.ask({ realm: "default", view: "Object", uid: "u" }, b);
  expect(socket.asks).toEqual([
    { id: 1, realm: "default", view: "Overview" },
    { id: 2, realm: "default", view: "Object", uid: "u" },
  ]);
  socket.news({ id: 2, changed: true });
  expect(b.news).toHaveBeenCalledWith({ id: 2, changed: true });
  expect(a.news).not.toHaveBeenCalled();
  end();
  expect(socket.asks.at(-1)).toEqual({ id: 2, end: true });
  socket.news({ id: 2, changed: true });
  expect(b.news).toHaveBeenCalledTimes(1);
  expect(a.again).not.toHaveBeenCalled();
});

test("a socket that is being closed is asked nothing, and the next one is asked the latest", () => {
  const a = listener();
  const asked = live.follow({ realm: "default", view: "Graph", graph: {} }, a);
  live.start();
  FakeSocket.last.open();
  FakeSocket.last.readyState = WebSocket.CLOSING;
  asked.change({ realm: "default", view: "Graph", graph: { namespace: "shop" } });
  FakeSocket.last.drop();
  live.now();
  FakeSocket.last.open();
  expect(FakeSocket.last.asks).toEqual([{ id: 1, realm: "default", view: "Graph", graph: { namespace: "shop" } }]);
});

test("what is too long to ask for is refused here: the server would close the connection, again and again", () => {
  const a = listener();
  live.start();
  FakeSocket.last.open();
  live.ask({ realm: "default", view: "Graph", graph: { labels: "ä".repeat(70_000) } }, a);
  expect(FakeSocket.last.asks).toEqual([]);
  expect(a.news).toHaveBeenCalledWith({ id: 1, error: { reason: "RequestTooLarge", message: "what this page asks for is too long; choose less" } });
});

test("what is asked for changes with the same ID, and a new connection asks for the latest", () => {
  const a = { ...listener(), frame: vi.fn() };
  const asked = live.follow({ realm: "default", view: "Graph", graph: {} }, a);
  live.start();
  FakeSocket.last.open();
  asked.change({ realm: "default", view: "Graph", graph: { namespace: "shop" } });
  const latest = { id: 1, realm: "default", view: "Graph", graph: { namespace: "shop" } };
  expect(FakeSocket.last.asks).toEqual([{ id: 1, realm: "default", view: "Graph", graph: {} }, latest]);
  FakeSocket.last.drop();
  live.now();
  FakeSocket.last.open();
  expect(FakeSocket.last.asks).toEqual([latest]);
  asked.end();
  expect(FakeSocket.last.asks.at(-1)).toEqual({ id: 1, end: true });
});

test("binary messages go to the ask whose ID they begin with", () => {
  const a = listener();
  const b = { ...listener(), frame: vi.fn() };
  live.ask({ realm: "default", view: "Overview" }, a);
  live.ask({ realm: "default", view: "Graph" }, b);
  live.start();
  FakeSocket.last.open();
  const message = (id: number) => new Uint32Array([id, 7]).buffer;
  for (const of of [message(1), message(9), new ArrayBuffer(2)]) {
    FakeSocket.last.frame(of);
  }
  expect(b.frame).not.toHaveBeenCalled();
  const mine = message(2);
  FakeSocket.last.frame(mine);
  expect(b.frame).toHaveBeenCalledWith(mine);
  expect(a.news).not.toHaveBeenCalled();
});

test("after a loss it tries again, later and later, and asks again", () => {
  const a = listener();
  live.ask({ realm: "default", view: "Overview" }, a);
  live.start();
  FakeSocket.last.open();
  FakeSocket.last.drop();
  expect(live.connection.value).toMatchObject({ is: "closed", retry: Date.now() + 250 });
  expect(closed).toBe(1);
  const delays: number[] = [];
  for (let i = 0; i < 8; i++) {
    const before = FakeSocket.all.length;
    const began = Date.now();
    while (FakeSocket.all.length === before) {
      vi.advanceTimersByTime(10);
    }
    delays.push(Date.now() - began);
    FakeSocket.last.drop();
  }
  expect(delays).toEqual([250, 500, 1000, 2000, 4000, 7500, 7500, 7500]);
  vi.advanceTimersByTime(7500);
  expect(a.again).not.toHaveBeenCalled();
  FakeSocket.last.open();
  expect(live.connection.value.is).toBe("live");
  expect(FakeSocket.last.asks).toEqual([{ id: 1, realm: "default", view: "Overview" }]);
  expect(a.again).toHaveBeenCalledTimes(1);
  // The delays begin again.
  FakeSocket.last.drop();
  expect(live.connection.value).toMatchObject({ retry: Date.now() + 250 });
});

test("tabs do not return at the same moment", () => {
  random = 0.999;
  live.start();
  FakeSocket.last.drop();
  vi.advanceTimersByTime(490);
  expect(FakeSocket.all).toHaveLength(1);
  vi.advanceTimersByTime(10);
  expect(FakeSocket.all).toHaveLength(2);
});

test("a person need not wait", () => {
  live.start();
  FakeSocket.last.open();
  live.now();
  expect(FakeSocket.all).toHaveLength(1);
  FakeSocket.last.drop();
  live.now();
  expect(FakeSocket.all).toHaveLength(2);
  vi.advanceTimersByTime(60_000);
  expect(FakeSocket.all).toHaveLength(2);
});

test("what the server has lost is said until it is found, and read again", () => {
  const a = listener();
  live.ask({ realm: "default", view: "Overview" }, a);
  live.start();
  FakeSocket.last.open();
  FakeSocket.last.news({ id: 0, lost: "the connection to NATS is lost" });
  expect(live.connection.value).toEqual({ is: "lost", says: "the connection to NATS is lost" });
  FakeSocket.last.news({ id: 0, found: true });
  expect(live.connection.value.is).toBe("live");
  expect(a.again).toHaveBeenCalledTimes(1);
});

test("after a stop nothing is tried, and an old socket is not heard", () => {
  live.start();
  const old = FakeSocket.last;
  old.open();
  live.stop();
  expect(old.closed).toBe(true);
  old.drop();
  vi.advanceTimersByTime(60_000);
  expect(FakeSocket.all).toHaveLength(1);
  live.start();
  expect(FakeSocket.all).toHaveLength(2);
});
