import type { Failure, SignIn } from "../src/api/types.ts";
import { Fixtures } from "./fixtures.ts";

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
