import type { ChangeParked, Failure, SignIn } from "../src/api/types.ts";
import { Deletions } from "./deletions.ts";
import { Fixtures } from "./fixtures.ts";
import { uidOf } from "./forest.ts";

/** answer returns status and body of the reply to a request. The user is ana, with the password secret. */
export function answer(state: { signedIn: boolean }, method: string, url: URL, text: string): [number, unknown] {
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
  const d = new Deletions(Date.now());
  const value = (name: string) => url.searchParams.get(name) ?? "";
  const [, , , realm, what, resource, , name] = url.pathname.split("/").map(decodeURIComponent);
  switch (what) {
    case "overview":
      return [200, { ...(realm === "staging" ? f.healthy() : f.busy()), realm }];
    case "rights":
      return [200, d.rights(url.searchParams.getAll("finalizer"))];
    case "plan":
      return [200, d.plan(value("policy") || "Background")];
    case "below":
      return [200, d.below(value("uid"), url.searchParams.get("resource"), Number(value("from")))];
    case "delete":
      return [200, d.deleted];
    case "deletion":
      return [200, d.progress("Running")];
    case "finalizer":
    case "resume":
      return [200, { says: "It is done", warnings: [] }];
    case "parked":
      return [200, method === "GET" ? d.parked(Number(value("after"))) : { done: ((JSON.parse(text) as ChangeParked).ids ?? []).length, failed: [] }];
    case "kinds":
      return [200, f.kinds];
    case "family":
      return [200, f.family(url.searchParams.get("uid") ?? "", Number(url.searchParams.get("from")))];
    case "next":
      return [200, { uid: uidOf(3) }];
    case "search":
      return [200, f.found(url.searchParams.get("q") ?? "")];
    case "history":
      return [200, f.history(url.searchParams.has("before") ? 1 : undefined)];
    case "events":
      if (/\D/.test(url.searchParams.get("cause") ?? "")) {
        return failure(400, "BadRequest", "cause=x is not a revision: give a whole number from 1 on");
      }
      return [200, url.searchParams.has("before") ? f.olderEvents() : f.events()];
    case "cascade":
      return [200, f.cascade(Number(url.searchParams.get("root")), url.searchParams.has("from"))];
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
