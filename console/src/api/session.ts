import { signal } from "@preact/signals";
import { type Client, Failed, failureOf } from "./client.ts";
import type { Failure, Session, SignIn, Ways } from "./types.ts";

/** State is whether a person is signed in. */
export type State =
  | { is: "starting" }
  | { is: "in"; session: Session }
  | { is: "out"; ways: Ways; expired: boolean; failure?: Failure }
  | { is: "unreachable"; failure: Failure };

/** Sessions signs people in and out. */
export class Sessions {
  readonly state = signal<State>({ is: "starting" });

  constructor(private readonly client: Client) {
    client.onSignedOut = () => void this.ended();
  }

  /**
   * start takes the token out of the address that `coppice up` prints, before anything else can read it, and signs in with it.
   * Without a token it asks for the session of the cookie.
   */
  async start(location: Location, history: History): Promise<void> {
    const token = /^#token=(.+)$/.exec(location.hash)?.[1];
    if (location.hash !== "") {
      history.replaceState(history.state, "", location.pathname + location.search);
    }
    if (token === undefined) {
      await this.read(false);
      return;
    }
    try {
      await this.signIn({ token });
    } catch (error) {
      await this.read(false, failureOf(error));
    }
  }

  /** signIn returns after the session has begun; otherwise it throws why not. */
  async signIn(how: SignIn): Promise<void> {
    this.begin((await this.client.call("POST", "/api/session", how)) as Session);
  }

  async signOut(): Promise<void> {
    try {
      await this.client.call("DELETE", "/api/session");
    } catch (error) {
      if (!(error instanceof Failed && error.status === 401)) {
        throw error;
      }
    }
    await this.read(false);
  }

  /** again repeats what failed because the console did not answer. */
  async again(): Promise<void> {
    await this.read(false);
  }

  /** refresh reads the realms of the session again. */
  async refresh(): Promise<void> {
    const session = (await this.client.call("GET", "/api/session")) as Session;
    if (this.state.value.is === "in") {
      this.begin(session);
    }
  }

  /** check finds out whether the session still exists, as after a WebSocket was closed. */
  async check(): Promise<void> {
    const reply = await this.client.send("GET", "/api/session", undefined, { background: true });
    if (reply.status === 401 && this.state.value.is === "in") {
      this.leave(reply.body as Ways, true);
    }
  }

  /** ended: a request was refused because there is no session any more. */
  private async ended(): Promise<void> {
    if (this.state.value.is === "in") {
      await this.read(true);
    }
  }

  private async read(expired: boolean, failure?: Failure): Promise<void> {
    try {
      const reply = await this.client.send("GET", "/api/session");
      if (reply.status === 401) {
        this.leave(reply.body as Ways, expired, failure);
        return;
      }
      if (reply.status === 200) {
        this.begin(reply.body as Session);
        return;
      }
      throw new Failed(reply.body as Failure, reply.status);
    } catch (error) {
      this.state.value = { is: "unreachable", failure: failureOf(error) };
    }
  }

  private begin(session: Session): void {
    this.client.csrf = session.csrf;
    this.state.value = { is: "in", session };
  }

  private leave(ways: Ways, expired: boolean, failure?: Failure): void {
    if (this.state.value.is === "out" && failure === undefined) {
      return; // what is typed into the form stays
    }
    this.client.csrf = "";
    this.state.value = { is: "out", ways, expired, ...(failure === undefined ? {} : { failure }) };
  }
}
