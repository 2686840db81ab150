import { of } from "../../lib/numbers.ts";
import type { Choice } from "../../lib/paths.ts";
import { Section } from "../../ui/parts.tsx";

/** The policies of a deletion, in the words of the glossary. */
const policies: [string, string][] = [
  ["Background", "The object is removed first; its dependents are collected afterwards."],
  ["Foreground", "Dependents are deleted first, then the object."],
  ["Orphan", "Dependents lose their references to the object, and stay."],
];

/** Options are what a person can choose of a deletion. policy is the one that the plan has. */
export function Options({ choice, policy, choose }: { choice: Choice; policy: string | undefined; choose: (choice: Choice) => void }) {
  const chosen = (choice.policy ?? policy ?? "").toLowerCase();
  return (
    <Section id="options" title="How to delete">
      <fieldset class="policies">
        <legend class="unseen">Deletion policy</legend>
        {policies.map(([name, says]) => (
          <div key={name} class="choice">
            <input id={`policy-${name}`} type="radio" name="policy" value={name} aria-describedby={`policy-${name}-says`} checked={chosen === name.toLowerCase()} onChange={() => choose({ ...choice, policy: name })} />
            <label for={`policy-${name}`}>{name}</label>
            <span id={`policy-${name}-says`} class="dim">
              {says}
            </span>
          </div>
        ))}
      </fieldset>
      <div class="choice at-once">
        <input id="at-once" type="checkbox" aria-describedby="at-once-says" checked={choice.grace !== undefined} onChange={(event) => choose({ ...(choice.policy === undefined ? {} : { policy: choice.policy }), ...(event.currentTarget.checked ? { grace: 0 } : {}) })} />
        <label for="at-once">{choice.grace === undefined || choice.grace === 0 ? "End at once (grace period 0)" : `Grace period ${of(choice.grace, "second")}`}</label>
        <span id="at-once-says" class="dim">
          Agents get no time to end in an orderly way. Finalizers still block.
        </span>
      </div>
    </Section>
  );
}
