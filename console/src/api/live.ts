import { signal } from "@preact/signals";
import type { Ask, News } from "./types.ts";

/** Socket is the part of a WebSocket that Live uses. */
export interface Socket {
  readonly readyState: number;
  binaryType: BinaryType;
  onopen: ((event: Event) => unknown) | null;
  onclose: ((event: CloseEvent) => unknown) | null;
  onmessage: ((event: MessageEvent) => unknown) | null;
  send(text: string): void;
  close(): void;
}

/** Connection is the state of the connection, for people. */
export type Connection =
  | { is: "connecting" }
  | { is: "live" }
  /** The WebSocket is closed; the next attempt is at the time retry. */
  | { is: "closed"; since: number; retry: number }
  /** The WebSocket is open, but the console itself receives nothing. */
  | { is: "lost"; says: string };

export interface Listener {
  news(news: News): void;
  /** frame receives a binary message, which begins with the ID of the ask. */
  frame?(message: ArrayBuffer): void;
  /** again: the connection is back after news may have been missed. */
  again(): void;
}

/** What a listener asks for. */
export type Question = Omit<Ask, "id" | "end">;

/** Asked is what a listener has asked for. */
export interface Asked {
  /** change asks for something else in its place, with the same ID. */
  change: (what: Question) => void;
  end: () => void;
}

/** The server closes the connection after a message with more bytes. */
const longestAsk = 128 << 10;

const firstDelay = 500;
const longestDelay = 15_000;

/**
 * Live keeps one WebSocket open, and asks again on a new one what was asked. Attempts follow each other with delays that double,
 * each drawn between half and all of it, so that the tabs of a console that restarts do not return at the same moment.
 */
export class Live {
  readonly connection = signal<Connection>({ is: "connecting" });
  private socket: Socket | undefined;
  private open = false;
  private stopped = true;
  private failures = 0;
  private nextID = 1;
  private missed = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly asked = new Map<number, { ask: Ask; listener: Listener }>();

  /** connect opens a WebSocket. onClosed is called after each that was closed. */
  constructor(
    private readonly connect: () => Socket,
    private readonly onClosed: () => void = () => undefined,
    private readonly random: () => number = Math.random,
  ) {}

  start(): void {
    if (this.stopped) {
      this.stopped = false;
      this.dial();
    }
  }

  /** stop closes the connection, as after signing out. What was asked is asked again after the next start. */
  stop(): void {
    this.stopped = true;
    this.failures = 0;
    clearTimeout(this.timer);
    this.drop();
    this.connection.value = { is: "connecting" };
  }

  /** ask asks for news, until the function that it returns is called. */
  ask(what: Question, listener: Listener): () => void {
    return this.follow(what, listener).end;
  }

  /** follow is ask for what can change. On a new connection it asks for the latest. */
  follow(what: Question, listener: Listener): Asked {
    const id = this.nextID++;
    const change = (what: Question) => {
      const ask = { ...what, id };
      this.asked.set(id, { ask, listener });
      this.say(ask);
    };
    change(what);
    return {
      change,
      end: () => {
        this.asked.delete(id);
        this.say({ id, end: true });
      },
    };
  }

  /** now tries at once, if the connection is closed: a person has asked for it, or the network is back. */
  now(): void {
    if (!this.stopped && this.connection.value.is === "closed") {
      clearTimeout(this.timer);
      this.dial();
    }
  }

  private say(ask: Ask): void {
    if (!this.open) {
      return;
    }
    const text = JSON.stringify(ask);
    if (new TextEncoder().encode(text).length > longestAsk) {
      this.hear({ id: ask.id, error: { reason: "RequestTooLarge", message: "what this page asks for is too long; choose less" } });
      return;
    }
    // A socket that the server is closing takes nothing any more: onclose follows, and the next one asks again.
    if (this.socket?.readyState === WebSocket.OPEN) {
      this.socket.send(text);
    }
  }

  private dial(): void {
    this.drop();
    const socket = this.connect();
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.open = true;
      this.failures = 0;
      this.connection.value = { is: "live" };
      for (const { ask } of this.asked.values()) {
        this.say(ask);
      }
      this.back();
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") {
        this.hear(JSON.parse(data) as News);
      } else if (data.byteLength >= 4) {
        this.asked.get(new DataView(data).getUint32(0, true))?.listener.frame?.(data);
      }
    };
    socket.onclose = () => this.closed();
  }

  private hear(news: News): void {
    if (news.id !== 0) {
      this.asked.get(news.id)?.listener.news(news);
    } else if (news.lost !== undefined) {
      this.missed = true;
      this.connection.value = { is: "lost", says: news.lost };
    } else if (news.found) {
      this.connection.value = { is: "live" };
      this.back();
    }
  }

  private back(): void {
    if (this.missed) {
      this.missed = false;
      for (const { listener } of [...this.asked.values()]) { // a listener may ask for something else
        listener.again();
      }
    }
  }

  private closed(): void {
    this.drop();
    this.missed = true;
    const longest = Math.min(longestDelay, firstDelay * 2 ** this.failures);
    const delay = (longest / 2) * (1 + this.random());
    this.failures++;
    const before = this.connection.value;
    const at = Date.now();
    this.connection.value = { is: "closed", since: before.is === "closed" ? before.since : at, retry: at + delay };
    this.timer = setTimeout(() => this.dial(), delay);
    this.onClosed();
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = undefined;
    this.open = false;
    if (socket !== undefined) {
      socket.onopen = socket.onclose = socket.onmessage = null;
      socket.close();
    }
  }
}
