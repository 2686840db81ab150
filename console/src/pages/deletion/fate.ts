import { useEffect, useRef } from "preact/hooks";
import { client, live } from "../../app.ts";
import { failureOf } from "../../api/client.ts";
import type { Ref } from "../../api/types.ts";
import { Single } from "../../lib/single.ts";

/** The object is read again after so long, in ms: a change that the live connection misses would leave the page in doubt. */
const pause = 3_000;

/**
 * useFate follows an object while it is not known whether a request has deleted it, and calls deleted when the object is being
 * deleted, or is gone.
 */
export function useFate(realm: string, object: Ref, unknown: boolean, deleted: () => void): void {
  const latest = useRef(deleted);
  latest.current = deleted;
  const key = JSON.stringify(object);
  useEffect(() => {
    if (!unknown) {
      return;
    }
    const ref = JSON.parse(key) as Ref;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const single = new Single();
    const look = async () => {
      clearTimeout(timer);
      try {
        const { state } = await client.object(realm, ref, false, { signal: abort.signal, background: true });
        if (abort.signal.aborted) {
          return;
        }
        if (state === "Terminating" || state === "Removed") {
          latest.current();
        } else {
          timer = setTimeout(again, pause);
        }
      } catch (error) {
        if (abort.signal.aborted) {
          return;
        }
        if (failureOf(error).reason === "NotFound") {
          latest.current();
        } else {
          timer = setTimeout(again, pause);
        }
      }
    };
    const again = () => single.run("look", look);
    again();
    const end = ref.uid === undefined ? () => undefined : live.ask({ realm, view: "Object", uid: ref.uid }, { news: ({ changed }) => changed && again(), again });
    return () => {
      clearTimeout(timer);
      abort.abort();
      end();
    };
  }, [realm, key, unknown]);
}
