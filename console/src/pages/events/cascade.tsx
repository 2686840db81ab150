import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { failureOf } from "../../api/client.ts";
import type { Failure, LogEvent, Missing } from "../../api/types.ts";
import { client } from "../../app.ts";
import type { Choices } from "../../lib/eventfilter.ts";
import { count } from "../../lib/numbers.ts";
import { absolute, date } from "../../lib/time.ts";
import { EventItem } from "../../ui/event.tsx";
import { Loading, MissingParts, Problem } from "../../ui/parts.tsx";
import { type Row, total } from "./rows.ts";

interface Known {
  events: LogEvent[];
  missing: Missing[];
  from: number | undefined;
  skip: number;
  searched: string | undefined;
}

/** Cascade has the events of a row, the oldest first. It reads them when it is shown first, and more on demand. */
export function Cascade({ realm, row, choices }: { realm: string; row: Row; choices: Choices }) {
  const [known, setKnown] = useState<Known>();
  const [failure, setFailure] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const abort = useRef<AbortController | undefined>(undefined);
  // Without its command, a row is found from its first event on.
  const start = row.says === undefined ? undefined : row.first;
  const request = useRef({ root: row.root, start, choices });
  request.current = { root: row.root, start, choices };
  const read = useCallback(
    (before: Known | undefined) => {
      abort.current?.abort();
      const { signal } = (abort.current = new AbortController());
      const { root, start, choices } = request.current;
      setBusy(true);
      client.cascade(realm, root, choices, before?.from ?? start, before?.skip, { signal }).then(
        (page) => {
          setFailure(undefined);
          setBusy(false);
          setKnown({
            events: [...(before?.events ?? []), ...(page.events ?? [])],
            missing: [...(before?.missing ?? []), ...(page.missing ?? [])],
            from: page.from,
            skip: page.skip ?? 0,
            searched: page.searched ?? before?.searched,
          });
        },
        (error: unknown) => {
          if (!signal.aborted) {
            setFailure(failureOf(error));
            setBusy(false);
          }
        },
      );
    },
    [realm],
  );
  useEffect(() => {
    read(undefined);
    return () => abort.current?.abort();
  }, [read]);
  const all = total(row);
  const shown = known?.events.length ?? 0;
  return (
    <>
      {failure !== undefined && <Problem what="The events of this row could not be read." failure={failure} again={() => read(known)} />}
      {known === undefined ? (
        failure === undefined && <Loading what="the events of this row" />
      ) : (
        <>
          <MissingParts missing={known.missing} />
          <ol class="cascade">
            {known.events.map((event, i) => (
              <EventItem key={event.revision} realm={realm} event={event} named day={date(event.time) !== date(known.events[i - 1]?.time ?? row.at)} />
            ))}
          </ol>
          {known.from !== undefined && (
            <div class="events-more">
              <button type="button" disabled={busy} onClick={() => read(known)}>
                {busy ? "Reading…" : shown < all ? "Show more" : "Look for later events"}
              </button>
              <span class="dim">
                {count(shown)} of {count(Math.max(all, shown))} known events{known.searched !== undefined && `, searched up to ${absolute(known.searched)}`}
              </span>
            </div>
          )}
          {known.from === undefined && shown < all && (
            <div class="events-more">
              <button type="button" disabled={busy} onClick={() => read(undefined)}>
                {busy ? "Reading…" : "Read again"}
              </button>
              <span class="dim">The row has more events now.</span>
            </div>
          )}
        </>
      )}
    </>
  );
}
