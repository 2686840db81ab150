import { useEffect, useState } from "preact/hooks";
import type { Choices } from "../../lib/eventfilter.ts";
import { did, typeCount, typeWord } from "../../lib/eventwords.ts";
import { of } from "../../lib/numbers.ts";
import { nameOf } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";
import { absolute, clock, date, now, relative } from "../../lib/time.ts";
import { eventLook } from "../../ui/event.tsx";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { ObjectLink } from "../../ui/parts.tsx";
import { Cascade } from "./cascade.tsx";
import { type Row, followed, total } from "./rows.ts";

const marks: Record<string, { icon: IconName; tone: string; word: string }> = {
  Skipped: { icon: "warning", tone: "wait", word: "Message skipped" },
  Lost: { icon: "error", tone: "bad", word: "Commits lost" },
  Realm: { icon: "info", tone: "info", word: "About the realm" },
};

/** longCommand is after how many ms the end of what followed is told apart from the command. */
const longCommand = 10_000;

/** EventRowItem is a row of the log. opened is called when it is unfolded and folded. */
export function EventRowItem({ realm, row, choices, day, opened }: { realm: string; row: Row; choices: Choices; day: string | undefined; opened: (key: string, is: boolean) => void }) {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    opened(row.key, open);
    return () => opened(row.key, false);
  }, [opened, row.key, open]);
  const mark = row.mark === undefined ? undefined : (marks[row.mark] ?? { icon: "info", tone: "dim", word: row.mark });
  const { icon, tone } = mark ?? (row.type === undefined ? { icon: "more" as const, tone: "dim" } : lookOfCommand(row));
  const label = open ? "Fold" : of(total(row), "event");
  const id = `row-${row.key.replaceAll(/\W/g, "-")}`;
  return (
    <>
      {day !== undefined && <li class="day">{day}</li>}
      <li class={`event-row${mark === undefined ? "" : ` tone-${mark.tone} marked`}`}>
        {Date.parse(row.at) > 0 ? (
          <time dateTime={row.at} title={`${absolute(row.at)}, ${relative(row.at, now.value)}`}>
            {clock(row.at)}
          </time>
        ) : (
          <span class="dim">no time</span>
        )}
        <Icon name={icon} tone={tone} />
        <div>
          {mark === undefined ? (
            <>
              <Command realm={realm} row={row} />
              <button type="button" class="quiet unfold" aria-expanded={open} aria-controls={id} aria-label={`${label}: ${sentenceOf(row)}`} onClick={() => setOpen(!open)}>
                <Icon name={open ? "down" : "right"} /> {label}
              </button>
            </>
          ) : (
            <p>
              <strong>{row.type === undefined ? mark.word : typeWord(row.type)}</strong> {visible(row.says ?? "")}
              {row.actor !== undefined && ` Recorded by ${visible(row.actor)}.`}
            </p>
          )}
          {row.note !== undefined && <p class="note">{visible(row.note)}</p>}
        </div>
        {mark === undefined && <div id={id} class="unfolded" hidden={!open}>{open && <Cascade realm={realm} row={row} choices={choices} />}</div>}
      </li>
    </>
  );
}

function lookOfCommand(row: Row): { icon: IconName; tone: string } {
  return row.verb === "delete" || row.verb === "deletecollection" ? eventLook("ObjectDeleted") : eventLook(row.type ?? "");
}

/** sentenceOf is a command in words. */
function sentenceOf(row: Row): string {
  return row.type === undefined ? `what followed from revision ${row.root}` : `${visible(row.actor ?? "")} ${did(row.verb, row.type)} ${visible(nameOf(row.object))}`;
}

/** Command says who did what, and how much followed. */
function Command({ realm, row }: { realm: string; row: Row }) {
  const list = followed(row).map(({ type, count }) => typeCount(type, count)).join(", ");
  const late = Date.parse(row.latest) - Date.parse(row.time) > longCommand;
  return (
    <>
      <p>
        {row.type === undefined ? (
          <strong>Consequences</strong>
        ) : (
          <>
            <strong>{visible(row.actor ?? "")}</strong> {did(row.verb, row.type)} <ObjectLink realm={realm} object={row.object} />
            {row.objects > 1 && ` and ${of(row.objects - 1, "other object")}`}
          </>
        )}
        {list !== "" && (
          <span class="followed">
            {row.type === undefined || row.begins ? ": " : ": then "}
            {visible(list)}
          </span>
        )}
      </p>
      {row.says !== undefined && row.says !== "" && <p class="dim">{visible(row.says)}</p>}
      {row.type !== undefined && late && (
        <p class="dim">
          {!row.begins && `Commanded ${date(row.time) === date(row.at) ? clock(row.time) : absolute(row.time)}. `}Last event {date(row.latest) === date(row.at) ? clock(row.latest) : absolute(row.latest)}.
        </p>
      )}
    </>
  );
}
