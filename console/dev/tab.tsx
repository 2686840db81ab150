import { render, waitFor } from "@testing-library/preact";
import { expect, vi } from "vitest";
import type { Ask, News } from "../src/api/types.ts";
import { live, sessions } from "../src/app.ts";
import { Root } from "../src/root.tsx";
import { answer } from "./answers.ts";

/** FakeSocket is a WebSocket whose other end is the test. */
export class FakeSocket {
  static all: FakeSocket[] = [];
  onopen: ((event: Event) => unknown) | null = null;
  onclose: ((event: CloseEvent) => unknown) | null = null;
  onmessage: ((event: MessageEvent) => unknown) | null = null;
  binaryType: BinaryType = "blob";
  readyState: number = WebSocket.CONNECTING;
  readonly asks: Ask[] = [];
  closed = false;

  constructor() {
    FakeSocket.all.push(this);
  }

  static get last(): FakeSocket {
    const socket = FakeSocket.all.at(-1);
    if (socket === undefined) {
      throw new Error("no WebSocket was opened");
    }
    return socket;
  }

  send(text: string): void {
    if (this.readyState !== WebSocket.OPEN) {
      throw new Error("this WebSocket is not open");
    }
    this.asks.push(JSON.parse(text) as Ask);
  }

  close(): void {
    this.closed = true;
  }

  open(): void {
    this.readyState = WebSocket.OPEN;
    this.onopen?.(new Event("open"));
  }

  drop(): void {
    this.readyState = WebSocket.CLOSED;
    this.onclose?.(new CloseEvent("close"));
  }

  news(news: News): void {
    this.onmessage?.(new MessageEvent("message", { data: JSON.stringify(news) }));
  }

  frame(message: ArrayBuffer): void {
    if (this.binaryType !== "arraybuffer") {
      throw new Error("the page does not read binary messages as ArrayBuffers");
    }
    this.onmessage?.(new MessageEvent("message", { data: message }));
  }

  /** askOf returns the last ask for a view. */
  askOf(view: string): Ask | undefined {
    return this.asks.filter((ask) => ask.view === view).at(-1);
  }
}

export interface Request {
  method: string;
  url: URL;
  headers: Headers;
  body: string;
}

/** Tab is a tab of a browser that shows the console. A test may replace its answers. */
export class Tab {
  readonly state = { signedIn: true };
  readonly requests: Request[] = [];
  answer = (request: Request): [number, unknown] => answer(this.state, request.method, request.url, request.body);

  /** open shows a URL. */
  open(url: string): void {
    FakeSocket.all = [];
    vi.stubGlobal("WebSocket", FakeSocket);
    vi.stubGlobal("fetch", (at: string, init?: RequestInit) => this.fetch(at, init));
    history.replaceState(null, "", url);
    document.title = "";
    sessions.state.value = { is: "starting" };
    live.stop();
    render(<Root />);
    void sessions.start(location, history);
  }

  /** settled waits until the effects of the view have run: it has named the window, moved the focus and listens to keys. */
  async settled(): Promise<void> {
    await waitFor(() => expect(document.title).not.toBe(""));
  }

  private async fetch(at: string, init: RequestInit = {}): Promise<Response> {
    const request = { method: init.method ?? "GET", url: new URL(at, "http://localhost"), headers: new Headers(init.headers), body: typeof init.body === "string" ? init.body : "" };
    this.requests.push(request);
    await Promise.resolve();
    const [status, body] = this.answer(request);
    return new Response(body === undefined ? null : JSON.stringify(body), { status });
  }

  /** sent returns the requests of a path. */
  sent(path: string): Request[] {
    return this.requests.filter((request) => request.url.pathname === path);
  }
}
