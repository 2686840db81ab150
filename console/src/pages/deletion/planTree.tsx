import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { client } from "../../app.ts";
import type { Plan } from "../../api/types.ts";
import { go } from "../../lib/go.ts";
import { count, of } from "../../lib/numbers.ts";
import { objectPath } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";
import { openedIn, rememberOpened } from "../../lib/tree.ts";
import { Link } from "../../ui/link.tsx";
import { In } from "../../ui/parts.tsx";
import { TreeView } from "../../ui/tree.tsx";
import { Branches } from "./branches.ts";
import { OutcomeMark, wordOf } from "./outcomes.tsx";
import { type Row, openIn, rowsOf } from "./rows.ts";

/** A plan that the console has forgotten is made again only if it is at least that old, in ms. */
const youngest = 30_000;

/** PlanTree shows what happens to each object. again plans again. */
export function PlanTree({ realm, plan, again }: { realm: string; plan: Plan; again: () => void }) {
  const [expanded, setExpanded] = useState(() => openedIn(location.search, [plan.root.uid ?? ""]));
  const latest = useRef(again);
  latest.current = again;
  const branches = useMemo(() => {
    const made = Date.now();
    const forgotten = () => {
      if (Date.now() - made > youngest) {
        latest.current();
      }
    };
    return new Branches(plan, (uid, resource, from) => client.below(realm, plan.id, uid, resource, from), forgotten);
  }, [realm, plan]);
  const rows = rowsOf(plan.root, branches.known.value, expanded);
  const needed = openIn(rows).join(" ");
  useEffect(() => needed.split(" ").forEach((id) => id !== "" && branches.open(id)), [branches, needed]);
  const toggle = (row: Row) => {
    const next = new Set(expanded);
    if (!next.delete(row.id)) {
      next.add(row.id);
    }
    setExpanded(next);
    rememberOpened(next);
  };
  const enter = (row: Row) => {
    if (row.shows.is === "object") {
      go(objectPath(realm, row.shows.node));
    } else if (row.shows.is === "group") {
      toggle(row);
    } else if (row.shows.of !== undefined) {
      void branches.more(row.shows.of);
    }
  };
  return (
    <TreeView label="What happens to each object" rows={rows} first="root" toggle={toggle} enter={enter} leads={(row) => row.shows.is === "object"} is={(row) => row.shows.is}>
      {(row) => <Shown realm={realm} namespace={plan.object.namespace} row={row} />}
    </TreeView>
  );
}

function Shown({ realm, namespace, row: { shows } }: { realm: string; namespace: string | undefined; row: Row }) {
  switch (shows.is) {
    case "more":
      return <span class="more">Show more: {count(shows.rest)} not shown</span>;
    case "note":
      return <span class="dim">{visible(shows.text)}</span>;
    case "group":
      return (
        <>
          <span class="tree-name">
            <strong>
              {count(shows.node.group ?? 0)} {visible(shows.node.resource)}
            </strong>
            {shows.node.namespace !== undefined && shows.node.namespace !== namespace && <In namespace={shows.node.namespace} />}
          </span>{" "}
          <span class="tree-count" /> <OutcomeMark outcome={shows.node.outcome} />
        </>
      );
    case "object": {
      const { node } = shows;
      return (
        <>
          <span class="tree-name">
            <Link href={objectPath(realm, node)} focusable={false}>
              <span class="tree-resource">{visible(node.resource)}/</span>
              {visible(node.name)}
            </Link>
            {node.namespace !== undefined && node.namespace !== namespace && <In namespace={node.namespace} />}
            {node.terminating && <> <span class="tag">terminating</span></>}
            {node.uncertain && <> <span class="tag">uncertain</span></>}
            {node.says.toLowerCase() !== wordOf(node.outcome).toLowerCase() && <span class="dim tree-says"> {visible(node.says)}</span>}
          </span>{" "}
          <span class="tree-count">{node.below > 0 ? `${of(node.below, "object")} below` : ""}</span> <OutcomeMark outcome={node.outcome} />
        </>
      );
    }
  }
}
