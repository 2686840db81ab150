import type { Failure, PlanNode } from "../../api/types.ts";
import { nameOf } from "../../lib/paths.ts";
import type { TreeRow } from "../../lib/tree.ts";

/** Branch is what is known of the nodes below a node of the plan. */
export interface Branch {
  nodes: PlanNode[];
  /** total is undefined until the first nodes were read. */
  total?: number;
  failure?: Failure;
}

/** Row is a row of the tree of a plan. */
export interface Row extends TreeRow {
  /** id is what is expanded, and the key of its branch. */
  id: string;
  shows: { is: "object"; node: PlanNode } | { is: "group"; node: PlanNode } | { is: "more"; of: string; rest: number } | { is: "note"; text: string; of?: string };
}

/** idOf is the key of what is below a node: an object's uid, or the uid above a group with the resource of the group. */
export function idOf(node: PlanNode, above: string): string {
  return node.group ? `${above}~${node.resource}` : (node.uid ?? "");
}

/** partsOf is the inverse of idOf. */
export function partsOf(id: string): { uid: string; resource?: string } {
  const [uid = "", resource] = id.split("~");
  return { uid, ...(resource === undefined ? {} : { resource }) };
}

/** rowsOf returns the rows of a plan: its root, and what is below it. */
export function rowsOf(root: PlanNode, branches: ReadonlyMap<string, Branch>, expanded: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  add(rows, root, { above: root.uid ?? "", parent: undefined, level: 1, position: 1, size: 1, path: new Set() }, branches, expanded);
  return rows;
}

interface At {
  above: string;
  parent: string | undefined;
  level: number;
  position: number;
  size: number;
  /** path are the nodes above, which are not expanded again: owners may form a cycle. */
  path: ReadonlySet<string>;
}

function add(rows: Row[], node: PlanNode, at: At, branches: ReadonlyMap<string, Branch>, expanded: ReadonlySet<string>): void {
  const { above, parent, level, position, size, path } = at;
  const id = idOf(node, above);
  const below = id !== "" && !path.has(id) && (node.group ?? node.children) > 0;
  const open = below && expanded.has(id);
  const key = parent === undefined ? "root" : `${parent}/${id === "" ? `${node.namespace ?? ""}:${nameOf(node)}` : id}`;
  rows.push({
    key,
    parent,
    level,
    position,
    size,
    label: node.group ? node.resource : node.name,
    ...(below ? { expanded: open } : {}),
    id,
    shows: { is: node.group ? "group" : "object", node },
  });
  if (!open) {
    return;
  }
  const row = (shows: Row["shows"], label: string, position: number, size: number) => rows.push({ key: `${key}/${shows.is}`, parent: key, level: level + 1, position, size, label, id: "", shows });
  const branch = branches.get(id);
  if (branch?.total === undefined) {
    const failed = branch?.failure;
    const text = failed === undefined ? "Reading…" : `Could not be read: ${failed.message}`;
    row({ is: "note", text, ...(failed === undefined ? {} : { of: id }) }, text, 1, 1);
    return;
  }
  const rest = branch.failure === undefined ? Math.max(0, branch.total - branch.nodes.length) : 0;
  const count = branch.nodes.length + (rest > 0 || branch.failure !== undefined ? 1 : 0);
  branch.nodes.forEach((child, i) => add(rows, child, { above: partsOf(id).uid, parent: key, level: level + 1, position: i + 1, size: count, path: new Set([...path, id]) }, branches, expanded));
  if (branch.failure !== undefined) {
    row({ is: "note", text: `Could not be read: ${branch.failure.message}`, of: id }, "", count, count);
  } else if (rest > 0) {
    row({ is: "more", of: id, rest }, "", count, count);
  }
}

/** openIn returns the ids of the rows that are open, each once. */
export function openIn(rows: readonly Row[]): string[] {
  return [...new Set(rows.flatMap((r) => (r.expanded === true ? [r.id] : [])))];
}
