import type { EventCount, EventRow, Events } from "../../api/types.ts";
import { date } from "../../lib/time.ts";

/** Row is a row of the page. */
export interface Row extends EventRow {
  key: string;
  /** at is the time that places the row: that of the command, or of its newest event if the command was not read. It never changes. */
  at: string;
}

/** Log is what the page has read of the log. */
export interface Log {
  rows: Row[];
  /** waiting are rows of new commits that are not shown yet. */
  waiting: Row[];
  before: number | undefined;
  last: number;
  searched: string | undefined;
  /** missed are the keys of new rows that are not kept, because the page has as many rows as it keeps. */
  missed: ReadonlySet<string>;
  /** gap: the newest rows are read again only when a person asks for them, since the live connection cannot send them any more. */
  gap: boolean;
  /** read counts the times that the page was read. */
  read: number;
}

/** mostRows is how many rows a page keeps of what arrives. It drops none: the newest are read again when a person asks for them. */
export const mostRows = 3000;

function rowOf(row: EventRow): Row {
  return { ...row, key: row.mark === undefined ? `root ${row.root}` : `${row.mark} ${row.last} ${row.type ?? ""}`, at: row.begins || row.mark !== undefined ? row.time : row.latest };
}

function addCounts(a: EventCount[] | null, b: EventCount[] | null): EventCount[] {
  const sums = new Map((a ?? []).map((c) => [c.type, c]));
  for (const { type, count, own = 0 } of b ?? []) {
    const sum = sums.get(type);
    sums.set(type, { type, count: (sum?.count ?? 0) + count, own: (sum?.own ?? 0) + own });
  }
  return [...sums.values()].sort((x, y) => (x.type < y.type ? -1 : 1));
}

/** both returns a row with what two rows of the same command have. The place is that of the first. */
function both(a: Row, b: EventRow): Row {
  const known = a.type === undefined ? b : a; // the other one does not have the command
  const row: Row = {
    ...a,
    ...known,
    key: a.key,
    at: a.at,
    first: Math.min(a.first, b.first),
    last: Math.max(a.last, b.last),
    begins: a.begins || b.begins,
    latest: Date.parse(a.latest) >= Date.parse(b.latest) ? a.latest : b.latest,
    counts: addCounts(a.counts, b.counts),
  };
  if (known.says === undefined) {
    delete row.says; // it said that the command is not known
  }
  return row;
}

/** joins returns whether two rows are parts of the same loss. */
function joins(newer: Row | undefined, older: EventRow): boolean {
  return newer?.mark === "Lost" && older.mark === "Lost" && newer.first === older.last + 1;
}

/** merge adds rows of the same command, and returns the others in the order of time, the newest first. */
function merge(known: Row[], more: readonly EventRow[]): { known: Row[]; rest: Row[] } {
  const at = new Map(known.map((row, i) => [row.key, i]));
  const merged = [...known];
  const rest: Row[] = [];
  const inRest = new Map<string, number>();
  for (const row of more) {
    const is = rowOf(row);
    const i = at.get(is.key);
    const j = inRest.get(is.key);
    const old = i === undefined ? undefined : merged[i];
    const own = j === undefined ? undefined : rest[j];
    if (i !== undefined && old !== undefined) {
      merged[i] = row.mark === undefined ? both(old, row) : old;
    } else if (j !== undefined && own !== undefined) {
      rest[j] = row.mark === undefined ? both(own, row) : own;
    } else {
      inRest.set(is.key, rest.length);
      rest.push(is);
    }
  }
  // A part of the log that is lost has no time.
  const time = (row: Row) => (Date.parse(row.at) > 0 ? Date.parse(row.at) : undefined);
  rest.sort((a, b) => (time(a) === undefined || time(b) === undefined ? b.last - a.last : (time(b) ?? 0) - (time(a) ?? 0)));
  return { known: merged, rest };
}

/** joined joins the parts of losses that follow each other. */
function joined(rows: Row[]): Row[] {
  const list: Row[] = [];
  for (const row of rows) {
    const before = list.at(-1);
    if (before !== undefined && joins(before, row)) {
      list[list.length - 1] = { ...before, first: row.first };
    } else {
      list.push(row);
    }
  }
  return list;
}

/** begin is the log after the first reply. */
export function begin(page: Events, read: number): Log {
  return { rows: joined(merge([], page.rows ?? []).rest), waiting: [], before: page.before, last: page.last, searched: page.searched, missed: new Set(), gap: false, read };
}

/** older adds a reply with rows that are older. */
export function older(log: Log, page: Events): Log {
  const { known, rest } = merge(log.rows, page.rows ?? []);
  return { ...log, rows: joined([...known, ...rest]), before: page.before, searched: page.searched ?? log.searched };
}

/**
 * arrive adds rows of new commits to those that wait. When the page has as many rows as it keeps, only rows of commands that it has are
 * added, and the others are counted.
 */
export function arrive(log: Log, page: Events): Log {
  const kept = new Set([...log.rows, ...log.waiting].map((row) => row.key));
  const missed = new Set(log.missed);
  const added = (page.rows ?? []).filter((row) => {
    const { key } = rowOf(row);
    if (kept.has(key)) {
      return true;
    }
    // What was missed once is not complete.
    if (kept.size >= mostRows || missed.size > 0) {
      if (missed.size < mostRows) {
        missed.add(key);
      }
      return false;
    }
    kept.add(key);
    return true;
  });
  const { known, rest } = merge(log.waiting, added);
  return { ...log, waiting: [...rest, ...known], missed, last: Math.max(log.last, page.last) };
}

/** show puts the rows that wait at the top, and adds those of known commands to their rows, which stay where they are. */
export function show(log: Log): Log {
  if (log.waiting.length === 0) {
    return log;
  }
  const { known, rest } = merge(log.rows, log.waiting);
  return { ...log, rows: [...rest, ...known], waiting: [] };
}

/** fresh is the number of new rows that are not on the page yet. */
export function fresh(log: Log): number {
  const keys = new Set(log.rows.map((row) => row.key));
  return log.waiting.filter((row) => !keys.has(row.key)).length + log.missed.size;
}

/** stale returns whether what is new has to be read: the page does not have it. */
export function stale(log: Log): boolean {
  return log.gap || log.missed.size > 0;
}

/** followed returns the counts of a row without the events that the command itself names. */
export function followed(row: EventRow): EventCount[] {
  return (row.counts ?? []).map(({ type, count, own = 0 }) => ({ type, count: count - own })).filter(({ count }) => count > 0);
}

/** days returns, for each row that is the first of a day, the day. */
export function days(rows: readonly Row[]): (string | undefined)[] {
  let last: string | undefined;
  return rows.map(({ at }) => {
    const day = Date.parse(at) > 0 ? date(at) : last;
    const begins = day !== last;
    last = day;
    return begins ? day : undefined;
  });
}

/** total is the number of events of a row. */
export function total(row: EventRow): number {
  return (row.counts ?? []).reduce((sum, { count }) => sum + count, 0);
}
