import { useEffect, useRef, useState } from "preact/hooks";
import type { Picture } from "./picture.ts";

/** The URL names another selected node at most once in so long, in ms: browsers limit how often it may change. */
const settle = 250;

export interface Selection {
  key: string | undefined;
  /** slot is -1 if nothing is selected, or if it is not shown. */
  slot: number;
  select: (slot: number) => void;
  /** selectKey selects what may be shown later only. The caller changes the URL. */
  selectKey: (key: string) => void;
  /** write makes the URL name the selected node now, as before another page is shown. */
  write: () => void;
}

/**
 * useSelection keeps which node is selected, by its key, which the URL has, too. named is the key in the URL, and name changes it.
 */
export function useSelection(picture: Picture, named: string | undefined, name: (key: string | undefined) => void): Selection {
  const [key, setKey] = useState(named);
  const written = useRef(named);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const pending = useRef<(() => void) | undefined>(undefined);
  const changed = useRef(0);
  const at = useRef(-1);
  const latest = useRef(name);
  latest.current = name;
  useEffect(() => {
    if (named !== written.current) {
      written.current = named;
      clearTimeout(timer.current);
      pending.current = undefined;
      setKey(named);
    }
  }, [named]);
  useEffect(() => () => clearTimeout(timer.current), []);
  if (key === undefined) {
    at.current = -1;
  } else if (!picture.shown(at.current) || picture.keyOf(at.current) !== key) {
    at.current = picture.find(key);
  }
  const write = () => {
    clearTimeout(timer.current);
    pending.current?.();
  };
  const select = (slot: number) => {
    const next = picture.shown(slot) ? picture.keyOf(slot) : undefined;
    setKey(next);
    clearTimeout(timer.current);
    pending.current = () => {
      pending.current = undefined;
      if (next !== written.current) {
        changed.current = Date.now();
        written.current = next;
        latest.current(next);
      }
    };
    timer.current = setTimeout(write, Math.max(0, changed.current + settle - Date.now()));
  };
  const selectKey = (next: string) => {
    clearTimeout(timer.current);
    pending.current = undefined;
    written.current = next;
    setKey(next);
  };
  return { key, slot: at.current, select, selectKey, write };
}
