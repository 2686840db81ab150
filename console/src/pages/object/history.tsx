import { useEffect, useRef, useState } from "preact/hooks";
import { client } from "../../app.ts";
import { failureOf } from "../../api/client.ts";
import type { Failure, History, Ref } from "../../api/types.ts";
import { ofObject } from "../../lib/eventfilter.ts";
import { of } from "../../lib/numbers.ts";
import { eventsPath } from "../../lib/paths.ts";
import { date } from "../../lib/time.ts";
import { EventItem } from "../../ui/event.tsx";
import { Link } from "../../ui/link.tsx";
import { Empty, Loading, MissingParts, Problem, Section } from "../../ui/parts.tsx";
import { type Events, newest, older } from "./events.ts";

/** HistoryList has the events of an object, the newest first. changes counts the changes after which they are read again; events: the user may read the log. */
export function HistoryList({ realm, object, changes, events }: { realm: string; object: Ref; changes: number; events: boolean }) {
  const { uid, resource, namespace, name } = object;
  const [known, setKnown] = useState<Events>();
  const [page, setPage] = useState<History>();
  const [failure, setFailure] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const [tries, setTries] = useState(0);
  const read = useRef(changes);
  useEffect(() => {
    let current = true;
    const background = read.current !== changes;
    read.current = changes;
    const ref: Ref = { resource, name, ...(namespace === undefined ? {} : { namespace }), ...(uid === undefined ? {} : { uid }) };
    client.history(realm, ref, undefined, { background }).then(
      (page) => {
        if (current) {
          setPage(page);
          setFailure(undefined);
          setKnown((before) => newest(before, page));
        }
      },
      (error: unknown) => {
        if (current) {
          setFailure(failureOf(error));
        }
      },
    );
    return () => {
      current = false;
    };
  }, [realm, uid, resource, namespace, name, changes, tries]);
  const more = async (before: number) => {
    setBusy(true);
    try {
      const read = await client.history(realm, object, before);
      setKnown((events) => (events?.before === before ? older(events, read) : events));
    } catch (error) {
      setFailure(failureOf(error));
    }
    setBusy(false);
  };
  const skipped = page?.skipped ?? [];
  const before = known?.before;
  return (
    <Section id="history" title="History" aside={known?.complete ? of(known.events.length, "event") : undefined}>
      {failure !== undefined && <Problem what="The history could not be read." failure={failure} again={() => setTries(tries + 1)} />}
      <MissingParts missing={page?.missing ?? null} />
      {known === undefined ? (
        failure === undefined && <Loading what="the history" />
      ) : known.events.length === 0 ? (
        (page?.missing ?? []).length === 0 && <Empty>{known.complete ? "The log has no event of this object." : "The newest part of the log has no event of this object."}</Empty>
      ) : (
        <ol class="events">
          {known.events.map((event, i) => (
            <EventItem key={`${event.revision} ${event.type}`} realm={realm} event={event} day={i === 0 || date(event.time) !== date(known.events[i - 1]?.time ?? "")} />
          ))}
        </ol>
      )}
      {known !== undefined && !known.complete && before !== undefined && (
        <button type="button" disabled={busy} onClick={() => void more(before)}>
          {busy ? "Reading…" : "Show older events"}
        </button>
      )}
      {events && (
        <p class="to-events">
          <Link href={eventsPath(realm, ofObject(object))}>In the events of the realm</Link>
        </p>
      )}
      {skipped.length > 0 && (
        <p class="dim">
          {of(skipped.length, "message")} of the log ({skipped.slice(0, 5).join(", ")}
          {skipped.length > 5 && ", …"}) {skipped.length === 1 ? "is no commit of the realm, and has" : "are no commits of the realm, and have"} no effect.
        </p>
      )}
    </Section>
  );
}
