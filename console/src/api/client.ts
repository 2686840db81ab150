import type { Choices } from "../lib/eventfilter.ts";
import { type Choice, objectParts, path, query } from "../lib/paths.ts";
import type { Cascade, ChangeParked, Deleted, Done, Events, Failure, Family, Found, GraphNext, History, Kind, ObjectPage, Overview, ParkedPage, ParkedResult, Plan, PlanBelow, Progress, Ref, RemoveFinalizer, Rights } from "./types.ts";

/** Failed is the error of a request: the reply of the server, or why there is none. */
export class Failed extends Error {
  constructor(
    readonly failure: Failure,
    readonly status: number,
  ) {
    super(failure.message);
  }
}

export const signedOut = "SignedOut";

/** failureOf returns what an error says to people. */
export function failureOf(error: unknown): Failure {
  return error instanceof Failed ? error.failure : { reason: "Internal", message: `The page failed: ${String(error)}. Reload it.` };
}

/**
 * refused returns whether the server has refused a request, so that it did nothing. After each other error it may have been carried
 * out: the reply was late or lost, or was not that of the console.
 */
export function refused(error: unknown): boolean {
  return error instanceof Failed && error.status >= 400 && error.status < 500 && !["Timeout", "Unreachable", "Internal"].includes(error.failure.reason);
}

/** Options are those of a request. */
export interface Options {
  signal?: AbortSignal | undefined;
  /** background: the page sends the request by itself, not for its user. Such a request does not keep an idle session alive. */
  background?: boolean | undefined;
}

/** Client sends requests. It reports when the session has ended. */
export class Client {
  csrf = "";
  onSignedOut: () => void = () => undefined;

  /** send sends a request, and returns status and body of the reply, whatever they are. */
  async send(method: string, at: string, body?: unknown, { signal, background }: Options = {}): Promise<{ status: number; body: unknown }> {
    const headers: Record<string, string> = { Accept: "application/json" };
    if (body !== undefined) {
      headers["Content-Type"] = "application/json";
    }
    if (method !== "GET" && this.csrf !== "") {
      headers["Coppice-CSRF"] = this.csrf;
    }
    if (background) {
      headers["Coppice-Background"] = "1";
    }
    let status = 0;
    try {
      const reply = await fetch(at, {
        method,
        headers,
        cache: "no-store",
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      });
      status = reply.status;
      const text = await reply.text();
      return { status, body: text === "" ? undefined : (JSON.parse(text) as unknown) };
    } catch (error) {
      if (signal?.aborted) {
        throw error;
      }
      const why =
        status === 0
          ? "The console does not answer. Check that it runs and that this machine reaches it."
          : `What answers is not the console (status ${status}, no JSON). Check the proxy in front of it.`;
      throw new Failed({ reason: "Unreachable", message: why, retry: true }, status);
    }
  }

  /** call is send for requests whose failure is an error. */
  async call(method: string, at: string, body?: unknown, options?: Options): Promise<unknown> {
    const reply = await this.send(method, at, body, options);
    if (reply.status >= 200 && reply.status < 300) {
      return reply.body;
    }
    const failure = isFailure(reply.body)
      ? reply.body
      : { reason: "Internal", message: `The console answered with status ${reply.status} and no reason. Look at its log.` };
    if (failure.reason === signedOut) {
      this.onSignedOut();
    }
    throw new Failed(failure, reply.status);
  }

  private async get(at: string, options?: Options): Promise<unknown> {
    return this.call("GET", at, undefined, options);
  }

  async overview(realm: string, options?: Options): Promise<Overview> {
    return (await this.get(path("api", "realms", realm, "overview"), options)) as Overview;
  }

  async kinds(realm: string, options?: Options): Promise<Kind[]> {
    return ((await this.get(path("api", "realms", realm, "kinds"), options)) as Kind[] | null) ?? [];
  }

  async object(realm: string, object: Ref, reveal: boolean, options?: Options): Promise<ObjectPage> {
    const at = path("api", "realms", realm, "objects", ...objectParts(object));
    return (await this.get(at + query({ uid: object.uid, reveal: reveal ? "true" : undefined }), options)) as ObjectPage;
  }

