import { replace } from "./go.ts";

/** TreeRow is a row of a tree. Its key is the path to it. */
export interface TreeRow {
  key: string;
  parent: string | undefined;
  level: number;
  position: number;
  size: number;
  label: string;
  /** expanded is undefined if there is nothing below the row. */
  expanded?: boolean;
}

/** Move is what a key does in a tree. */
export type Move<R extends TreeRow> = { focus: string } | { toggle: R } | { enter: R };

/** moveOf returns what a key does at a row, by the pattern of ARIA for trees. typed is what was typed shortly before, with the key. */
export function moveOf<R extends TreeRow>(rows: readonly R[], at: string, key: string, typed: string): Move<R> | undefined {
  const i = rows.findIndex((row) => row.key === at);
  const row = rows[i];
  if (row === undefined) {
    return undefined;
  }
  const focus = (target: R | undefined): Move<R> | undefined => (target === undefined ? undefined : { focus: target.key });
  switch (key) {
    case "ArrowDown":
      return focus(rows[i + 1]);
    case "ArrowUp":
      return focus(rows[i - 1]);
    case "Home":
      return focus(rows[0]);
    case "End":
      return focus(rows.at(-1));
    case "ArrowRight":
      if (row.expanded === false) {
        return { toggle: row };
      }
      return row.expanded === true && rows[i + 1]?.parent === row.key ? focus(rows[i + 1]) : undefined;
    case "ArrowLeft":
      return row.expanded === true ? { toggle: row } : focus(rows.find((r) => r.key === row.parent));
    case "Enter":
    case " ":
      return { enter: row };
  }
  if (typed === "") {
    return undefined;
  }
  // One character goes to the next row; several stay at a row that matches all of them.
  const from = typed.length === 1 ? i + 1 : i;
  return focus([...rows.slice(from), ...rows.slice(0, from)].find((r) => r.label.toLowerCase().startsWith(typed.toLowerCase())));
}

/** What the URL has at most of the rows that are open, so that it stays short enough to be sent. */
const remembered = 30;

/** openedIn reads from the URL which rows are open: those that are given, unless it says otherwise. */
export function openedIn(search: string, otherwise: readonly string[]): Set<string> {
  const open = new URLSearchParams(search).get("open");
  return new Set(open === null ? otherwise : open.split(",").filter((id) => id !== ""));
}

/** rememberOpened writes into the URL which rows are open. */
export function rememberOpened(opened: ReadonlySet<string>): void {
  const params = new URLSearchParams(location.search);
  params.set("open", [...opened].slice(0, remembered).join(","));
  replace(`${location.pathname}?${params.toString()}`);
}
