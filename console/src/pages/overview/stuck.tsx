import type { Overview, Stuck } from "../../api/types.ts";
import { of } from "../../lib/numbers.ts";
import { visible } from "../../lib/text.ts";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { Ago, Command, ObjectLink, Section } from "../../ui/parts.tsx";
import { MissingIn } from "./missing.tsx";

const blockers: Record<string, { icon: IconName; word: string }> = {
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
  return (
    <Section id="stuck" title="Stuck" tone={stuck.length > 0 ? "bad" : "good"} aside={stuck.length > 0 ? of(stuck.length, "reason") : undefined}>
      <MissingIn missing={overview.missing} parts={["stuck"]} />
      {stuck.length === 0 ? (
        <p class="healthy">
          <Icon name="check" tone="good" />
          <span>
            <strong>Nothing is stuck.</strong>{" "}
            {overview.terminating === 0
              ? `No deletion is in progress among ${of(overview.objects, "object")}.`
              : `${of(overview.terminating, "object is", "objects are")} being deleted, and nothing blocks them.`}
          </span>
        </p>
      ) : (
        <ul class="stuck-list">
          {stuck.map((s) => (
            <Reason key={`${s.blocker} ${s.subject ?? ""}`} realm={realm} stuck={s} />
          ))}
        </ul>
      )}
    </Section>
  );
}

function Reason({ realm, stuck }: { realm: string; stuck: Stuck }) {
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
                <ObjectLink realm={realm} object={e} />
                <Ago time={e.since} />
              </li>
            ))}
            {stuck.objects > examples.length && <li class="dim">and {of(stuck.objects - examples.length, "other")}</li>}
          </ul>
        )}
        <div class="cure">
          <span>{visible(stuck.cure.says)}</span>
          {stuck.cure.command !== undefined && <Command line={stuck.cure.command} />}
        </div>
      </div>
      <div class="reason-size">
        {stuck.objects > 0 && <span class="amount">{of(stuck.objects, "object")}</span>}
        {stuck.oldest !== undefined && (
          <span class="dim">
            oldest <Ago time={stuck.oldest} />
          </span>
        )}
      </div>
    </li>
  );
}
