import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useSearch } from "wouter-preact/use-browser-location";
import { type Choices, choicesOf } from "../../lib/eventfilter.ts";
import { count, of } from "../../lib/numbers.ts";
import { useRights } from "../../lib/rights.ts";
import { sentence, visible } from "../../lib/text.ts";
import { absolute } from "../../lib/time.ts";
import { useKinds } from "../../ui/mentions.tsx";
import { Empty, Loading, MissingParts, Notice, Problem } from "../../ui/parts.tsx";
import { View } from "../../ui/view.tsx";
import { Filter } from "./filter.tsx";
import { useLog } from "./log.ts";
import { EventRowItem } from "./row.tsx";
import { days, fresh, mostRows, stale } from "./rows.ts";

/** EventsPage shows the log of a realm, the newest first: each command with all that followed from it is a row. */
export function EventsPage({ realm }: { realm: string }) {
  const search = useSearch();
  const choices = choicesOf(search);
  const key = JSON.stringify(choices);
  const { rights } = useRights(realm);
  useKinds(realm);
  return (
    <View title={`Events of ${visible(realm)}`} heading="Events" of={`events ${realm}`} wide>
      {rights?.events !== false && <Filter key={`filter ${key}`} realm={realm} choices={choices} />}
      <List key={`list ${key}`} realm={realm} chosen={choices} />
    </View>
  );
}

/** nearTop is how many pixels a page may be scrolled for new rows to be shown at once. */
const nearTop = 40;

function List({ realm, chosen }: { realm: string; chosen: Choices }) {
  const [following, setFollowing] = useState(true);
  const open = useRef(new Set<string>());
  const opened = useCallback((key: string, is: boolean) => {
    if (is) {
      open.current.add(key);
    } else {
      open.current.delete(key);
    }
  }, []);
  const free = () => following && window.scrollY <= nearTop && open.current.size === 0;
  const { log, choices, missing, failure, stopped, busy, again, more, put } = useLog(realm, chosen, free);
  const waiting = log?.waiting.length ?? 0;
  // Rows that waited for the reader are shown when the page is back at its top.
  useEffect(() => {
    if (waiting === 0) {
      return;
    }
    const check = () => {
      if (following && window.scrollY === 0 && open.current.size === 0) {
        put();
      }
    };
    window.addEventListener("scroll", check, { passive: true });
    return () => window.removeEventListener("scroll", check);
  });
  if (log === undefined && failure?.reason === "Forbidden") {
    return (
      <Notice tone="info" role="alert">
        <p>
          <strong>Your user may not read the log.</strong> {visible(sentence(failure.message))}
        </p>
      </Notice>
    );
  }
  if (log === undefined) {
    return failure === undefined ? <Loading what="the events" lines={10} /> : <Problem what="The events could not be read." failure={failure} again={again} />;
  }
  const news = fresh(log);
  const old = stale(log);
  const day = days(log.rows);
  const { before } = log;
  return (
    <section class="section" aria-label="Rows">
      <div class="events-bar">
        <label class="switch">
          <input
            type="checkbox"
            role="switch"
            checked={following}
            onChange={(event) => {
              setFollowing(event.currentTarget.checked);
              if (event.currentTarget.checked && window.scrollY <= nearTop && open.current.size === 0) {
                put();
              }
            }}
          />
          Follow
        </label>
        <span class="events-news" role="status">
          {(waiting > 0 || old) && (
            <button
              type="button"
              class="primary"
              disabled={old && busy}
              onClick={() => {
                window.scrollTo(0, 0);
                if (old) {
                  again();
                } else {
                  put();
                }
              }}
            >
              {old && busy ? "Reading…" : log.gap || news === 0 ? "Show what is new" : old ? `${count(news)}${log.missed.size < mostRows ? "" : " or more"} new; show` : of(news, "new row")}
            </button>
          )}
        </span>
      </div>
      {failure !== undefined && <Problem what="The events could not be read." failure={failure} again={again} />}
      {stopped !== undefined && <Problem what="New events do not arrive." failure={stopped} again={again} />}
      <MissingParts missing={missing} />
      {log.rows.length === 0 ? (
        <Empty>{before === undefined ? "No event matches." : "No event of the searched part of the log matches."}</Empty>
      ) : (
        <ol class="event-rows">
          {log.rows.map((row, i) => (
            <EventRowItem
              key={row.key}
              realm={realm}
              row={row}
              choices={choices}
              opened={opened}
              day={day[i]}
            />
          ))}
        </ol>
      )}
      {before !== undefined ? (
        <div class="events-more">
          <button type="button" disabled={busy} onClick={more}>
            {busy ? "Reading…" : "Show older"}
          </button>
          {log.searched !== undefined && <span class="dim">Searched back to {absolute(log.searched)}</span>}
        </div>
      ) : (
        log.rows.length > 0 && <p class="dim">{choices.since !== undefined || choices.cause !== undefined ? "There are no older events that match." : "This is the beginning of the log."}</p>
      )}
      {chosen.until !== undefined && (
        <Notice tone="info">
          <p>Only events before a time are shown, so that none is new.</p>
        </Notice>
      )}
    </section>
  );
}
