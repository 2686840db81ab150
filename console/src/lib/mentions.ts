import type { Kind, Ref } from "../api/types.ts";

/** Piece is a piece of a text: an object that it mentions, or what is between two mentions. */
export type Piece = string | { text: string; object: Ref };

/** find returns the kind that a text names by its resource ("deployments.apps") or by its kind and group ("Deployment.apps"). */
function find(kinds: readonly Kind[], name: string): Kind | undefined {
  return kinds.find((k) => {
    const slash = k.apiVersion.indexOf("/");
    const group = slash < 0 ? "" : k.apiVersion.slice(0, slash);
    return k.resource === name || name === (group === "" ? k.kind : `${k.kind}.${group}`);
  });
}

/**
 * objectOf returns the object that a text such as "deployments.apps/web" names: in the namespace, if its kind is namespaced. It is
 * undefined if the kind is not registered, or if the namespace is not known.
 */
export function objectOf(text: string, namespace: string | undefined, kinds: readonly Kind[], uid?: string): Ref | undefined {
  const slash = text.indexOf("/");
  const name = text.slice(slash + 1);
  const kind = slash > 0 ? find(kinds, text.slice(0, slash)) : undefined;
  if (kind === undefined || name === "" || (kind.namespaced && !namespace)) {
    return undefined;
  }
  return { resource: kind.resource, name, ...(kind.namespaced && namespace ? { namespace } : {}), ...(uid ? { uid } : {}) };
}

// A mention is a word of its own, without the punctuation around it. A word that goes on behind that is no mention, since the name in
// it would be cut: no link is better than one to another object.
const mention = /(?<=(?:^|\s)["'([]*)([A-Za-z0-9][A-Za-z0-9.-]*\/[^\s,;()"']*[^\s,;:.()"'])(?=[,;:.!?"')\]]*(?:\s|$))(?: \(([^\s()]+)\))?/g;

/** classes are those of owners, which stand in parentheses behind their names as namespaces do. */
const classes = ["solid", "waiting", "dangling", "unknown"];

/** pieces finds the objects that a text mentions. "pods/a (shop)" is in the namespace shop, others are in the one that is given. */
export function pieces(text: string, namespace: string | undefined, kinds: readonly Kind[]): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(mention)) {
    const [, name = "", other] = match;
    const object = objectOf(name, other === undefined || classes.includes(other) ? namespace : other, kinds);
    if (object !== undefined) {
      found.push(text.slice(end, match.index), { text: name, object });
      end = match.index + name.length;
    }
  }
  found.push(text.slice(end));
  return found.filter((piece) => piece !== "");
}
