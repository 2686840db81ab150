import type { GraphAsk } from "../api/types.ts";

/** GraphChoice is what a person has chosen to see of a graph: a GraphAsk, and the key of the selected node. */
export interface GraphChoice {
  namespace?: string;
  labels?: string;
  root?: string;
  open?: string[];
  shut?: string[];
  show?: string[];
  at?: string;
}

const texts = ["namespace", "labels", "root", "at"] as const;
const lists = ["open", "shut", "show"] as const;

/** The server accepts at most so many keys of opened and closed nodes together, and so many objects to show. */
const mostToggled = 200;
const mostShown = 20;

// Keys and labels have colons, commas and slashes, which a query need not encode.
function encoded(value: string): string {
  return encodeURIComponent(value).replace(/%(3A|2C|2F)/g, decodeURIComponent);
}

/** graphQuery builds the part of a URL from "?" on. A list is a parameter for each of its values. */
export function graphQuery(choice: GraphChoice): string {
  const pairs = [...texts.map((name) => [name, choice[name] ?? ""] as const), ...lists.flatMap((name) => (choice[name] ?? []).map((value) => [name, value] as const))];
  const set = pairs.filter(([, value]) => value !== "");
  return set.length === 0 ? "" : "?" + set.map(([name, value]) => `${name}=${encoded(value)}`).join("&");
}

/** graphChoiceOf is the inverse of graphQuery. */
export function graphChoiceOf(search: string): GraphChoice {
  const values = new URLSearchParams(search);
  const choice: GraphChoice = {};
  for (const name of texts) {
    const value = values.get(name);
    if (value) {
      choice[name] = value;
    }
  }
  for (const name of lists) {
    const all = [...new Set(values.getAll(name))].filter((value) => value !== "");
    if (all.length > 0) {
      choice[name] = all;
    }
  }
  return choice;
}

/** graphAskOf returns what the server is asked for. */
export function graphAskOf({ namespace, labels, root, open, shut, show }: GraphChoice): GraphAsk {
  return { ...(namespace && { namespace }), ...(labels && { labels }), ...(root && { root }), ...(open && { open }), ...(shut && { shut }), ...(show && { show }) };
}

/** toggled opens or closes the node with a key. shown are those of Show that are below it, which would keep it open. */
export function toggled(choice: GraphChoice, key: string, open: boolean, shown: readonly string[] = []): GraphChoice {
  const without = (list: string[] | undefined, keys: readonly string[]) => (list ?? []).filter((k) => !keys.includes(k));
  const opened = [...without(choice.open, [key]), ...(open ? [key] : [])];
  const closed = [...without(choice.shut, [key]), ...(open ? [] : [key])];
  // The oldest are forgotten first, and of those that were not just changed.
  while (opened.length + closed.length > mostToggled) {
    (opened.length > closed.length ? opened : closed).shift();
  }
  return { ...choice, open: opened, shut: closed, show: open ? (choice.show ?? []) : without(choice.show, shown) };
}

/** withShown opens what is above an object, and selects it. */
export function withShown(choice: GraphChoice, uid: string): GraphChoice {
  return { ...choice, show: [...(choice.show ?? []).filter((other) => other !== uid), uid].slice(-mostShown), at: uid };
}
