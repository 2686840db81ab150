import type { Row } from "./rows.ts";

/** The server takes 32 asks of a tab. The page of an object has one more than its tree. */
export const mostFollowed = 25;

/** Following asks for news of objects. What is asked for an object stays while the object is among those that are wanted. */
export class Following {
  private readonly ends = new Map<string, () => void>();

  /** ask asks for news of an object, and returns what ends that. */
  constructor(private readonly ask: (uid: string) => () => void) {}

  /** want follows these objects, at most mostFollowed of them, and no others. */
  want(uids: readonly string[]): void {
    const wanted = uids.slice(0, mostFollowed);
    for (const [uid, end] of this.ends) {
      if (!wanted.includes(uid)) {
        this.ends.delete(uid);
        end();
      }
    }
    for (const uid of wanted) {
      if (!this.ends.has(uid)) {
        this.ends.set(uid, this.ask(uid));
      }
    }
  }
}

/** openIn returns the objects whose rows are open, each once, in the order of the rows. */
export function openIn(rows: readonly Row[]): string[] {
  return [...new Set(rows.flatMap((r) => (r.expanded === true && r.shows.is === "object" && r.shows.object.uid !== undefined ? [r.shows.object.uid] : [])))];
}

/** above returns an object and the objects of the rows above its row: they show how many objects are below them. */
export function above(rows: readonly Row[], uid: string): string[] {
  const byKey = new Map(rows.map((row) => [row.key, row]));
  const found = new Set<string>();
  for (const row of rows) {
    if (row.shows.is === "object" && row.shows.object.uid === uid) {
      for (let at: Row | undefined = row; at !== undefined; at = at.parent === undefined ? undefined : byKey.get(at.parent)) {
        if (at.shows.is === "object" && at.shows.object.uid !== undefined) {
          found.add(at.shows.object.uid);
        }
      }
    }
  }
  return [...found];
}
