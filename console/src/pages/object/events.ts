import type { History, LogEvent } from "../../api/types.ts";

/** Events are the events of an object that were read: the newest first, without a gap. */
export interface Events {
  events: LogEvent[];
  complete: boolean;
  before: number | undefined;
}

/** older adds the events that are before those that were read. */
export function older(known: Events, page: History): Events {
  return { events: [...known.events, ...(page.events ?? [])], complete: page.complete, before: page.before };
}

/** newest puts the newest events before those that were read. Those are dropped if there are others between them. */
export function newest(known: Events | undefined, page: History): Events {
  const events = page.events ?? [];
  const fresh = { events, complete: page.complete, before: page.before };
  const last = events.at(-1);
  const first = known?.events[0];
  if (known === undefined || page.complete || last === undefined || first === undefined || last.revision > first.revision) {
    return fresh;
  }
  return { events: [...events, ...known.events.filter((e) => e.revision < last.revision)], complete: known.complete, before: known.before };
}
