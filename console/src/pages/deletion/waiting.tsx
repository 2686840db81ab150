import type { Progress } from "../../api/types.ts";
import { count, of } from "../../lib/numbers.ts";
import { nameOf } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";
import { Ago, Empty, ObjectLink, Section } from "../../ui/parts.tsx";
import { Table } from "../../ui/table.tsx";

/** WaitingList has the objects that block a deletion. It is the last part of its page: it grows and shrinks. */
export function WaitingList({ realm, progress }: { realm: string; progress: Progress }) {
  const waiting = progress.waiting ?? [];
  const others = progress.blocked - waiting.length;
  return (
    <Section id="waiting" title="What it waits for" aside={progress.blocked > 0 ? count(progress.blocked) : undefined}>
      {waiting.length === 0 ? (
        <Empty>{nothing(progress)}</Empty>
      ) : (
        <>
          <p class="dim">On the page of an object, a finalizer can be removed by hand if your user may do so.</p>
          <Table
            label="Objects that block the deletion"
            rows={waiting}
            rowKey={(t) => t.uid ?? nameOf(t)}
            columns={[
              { head: "Object", width: "44%", cell: (t) => <ObjectLink realm={realm} object={t} within={progress.root.namespace} />, main: true },
              { head: "Waits for", width: "40%", cell: (t) => (t.waitsFor ? visible(t.waitsFor) : <span class="dim">not known</span>), full: true },
              { head: "Since", width: "16%", cell: (t) => <Ago time={t.since} /> },
            ]}
          />
        </>
      )}
      {others > 0 && waiting.length > 0 && <p class="dim">and {of(others, "other")}</p>}
    </Section>
  );
}

/** nothing says that no object waits, of those that the user may see. */
function nothing({ state, partial }: Progress): string {
  if (state === "Ended") {
    return "Nothing that you may see is left."; // after the end of all, the page has no such list
  }
  return partial ? "No object that you may see blocks the deletion." : "Nothing blocks the deletion.";
}
