import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Options, failureOf } from "../api/client.ts";
import type { Failure } from "../api/types.ts";

export interface Read<T> {
  data: T | undefined;
  /** failure is of the last attempt. data is that of the last successful one. */
  failure: Failure | undefined;
  /** again reads again, and keeps data meanwhile. */
  again: () => void;
  /** refresh is again for the page itself, which no person has asked. */
  refresh: () => void;
}

/** useRead reads something when its key changes, and when again or refresh is called. Replies that arrive after a later request are dropped. */
export function useRead<T>(key: string, read: (options: Options) => Promise<T>): Read<T> {
  const [state, setState] = useState<{ key: string; data?: T; failure?: Failure }>({ key });
  const latest = useRef(read);
  latest.current = read;
  const abort = useRef<AbortController | undefined>(undefined);
  const send = useCallback(
    (background: boolean) => {
      abort.current?.abort();
      const { signal } = (abort.current = new AbortController());
      latest.current({ signal, background }).then(
        (data) => {
          if (!signal.aborted) {
            setState({ key, data });
          }
        },
        (error: unknown) => {
          if (!signal.aborted) {
            setState((before) => ({ ...(before.key === key ? before : { key }), failure: failureOf(error) }));
          }
        },
      );
    },
    [key],
  );
  const again = useCallback(() => send(false), [send]);
  const refresh = useCallback(() => send(true), [send]);
  useEffect(() => {
    again();
    return () => abort.current?.abort();
  }, [again]);
  const current = state.key === key;
  return { data: current ? state.data : undefined, failure: current ? state.failure : undefined, again, refresh };
}
