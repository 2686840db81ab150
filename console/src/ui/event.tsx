import type { LogEvent } from "../api/types.ts";
import { reasonWord, typeWord } from "../lib/eventwords.ts";
import { count } from "../lib/numbers.ts";
import { visible } from "../lib/text.ts";
import { absolute, clock, date, now, relative } from "../lib/time.ts";
import { Icon, type IconName } from "./icons.tsx";
import { Mentions } from "./mentions.tsx";
import { ObjectLink } from "./parts.tsx";

const looks: { of: RegExp; icon: IconName; tone: string }[] = [
  { of: /Created|Imported|Restored/, icon: "created", tone: "good" },
  { of: /Deleted|Removed$/, icon: "removed", tone: "bad" },
  { of: /Marked/, icon: "terminating", tone: "wait" },
  { of: /Finalizer/, icon: "plug", tone: "wait" },
  { of: /Protect/, icon: "protected", tone: "info" },
  { of: /Owner/, icon: "namespace", tone: "info" },
  { of: /Updated|Changed|Applied|Patched/, icon: "changed", tone: "info" },
];

/** eventLook returns the icon of a type of events, and its colour. */
export function eventLook(type: string): { icon: IconName; tone: string } {
  return looks.find((look) => look.of.test(type)) ?? { icon: "event", tone: "dim" };
}

/** EventItem is an event in a list, with its causes. day shows its day above it, and named the object, unless the page is that of the object. */
export function EventItem({ realm, event, day, named = false }: { realm: string; event: LogEvent; day: boolean; named?: boolean }) {
  const { icon, tone } = eventLook(event.type);
  const because = event.because ?? [];
  const texts = [event.detail, event.note].filter((text): text is string => text !== undefined && text !== "");
  const mentions = (text: string) => <Mentions realm={realm} namespace={event.namespace} text={text} self={named ? undefined : event} />;
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
            <strong title={visible(event.type)}>{visible(typeWord(event.type))}</strong>{named && (
              <>
                {" "}
                <ObjectLink realm={realm} object={event} />
              </>
            )}
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
          {event.reason !== undefined && event.reason !== "Requested" && <p class="dim"><span title={visible(event.reason)}>{visible(reasonWord(event.reason))}</span></p>}
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
