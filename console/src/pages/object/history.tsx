import { useEffect, useRef, useState } from "preact/hooks";
import { client } from "../../app.ts";
import { failureOf } from "../../api/client.ts";
import type { Failure, History, LogEvent, Ref } from "../../api/types.ts";
import { count, of } from "../../lib/numbers.ts";
import { visible } from "../../lib/text.ts";
import { absolute, clock, date, now, relative } from "../../lib/time.ts";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { Mentions } from "../../ui/mentions.tsx";
import { Empty, Loading, MissingParts, Problem, Section } from "../../ui/parts.tsx";
import { type Events, newest, older } from "./events.ts";

/** HistoryList has the events of an object, the newest first. changes counts the changes after which they are read again. */
export function HistoryList({ realm, object, changes }: { realm: string; object: Ref; changes: number }) {
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
        <Empty>{known.complete ? "The log has no event of this object." : "The newest part of the log has no event of this object."}</Empty>
      ) : (
        <ol class="events">
          {known.events.map((event, i) => (
            <Event key={`${event.revision} ${event.type}`} realm={realm} event={event} day={i === 0 || date(event.time) !== date(known.events[i - 1]?.time ?? "")} />
          ))}
        </ol>
      )}
      {known !== undefined && !known.complete && before !== undefined && (
        <button type="button" disabled={busy} onClick={() => void more(before)}>
          {busy ? "Reading…" : "Show older events"}
        </button>
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

const looks: { of: RegExp; icon: IconName; tone: string }[] = [
  { of: /Created|Imported|Restored/, icon: "created", tone: "good" },
  { of: /Deleted|Removed$/, icon: "removed", tone: "bad" },
  { of: /Marked/, icon: "terminating", tone: "wait" },
  { of: /Finalizer/, icon: "plug", tone: "wait" },
  { of: /Protect/, icon: "protected", tone: "info" },
  { of: /Owner/, icon: "namespace", tone: "info" },
  { of: /Updated|Changed|Applied|Patched/, icon: "changed", tone: "info" },
];

function Event({ realm, event, day }: { realm: string; event: LogEvent; day: boolean }) {
  const { icon, tone } = looks.find((look) => look.of.test(event.type)) ?? { icon: "event" as const, tone: "dim" };
  const because = event.because ?? [];
  const texts = [event.detail, event.note].filter((text): text is string => text !== undefined && text !== "");
  const mentions = (text: string) => <Mentions realm={realm} namespace={event.namespace} text={text} self={event} />;
  return (
    <>
      {day && <li class="day">{date(event.time)}</li>}
      <li class="event">
        <time dateTime={event.time} title={`${absolute(event.time)}, ${relative(event.time, now.value)}`}>
          {clock(event.time)}
        </time>
        <Icon name={icon} tone={tone} />
        <div>
          <p>
            <strong>{visible(event.type)}</strong>
            {event.cause === undefined && event.actor !== undefined && (
              <span>
                {" "}
                by {visible(event.actor)}
                {event.verb !== undefined && ` (${visible(event.verb)})`}
              </span>
            )}{" "}
            <span class="dim revision">revision {count(event.revision)}</span>
          </p>
          {texts.map((text) => (
            <p key={text}>{mentions(text)}</p>
          ))}
          {event.reason !== undefined && event.reason !== "Requested" && <p class="dim">{visible(event.reason)}</p>}
          {because.length === 1 && <p class="because">because {mentions(because[0] ?? "")}</p>}
          {because.length > 1 && (
            <details class="because">
              <summary>
                because {visible(because[0] ?? "")} <span class="dim">({count(because.length)} causes)</span>
              </summary>
              <ol>
                {because.map((cause) => (
                  <li key={cause}>because {mentions(cause)}</li>
                ))}
              </ol>
            </details>
          )}
        </div>
      </li>
    </>
  );
}
