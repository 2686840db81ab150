import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { client, live } from "../../app.ts";
import { count, of } from "../../lib/numbers.ts";
import { go } from "../../lib/go.ts";
import { objectPath } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";
import { Throttle } from "../../lib/throttle.ts";
import { openedIn, rememberOpened } from "../../lib/tree.ts";
import { Link } from "../../ui/link.tsx";
import { In, Loading, Notice, Problem, Section } from "../../ui/parts.tsx";
import { StateMark } from "../../ui/state.tsx";
import { TreeView } from "../../ui/tree.tsx";
import { Families } from "./families.ts";
import { Following, above, mostFollowed, openIn } from "./follow.ts";
import { type Row, rowsOf } from "./rows.ts";

/** What changes is read again at most that often, in ms. */
const pause = 500;

/**
 * Tree shows owners and dependents of an object. changes counts the changes of the object after which they are read again. The tree
 * follows the objects of open rows itself.
 */
export function Tree({ realm, uid, namespace, changes }: { realm: string; uid: string; namespace: string | undefined; changes: number }) {
  const [families] = useState(() => new Families((of, from, background) => client.family(realm, of, from, { background })));
  const [expanded, setExpanded] = useState(() => openedIn(location.search, ["owners", "dependents"]));
  const branches = families.branches.value;
  const rows = rowsOf(uid, branches, expanded);
  useNews(realm, uid, families, rows, changes);

  const toggle = (row: Row) => {
    const next = new Set(expanded);
    if (!next.delete(row.id)) {
      next.add(row.id);
    }
    setExpanded(next);
    rememberOpened(next);
  };
  const root = branches.get(uid);
  return (
    <Section id="tree" title="Owners and dependents" aside={root?.family && root.family.self.below > 0 ? `${of(root.family.self.below, "object")} below` : undefined}>
      {root?.failure !== undefined && <Problem what="Owners and dependents could not be read." failure={root.failure} again={() => families.retry(uid)} />}
      {root?.family?.loading && (
        <Notice tone="info">
          <p>The objects of the realm are still being read. Counts grow until that is complete.</p>
        </Notice>
      )}
      {root === undefined ? <Loading what="owners and dependents" /> : root.family !== undefined && <Rows realm={realm} namespace={namespace} rows={rows} toggle={toggle} families={families} />}
    </Section>
  );
}

/** useNews reads what is shown when it is needed, and again after changes: of the object, and of those whose rows are open. */
function useNews(realm: string, uid: string, families: Families, rows: Row[], changes: number): void {
  const open = openIn(rows);
  const latest = useRef({ rows, open });
  latest.current = { rows, open };
  const changed = useMemo(() => new Set<string>(), []);
  const throttle = useMemo(
    () =>
      new Throttle(pause, () => {
        families.refresh(changed);
        changed.clear();
      }),
    [families, changed],
  );
  const following = useMemo(() => {
    const ask = (of: string) => {
      const news = () => {
        [uid, ...above(latest.current.rows, of)].forEach((one) => changed.add(one));
        throttle.ask();
      };
      return live.ask({ realm, view: "Object", uid: of }, { news: (says) => says.changed && news(), again: news });
    };
    return new Following(ask);
  }, [realm, uid, changed, throttle]);
  // Rows that the URL names are read when the rows above them are.
  const needed = [uid, ...open].join(" ");
  useEffect(() => {
    const all = needed.split(" ");
    all.forEach((of) => families.open(of));
    following.want(all.slice(1));
  }, [families, following, needed]);
  useEffect(
    () => () => {
      throttle.stop();
      following.want([]);
    },
    [throttle, following],
  );
  useEffect(() => {
    if (changes > 0) {
      [uid, ...latest.current.open.slice(mostFollowed)].forEach((of) => changed.add(of));
      throttle.ask();
    }
  }, [uid, changes, changed, throttle]);
}

interface RowsProps {
  realm: string;
  namespace: string | undefined;
  rows: Row[];
  toggle: (row: Row) => void;
  families: Families;
}

function Rows({ realm, namespace, rows, toggle, families }: RowsProps) {
  const enter = (row: Row) => {
    if (row.shows.is === "object") {
      go(objectPath(realm, row.shows.object));
    } else if (row.shows.is === "more") {
      families.more(row.shows.uid);
    } else if (row.shows.is === "note" && row.shows.uid !== undefined) {
      families.retry(row.shows.uid);
    } else if (row.expanded !== undefined) {
      toggle(row);
    }
  };
  return (
    <TreeView label="Owners and dependents" rows={rows} first="owners" toggle={toggle} enter={enter} leads={(row) => row.shows.is === "object"} is={(row) => row.shows.is}>
      {(row) => <Shown realm={realm} namespace={namespace} row={row} />}
    </TreeView>
  );
}

const sides = { owners: "Owners", dependents: "Dependents" };

function Shown({ realm, namespace, row: { shows } }: { realm: string; namespace: string | undefined; row: Row }) {
  switch (shows.is) {
    case "side":
      return (
        <span class="side">
          {sides[shows.side]} <span class="dim">{shows.count === 0 ? "none" : count(shows.count)}</span>
        </span>
      );
    case "more":
      return <span class="more">Show more: {count(shows.rest)} not shown</span>;
    case "note":
      return <span class="dim">{visible(shows.text)}</span>;
    case "object": {
      const { object, again, side } = shows;
      return (
        <>
          <span class="tree-name">
            <Link href={objectPath(realm, object)} focusable={false}>
              <span class="tree-resource">{visible(object.resource)}/</span>
              {visible(object.name)}
            </Link>
            {object.namespace !== undefined && object.namespace !== namespace && <In namespace={object.namespace} />}
            {object.controller && <> <span class="tag">controller</span></>}
            {object.blocking && <> <span class="tag">blocking</span></>}
            {again && <span class="dim"> shown above</span>}
          </span>{" "}
          <span class="tree-count">{side === "dependents" && object.below > 0 ? `${count(object.below)} below` : side === "owners" && object.owners > 0 ? of(object.owners, "owner") : ""}</span> <StateMark state={object.state} />
        </>
      );
    }
  }
}
