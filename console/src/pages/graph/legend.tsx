import { useId } from "preact/hooks";
import { count } from "../../lib/numbers.ts";
import { states } from "./look.ts";
import { Shape } from "./shapes.tsx";
import { meaningOf, stateWord } from "./words.ts";

/** Legend says what the shapes are, and how many objects have each state. A button goes to the next of them. */
export function Legend({ totals, next }: { totals: readonly number[]; next: (state: number) => void }) {
  const id = useId();
  return (
    <ul class="legend" aria-label="States">
      {states.map((name, state) => {
        const n = totals[state] ?? 0;
        const meaning = meaningOf(state);
        return (
          <li key={name} title={`${stateWord(state)}: ${meaning}`}>
            <button type="button" class="quiet" disabled={n === 0} onClick={() => next(state)} aria-describedby={`${id}-${state}`}>
              <Shape state={state} />
              <span>{stateWord(state)}</span> <span class="legend-count">{count(n)}</span> <span class="unseen">{n === 1 ? "object" : "objects"}; go to the next</span>
            </button>
            <span class="unseen" id={`${id}-${state}`}>
              {meaning}
            </span>
          </li>
        );
      })}
    </ul>
  );
}