  async family(realm: string, uid: string, from: number, options?: Options): Promise<Family> {
    return (await this.get(path("api", "realms", realm, "family") + query({ uid, from: from || undefined }), options)) as Family;
  }

  async search(realm: string, q: string, options?: Options): Promise<Found> {
    return (await this.get(path("api", "realms", realm, "search") + query({ q }), options)) as Found;
  }

  /** next names the next object in a state, of those that a graph selects, behind the one with the uid after. */
  async next(realm: string, of: { state: string; namespace?: string | undefined; labels?: string | undefined; root?: string | undefined; after?: string | undefined }, options?: Options): Promise<GraphNext> {
    return (await this.get(path("api", "realms", realm, "next") + query(of), options)) as GraphNext;
  }

  async rights(realm: string, { resource, namespace, finalizers = [] }: { resource?: string | undefined; namespace?: string | undefined; finalizers?: readonly string[] | undefined }): Promise<Rights> {
    const named = query({ resource, namespace });
    const all = finalizers.map((name) => `finalizer=${encodeURIComponent(name)}`).join("&");
    return (await this.get(path("api", "realms", realm, "rights") + named + (all === "" ? "" : `${named === "" ? "?" : "&"}${all}`), { background: true })) as Rights;
  }

  async plan(realm: string, object: Ref, { policy, grace }: Choice, options?: Options): Promise<Plan> {
    return (await this.get(path("api", "realms", realm, "plan", ...objectParts(object)) + query({ uid: object.uid, policy, grace }), options)) as Plan;
  }

  async below(realm: string, planID: string, uid: string, resource: string | undefined, from: number): Promise<PlanBelow> {
    return (await this.get(path("api", "realms", realm, "below", planID) + query({ uid, resource, from: from || undefined }))) as PlanBelow;
  }

  /** delete deletes an object, if that still does what the plan with this name says. */
  /** delete deletes the object of a plan, just as the plan says unless it is unbound. */
  async delete(realm: string, { object, plan, unbound }: Plan): Promise<Deleted> {
    return (await this.call("POST", path("api", "realms", realm, "delete"), { object, plan, ...(unbound ? { unbound } : {}) })) as Deleted;
  }

  /** deletion says how far a deletion is. after is the revision of the event that began it, if that is known. */
  async deletion(realm: string, uid: string, after?: number, options?: Options): Promise<Progress> {
    return (await this.get(path("api", "realms", realm, "deletion") + query({ uid, after }), options)) as Progress;
  }

  async removeFinalizer(realm: string, body: RemoveFinalizer): Promise<Done> {
    return (await this.call("POST", path("api", "realms", realm, "finalizer"), body)) as Done;
  }

  async parked(realm: string, after: number | undefined, options?: Options): Promise<ParkedPage> {
    return (await this.get(path("api", "realms", realm, "parked") + query({ after }), options)) as ParkedPage;
  }

  async changeParked(realm: string, body: ChangeParked): Promise<ParkedResult> {
    return (await this.call("POST", path("api", "realms", realm, "parked"), body)) as ParkedResult;
  }

  async resume(realm: string): Promise<Done> {
    return (await this.call("POST", path("api", "realms", realm, "resume"), {})) as Done;
  }

  async history(realm: string, object: Ref, before?: number, options?: Options): Promise<History> {
    const { uid, resource, namespace, name } = object;
    return (await this.get(path("api", "realms", realm, "history") + query({ uid, resource, namespace, name, before }), options)) as History;
  }

  async events(realm: string, choices: Choices, before?: number, options?: Options): Promise<Events> {
    return (await this.get(path("api", "realms", realm, "events") + query({ ...choices, before }), options)) as Events;
  }

  /** cascade reads the events of a row. from and skip are those of the reply before. */
  async cascade(realm: string, root: number, choices: Choices, from?: number, skip?: number, options?: Options): Promise<Cascade> {
    return (await this.get(path("api", "realms", realm, "cascade") + query({ ...choices, root, from, skip: skip === 0 ? undefined : skip }), options)) as Cascade;
  }
}

function isFailure(body: unknown): body is Failure {
  return typeof body === "object" && body !== null && "message" in body && "reason" in body;
}

export const client = new Client();
