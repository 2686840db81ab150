import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { client } from "../app.ts";
import type { Kind, Ref } from "../api/types.ts";
import { objectOf, pieces } from "../lib/mentions.ts";
import { nameOf, objectPath } from "../lib/paths.ts";
import { visible } from "../lib/text.ts";
import { Link } from "./link.tsx";

/** kinds are those of the realm whose object was shown last. */
const kinds = signal<{ realm: string; list: Kind[] }>({ realm: "", list: [] });

/** useKinds reads the kinds of a realm. Until they are known, and if they cannot be read, mentions are no links. */
export function useKinds(realm: string): void {
  useEffect(() => {
    const abort = new AbortController();
    client.kinds(realm, { signal: abort.signal }).then(
      (list) => (kinds.value = { realm, list }),
      () => undefined,
    );
    return () => abort.abort();
  }, [realm]);
}

const kindsOf = (realm: string): Kind[] => (kinds.value.realm === realm ? kinds.value.list : []);

/** same returns whether two references have the same name: the uid of one may not be known. */
function same(a: Ref | undefined, b: Ref): boolean {
  return a !== undefined && nameOf(a) === nameOf(b) && a.namespace === b.namespace;
}

/** Mentions shows a text of the server, in which the names of objects are links, except that of the object whose page it is: self. */
export function Mentions({ realm, namespace, text, self }: { realm: string; namespace: string | undefined; text: string; self?: Ref | undefined }) {
  return (
    <>
      {pieces(text, namespace, kindsOf(realm)).map((piece, i) =>
        typeof piece === "string" ? (
          visible(piece)
        ) : same(self, piece.object) ? (
          visible(piece.text)
        ) : (
          <Link key={i} href={objectPath(realm, piece.object)}>
            {visible(piece.text)}
          </Link>
        ),
      )}
    </>
  );
}

/** Named shows an object that a text such as "pods/a" names: as a link, except to the object whose page it is. */
export function Named({ realm, namespace, text, uid, self }: { realm: string; namespace: string | undefined; text: string; uid?: string | undefined; self?: Ref | undefined }) {
  const object = objectOf(text, namespace, kindsOf(realm), uid);
  return object === undefined || same(self, object) ? <>{visible(text)}</> : <Link href={objectPath(realm, object)}>{visible(text)}</Link>;
}
