import { useEffect, useRef, useState } from "preact/hooks";
import { failureOf } from "../../api/client.ts";
import type { Failure } from "../../api/types.ts";
import { client } from "../../app.ts";
import type { GraphChoice } from "../../lib/graphchoice.ts";
import { states } from "./look.ts";

/** NextSays is what there is to say after a search for the next object in a state. */
export interface NextSays {
  state: number;
  /** failure is undefined if no object has the state. */
  failure?: Failure;
}

/** useNext returns what searches for the next object in a state behind the one with the uid after, and what the last search has to say. */
export function useNext(realm: string, { namespace, labels, root }: GraphChoice, after: string | undefined, found: (uid: string) => void): { next: (state: number) => void; says: NextSays | undefined } {
  const key = JSON.stringify([namespace, labels, root, after]);
  const [says, setSays] = useState<NextSays & { key: string }>();
  const abort = useRef<AbortController | undefined>(undefined);
  const latest = useRef(found);
  latest.current = found;
  useEffect(() => () => abort.current?.abort(), [realm]);
  const next = (state: number) => {
    abort.current?.abort();
    const { signal } = (abort.current = new AbortController());
    client.next(realm, { state: states[state] ?? "", namespace, labels, root, after }, { signal }).then(
      ({ uid }) => {
        if (signal.aborted) {
          return;
        }
        if (uid) {
          setSays(undefined);
          latest.current(uid);
        } else {
          setSays({ key, state });
        }
      },
      (error: unknown) => {
        if (!signal.aborted) {
          setSays({ key, state, failure: failureOf(error) });
        }
      },
    );
  };
  return { next, says: says?.key === key ? says : undefined };
}
