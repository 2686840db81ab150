import type { Failure, Family, Relative } from "../../api/types.ts";
import { nameOf } from "../../lib/paths.ts";
import type { TreeRow } from "../../lib/tree.ts";

/** Branch is what is known of the relatives of an object. */
export interface Branch {
  family?: Family;
  /** dependents are of all parts that were read. */
  dependents: Relative[];
  failure?: Failure;
}

export type Side = "owners" | "dependents";

/** Row is a row of the tree. */
export interface Row extends TreeRow {
  /** id is what is expanded: a side, or a side and the uid of an object. */
  id: string;
  shows:
    | { is: "side"; side: Side; count: number }
    | { is: "object"; side: Side; object: Relative; again: boolean }
    | { is: "more"; uid: string; rest: number }
    | { is: "note"; text: string; uid?: string };
}

/** idOf is the id of an object in the set of what is expanded. */
export function idOf(side: Side, uid: string): string {
  return `${side}:${uid}`;
}

/** rowsOf returns the rows of the tree of an object: its owners and theirs, and its dependents and theirs. */
export function rowsOf(uid: string, branches: ReadonlyMap<string, Branch>, expanded: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  const root = branches.get(uid);
  const sides: [Side, number][] = [
    ["owners", root?.family?.self.owners ?? 0],
    ["dependents", root?.family?.self.dependents ?? 0],
  ];
  sides.forEach(([side, count], i) => {
    const open = count > 0 && expanded.has(side);
    rows.push({
      key: side,
      parent: undefined,
      level: 1,
      position: i + 1,
      size: 2,
      label: side,
      ...(count > 0 ? { expanded: open } : {}),
      id: side,
      shows: { is: "side", side, count },
    });
    if (open) {
      below(rows, { side, uid, parent: side, level: 2, above: new Set([uid]) }, branches, expanded);
    }
  });
  return rows;
}

interface At {
  side: Side;
  uid: string;
  parent: string;
  level: number;
  /** above are the objects on the path, which are not expanded again: owners may form a cycle. */
  above: ReadonlySet<string>;
}

function below(rows: Row[], at: At, branches: ReadonlyMap<string, Branch>, expanded: ReadonlySet<string>): void {
  const { side, uid, parent, level, above } = at;
  const branch = branches.get(uid);
  const note = (text: string, of?: string) =>
    rows.push({ key: `${parent}/note`, parent, level, position: 1, size: 1, label: text, id: "", shows: { is: "note", text, ...(of === undefined ? {} : { uid: of }) } });
  if (branch?.family === undefined) {
    note(branch?.failure === undefined ? "Reading…" : `Could not be read: ${branch.failure.message}`, branch?.failure === undefined ? undefined : uid);
    return;
  }
  const relatives = side === "owners" ? (branch.family.owners ?? []) : branch.dependents;
  const rest = side === "owners" ? 0 : Math.max(0, branch.family.total - relatives.length);
  if (relatives.length === 0 && rest === 0) {
    note(side === "owners" ? "No owners are left." : "No dependents are left.");
    return;
  }
  const size = relatives.length + (rest > 0 ? 1 : 0);
  relatives.forEach((object, i) => {
    const of = object.uid ?? "";
    const again = of !== "" && above.has(of);
    const count = side === "owners" ? object.owners : object.dependents;
    const expandable = of !== "" && !again && count > 0;
    const id = idOf(side, of);
    const open = expandable && expanded.has(id);
    const key = `${parent}/${of === "" ? `${object.namespace ?? ""}:${nameOf(object)}` : of}`;
    rows.push({
      key,
      parent,
      level,
      position: i + 1,
      size,
      label: object.name,
      ...(expandable ? { expanded: open } : {}),
      id,
      shows: { is: "object", side, object, again },
    });
    if (open) {
      below(rows, { side, uid: of, parent: key, level: level + 1, above: new Set([...above, of]) }, branches, expanded);
    }
  });
  if (rest > 0) {
    rows.push({ key: `${parent}/more`, parent, level, position: size, size, label: "", id: "", shows: { is: "more", uid, rest } });
  }
}
