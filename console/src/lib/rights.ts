import { useCallback, useEffect, useState } from "preact/hooks";
import { failureOf } from "../api/client.ts";
import { client, sessions } from "../app.ts";
import type { Failure, Rights } from "../api/types.ts";

/** What a user may do is asked again after so long, in ms. */
const fresh = 10_000;

/** A request names at most so many finalizers. */
const mostNamed = 50;

/** known has the replies of each session: what another user may do is not what this one may. */
const known = new WeakMap<object, Map<string, { at: number; reply: Promise<Rights> }>>();

interface Of {
  resource?: string | undefined;
  namespace?: string | undefined;
  finalizers?: readonly string[] | undefined;
}

/** ask asks for the finalizers in parts, and puts the replies together. */
async function ask(realm: string, { resource, namespace, finalizers = [] }: Of): Promise<Rights> {
  const parts: (readonly string[])[] = [finalizers.slice(0, mostNamed)];
  for (let from = mostNamed; from < finalizers.length; from += mostNamed) {
    parts.push(finalizers.slice(from, from + mostNamed));
  }
  const replies = await Promise.all(parts.map((part) => client.rights(realm, { resource, namespace, finalizers: part })));
  return replies.reduce((all, more) => ({
    ...all,
    removeFinalizers: [...(all.removeFinalizers ?? []), ...(more.removeFinalizers ?? [])],
    forceFinalizers: [...(all.forceFinalizers ?? []), ...(more.forceFinalizers ?? [])],
  }));
}

function read(realm: string, of: Of): Promise<Rights> {
  const session = sessions.state.value;
  const replies = known.get(session) ?? new Map<string, { at: number; reply: Promise<Rights> }>();
  known.set(session, replies);
  const key = JSON.stringify([realm, of.resource, of.namespace, of.finalizers]);
  const before = replies.get(key);
  if (before !== undefined && Date.now() - before.at < fresh) {
    return before.reply;
  }
  const reply = ask(realm, of);
  replies.set(key, { at: Date.now(), reply });
  reply.catch(() => replies.delete(key));
  return reply;
}

/** RightsRead is what is known of the rights of a user. */
export interface RightsRead {
  /** rights is undefined until they are known. */
  rights: Rights | undefined;
  /** failure says why they could not be read. */
  failure: Failure | undefined;
  again: () => void;
}

/** useRights returns what the user may do with objects of a resource, and with the realm. */
export function useRights(realm: string, { resource, namespace, finalizers }: Of = {}): RightsRead {
  const names = (finalizers ?? []).join(" ");
  const key = JSON.stringify([realm, resource, namespace, names]);
  const [state, setState] = useState<{ key: string; rights?: Rights; failure?: Failure }>();
  const [tries, setTries] = useState(0);
  const again = useCallback(() => setTries((n) => n + 1), []);
  useEffect(() => {
    let current = true;
    read(realm, { resource, namespace, finalizers: names === "" ? [] : names.split(" ") }).then(
      (rights) => {
        if (current) {
          setState({ key, rights });
        }
      },
      (error: unknown) => {
        if (current) {
          setState({ key, failure: failureOf(error) });
        }
      },
    );
    return () => {
      current = false;
    };
  }, [realm, resource, namespace, names, key, tries]);
  const is = state?.key === key ? state : undefined;
  return { rights: is?.rights, failure: is?.failure, again };
}
