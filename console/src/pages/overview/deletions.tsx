import { useRef } from "preact/hooks";
import type { Deletion, Overview } from "../../api/types.ts";
import { count, of, rate } from "../../lib/numbers.ts";
import { keepOrder } from "../../lib/order.ts";
import { deletionPath, nameOf } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";
import { Icon } from "../../ui/icons.tsx";
import { Link } from "../../ui/link.tsx";
import { Ago, Empty, ObjectLink, Section } from "../../ui/parts.tsx";
import { Table } from "../../ui/table.tsx";

const keyOf = ({ root }: Deletion): string => root.uid ?? `${root.namespace ?? ""} ${nameOf(root)}`;

/** Deletions are in progress. Their rows keep their places while counts change. */
export function Deletions({ realm, overview }: { realm: string; overview: Overview }) {
  const shown = useRef<string[]>([]);
  const deletions = keepOrder(shown.current, overview.deletions ?? [], keyOf);
  shown.current = deletions.map(keyOf);
  const others = overview.deletionsTotal - deletions.length;
  return (
    <Section id="deletions" title="Deletions in progress" aside={count(overview.deletionsTotal)}>
      {deletions.length === 0 ? (
        <Empty>No deletion is in progress.</Empty>
      ) : (
        <Table
          label="Deletions in progress"
          rows={deletions}
          rowKey={keyOf}
          columns={[
            { head: "Root", width: "38%", cell: (d) => <Root realm={realm} deletion={d} />, main: true },
            { head: "Progress", width: "26%", cell: (d) => <Progress realm={realm} deletion={d} />, full: true },
            { head: "Remaining", width: "13%", cell: (d) => count(d.remaining), numeric: true },
            { head: "Rate", width: "11%", cell: (d) => rate(d.rate), numeric: true },
            { head: "Began", width: "16%", cell: (d) => <Ago time={d.began} /> },
          ]}
          note={(d) =>
            d.blocked > 0 ? (
              <span class="tone-bad">
                <Icon name="blocked" tone="bad" /> {of(d.blocked, "object")} blocked
              </span>
            ) : undefined
          }
        />
      )}
      {others > 0 && <p class="dim">and {of(others, "smaller deletion")}</p>}
    </Section>
  );
}

function Root({ realm, deletion }: { realm: string; deletion: Deletion }) {
  return (
    <>
      <ObjectLink realm={realm} object={deletion.root} />
      {deletion.gone && <span class="dim"> (removed)</span>}
    </>
  );
}

/** Progress is of what this console has seen: what was removed before is not counted. */
function Progress({ realm, deletion: { root, removed, remaining } }: { realm: string; deletion: Deletion }) {
  const all = removed + remaining;
  const part = all === 0 ? 0 : Math.floor((100 * removed) / all);
  return (
    <span class="progress" title={`${count(removed)} of ${of(all, "object")} removed since this console has followed the deletion`}>
      <progress value={removed} max={Math.max(all, 1)} aria-label={`${part}% removed`} />
      <span>
        {count(removed)} removed
        {root.uid !== undefined && (
          <>
            {" "}
            <Link href={deletionPath(realm, { ...root, uid: root.uid })}>Follow this deletion</Link>
          </>
        )}
      </span>
    </span>
  );
}

/** Longest are the objects that have been terminating for the longest time. */
export function Longest({ realm, overview }: { realm: string; overview: Overview }) {
  const longest = overview.longest ?? [];
  return (
    <Section id="longest" title="Terminating for the longest time" aside={count(overview.terminating)}>
      {longest.length === 0 ? (
        <Empty>No object is being deleted.</Empty>
      ) : (
        <Table
          label="Terminating for the longest time"
          rows={longest}
          rowKey={(t) => t.uid ?? nameOf(t)}
          columns={[
            { head: "Object", width: "44%", cell: (t) => <ObjectLink realm={realm} object={t} />, main: true },
            { head: "Waits for", width: "40%", cell: (t) => (t.waitsFor ? visible(t.waitsFor) : <span class="dim">not known</span>), full: true },
            { head: "Since", width: "16%", cell: (t) => <Ago time={t.since} /> },
          ]}
        />
      )}
    </Section>
  );
}
