import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type TreeRow, moveOf } from "../lib/tree.ts";
import { Icon } from "./icons.tsx";

interface Props<R extends TreeRow> {
  label: string;
  rows: R[];
  /** first is the key of the row that Tab reaches before another one had the focus. */
  first: string;
  toggle: (row: R) => void;
  enter: (row: R) => void;
  /** leads: the row leads to another view, and only its link and the key Enter do so. */
  leads: (row: R) => boolean;
  /** is names the sort of the row, for its look. */
  is: (row: R) => string;
  children: (row: R) => ComponentChildren;
}

/** TreeView shows rows as a tree, with the keys of the pattern of ARIA. */
export function TreeView<R extends TreeRow>({ label, rows, first, toggle, enter, leads, is, children }: Props<R>) {
  const [at, setAt] = useState(first);
  const tree = useRef<HTMLDivElement>(null);
  const typed = useRef({ text: "", time: 0 });
  // If the row with the focus is removed, the one that takes its place gets the focus.
  const place = useRef(0);
  const found = rows.findIndex((row) => row.key === at);
  const current = found >= 0 ? found : Math.min(place.current, rows.length - 1);
  place.current = current;
  const currentKey = rows[current]?.key ?? first;
  const lost = found < 0;
  const focused = useRef(false);
  const focus = (key: string) => {
    setAt(key);
    [...(tree.current?.children ?? [])].find((row): row is HTMLElement => row instanceof HTMLElement && row.dataset.key === key)?.focus();
  };
  useEffect(() => {
    if (lost && focused.current) {
      focus(currentKey);
    }
  }, [lost, currentKey]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const types = /^[\p{L}\p{N}._-]$/u.test(event.key);
    if (types) {
      const now = event.timeStamp;
      typed.current = { text: now - typed.current.time < 700 ? typed.current.text + event.key : event.key, time: now };
    }
    const move = moveOf(rows, currentKey, event.key, types ? typed.current.text : "");
    if (move === undefined) {
      return;
    }
    event.preventDefault();
    if ("focus" in move) {
      focus(move.focus);
    } else if ("toggle" in move) {
      toggle(move.toggle);
    } else {
      enter(move.enter);
    }
  };
  return (
    <div
      ref={tree}
      role="tree"
      tabIndex={-1}
      aria-label={label}
      class="tree"
      onKeyDown={onKeyDown}
      onFocusIn={() => (focused.current = true)}
      onFocusOut={(event) => {
        // A row that is removed loses the focus to nothing.
        focused.current = event.relatedTarget === null && !document.contains(event.target as Node);
      }}
    >
      {rows.map((row) => (
        // The tree has the keys of its rows.
        // eslint-disable-next-line jsx-a11y/click-events-have-key-events
        <div
          key={row.key}
          data-key={row.key}
          role="treeitem"
          class={`tree-row is-${is(row)}`}
          style={{ "--level": row.level }}
          tabIndex={row.key === currentKey ? 0 : -1}
          aria-level={row.level}
          aria-posinset={row.position}
          aria-setsize={row.size}
          aria-expanded={row.expanded}
          aria-selected={false}
          onFocus={() => setAt(row.key)}
          onClick={(event) => {
            if (!(event.target as HTMLElement).closest("a")) {
              setAt(row.key);
              if (row.expanded !== undefined) {
                toggle(row);
              } else if (!leads(row)) {
                enter(row);
              }
            }
          }}
        >
          <span class="twist">{row.expanded !== undefined && <Icon name={row.expanded ? "down" : "right"} />}</span>
          {children(row)}
        </div>
      ))}
    </div>
  );
}
