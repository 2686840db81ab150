import type { PlanCounts } from "../../api/types.ts";
import { count } from "../../lib/numbers.ts";
import { visible } from "../../lib/text.ts";
import { Icon, type IconName } from "../../ui/icons.tsx";

interface Look {
  key: keyof PlanCounts;
  outcome: string;
  icon: IconName;
  tone: string;
  word: string;
  /** says is what the outcome means. */
  says: string;
}

/** Outcomes are what happens to the objects of a plan, in the order in which they are counted. */
export const outcomes: readonly Look[] = [
  { key: "removed", outcome: "Removed", icon: "removed", tone: "bad", word: "Removed", says: "Nothing delays the removal." },
  { key: "removedLater", outcome: "RemovedLater", icon: "later", tone: "wait", word: "Removed after others", says: "The object waits for its dependents, an agent, or finalizers whose programs run." },
  { key: "blocked", outcome: "Blocked", icon: "blocked", tone: "bad", word: "Blocked", says: "The object stays until what blocks it has ended." },
  { key: "orphaned", outcome: "Orphaned", icon: "orphaned", tone: "odd", word: "Orphaned", says: "The object loses its reference to an owner that goes, and stays." },
  { key: "stripped", outcome: "Stripped", icon: "changed", tone: "info", word: "Stripped", says: "The object loses references to owners that go, and stays because of another owner." },
  { key: "kept", outcome: "Kept", icon: "present", tone: "good", word: "Kept", says: "The object stays as it is." },
  { key: "protected", outcome: "Protected", icon: "protected", tone: "info", word: "Protected", says: "A protection keeps the object." },
];

function lookOf(outcome: string): Pick<Look, "icon" | "tone" | "word"> {
  return outcomes.find((o) => o.outcome === outcome) ?? { icon: "unknown", tone: "dim", word: outcome };
}

export function wordOf(outcome: string): string {
  return lookOf(outcome).word;
}

export function OutcomeMark({ outcome }: { outcome: string }) {
  const { icon, tone, word } = lookOf(outcome);
  return (
    <span class="state">
      <Icon name={icon} tone={tone} />
      <span>{visible(word)}</span>
    </span>
  );
}

/** Counts are the numbers of objects by outcome, with those of an earlier plan where they differ. */
export function Counts({ counts, before }: { counts: PlanCounts; before: PlanCounts | undefined }) {
  return (
    <dl class="counts">
      {outcomes.map(({ key, icon, tone, word, says }) => (
        <div key={key} title={says} class={counts[key] === 0 && (before?.[key] ?? 0) === 0 ? "none" : undefined}>
          <dt>
            <Icon name={icon} tone={counts[key] === 0 ? "dim" : tone} /> {word}
          </dt>
          <dd>
            {before !== undefined && before[key] !== counts[key] && (
              <span class="before">
                {count(before[key])} <span class="unseen">before, now</span>
                <span aria-hidden="true">→</span>{" "}
              </span>
            )}
            {count(counts[key])}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** differ returns whether two plans do other things. */
export function differ(a: PlanCounts, b: PlanCounts): boolean {
  return outcomes.some(({ key }) => a[key] !== b[key]);
}
