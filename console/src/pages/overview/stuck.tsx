import { useState } from "preact/hooks";
import type { Done, Overview, Stuck } from "../../api/types.ts";
import { of } from "../../lib/numbers.ts";
import { type RightsRead, useRights } from "../../lib/rights.ts";
import { visible } from "../../lib/text.ts";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { Ago, Command, ObjectLink, Section } from "../../ui/parts.tsx";
import { CureHere, Said } from "./cure.tsx";
import { MissingIn, stuckParts } from "./missing.tsx";

const blockers: Record<string, { icon: IconName; word: string }> = {
  Writer: { icon: "writer", word: "No writer" },
  Finalizer: { icon: "plug", word: "Finalizer" },
  Agent: { icon: "agent", word: "Agent" },
  UnknownOwner: { icon: "unknown", word: "Unknown owner" },
  OtherNamespace: { icon: "namespace", word: "Other namespace" },
  Cycle: { icon: "cycle", word: "Cycle" },
  Parked: { icon: "parked", word: "Parked work" },
  Paused: { icon: "paused", word: "Paused realm" },
  Brake: { icon: "brake", word: "Brake" },
  Protected: { icon: "protected", word: "Protection" },
};

/** StuckList has the reasons why objects are not deleted, in the order of the server: the oldest first. */
export function StuckList({ realm, overview }: { realm: string; overview: Overview }) {
  const stuck = overview.stuck ?? [];
  const why = doubt(overview);
  const rights = useRights(realm);
  const [done, setDone] = useState<Done>();
  return (
    <Section id="stuck" title="Stuck" tone={stuck.length > 0 ? "bad" : why === undefined ? "good" : "dim"} aside={stuck.length > 0 ? of(stuck.length, "reason") : undefined}>
      <MissingIn missing={overview.missing} parts={stuckParts} />
      <Said done={done} />
      {stuck.length === 0 ? (
        <p class="healthy">
          <Icon name={why === undefined ? "check" : "unknown"} tone={why === undefined ? "good" : "dim"} />
          <span>
            <strong>{why === undefined ? "Nothing is stuck." : "Nothing is known to be stuck."}</strong> {why ?? deleting(overview)}
          </span>
        </p>
      ) : (
        <ul class="stuck-list">
          {stuck.map((s) => (
            <Reason key={`${s.blocker} ${s.subject ?? ""}`} realm={realm} stuck={s} rights={rights} done={setDone} />
          ))}
        </ul>
      )}
    </Section>
  );
}

/** doubt says why it is not known whether something is stuck; undefined if it is known. */
export function doubt({ loading, missing, finalizers }: Overview): string | undefined {
  if (loading) {
    return "The objects of the realm are still being read.";
  }
  if ((missing ?? []).some((m) => stuckParts.includes(m.part))) {
    return "What could not be read may be stuck.";
  }
  if ((finalizers ?? []).some((f) => f.consumer === "Unseen" && f.terminating > 0)) {
    return "Which programs answer finalizers is still being read.";
  }
  return undefined;
}

/** deleting is for deletions of which none is stuck. */
function deleting({ objects, terminating, deletions }: Overview): string {
  if (terminating === 0) {
    return `No deletion is in progress among ${of(objects, "object")}.`;
  }
  const blocked = (deletions ?? []).some((d) => d.blocked > 0);
  const rest = blocked ? "; finalizers or agents are at work." : `, and nothing blocks ${terminating === 1 ? "it" : "them"}.`;
  return `${of(terminating, "object is", "objects are")} being deleted${rest}`;
}

function Reason({ realm, stuck, rights, done }: { realm: string; stuck: Stuck; rights: RightsRead; done: (done: Done) => void }) {
  const { icon, word } = blockers[stuck.blocker] ?? { icon: "error" as const, word: stuck.blocker };
  const examples = stuck.examples ?? [];
  return (
    <li class="reason">
      <div class="reason-mark">
        <Icon name={icon} tone="bad" />
        <span>{visible(word)}</span>
      </div>
      <div class="reason-what">
        <p class="reason-says">{visible(stuck.says)}</p>
        {examples.length > 0 && (
          <ul class="examples" aria-label="Objects that have waited for the longest time">
            {examples.map((e) => (
              <li key={e.uid ?? `${e.resource}/${e.name}`}>
                <ObjectLink realm={realm} object={e} /> <Ago time={e.since} />
              </li>
            ))}
            {stuck.objects > examples.length && <li class="dim">and {of(stuck.objects - examples.length, "other")}</li>}
          </ul>
        )}
        <div class="cure">
          <span>{visible(stuck.cure.says)}</span> {stuck.cure.command !== undefined && <Command line={stuck.cure.command} />} <CureHere realm={realm} stuck={stuck} rights={rights} done={done} />
        </div>
      </div>
      <div class="reason-size">
        {stuck.objects > 0 && <span class="amount">{of(stuck.objects, "object")}</span>}{" "}
        {stuck.oldest !== undefined && (
          <span class="dim">
            oldest <Ago time={stuck.oldest} />
          </span>
        )}
      </div>
    </li>
  );
}
