import { useState } from "preact/hooks";
import type { Plan } from "../../api/types.ts";
import { of } from "../../lib/numbers.ts";
import { nameOf } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";

/** confirmed returns whether the text is the name that has to be typed: as it is, or as it is shown. */
export function confirmed(plan: Plan, typed: string): boolean {
  return !plan.confirm || typed === plan.object.name || typed === visible(plan.object.name);
}

/** Confirm begins the deletion. If many objects go, the name of the object has to be typed before. */
export function Confirm({ plan, disabled, busy, begin }: { plan: Plan; disabled: boolean; busy: boolean; begin: () => void }) {
  const [typed, setTyped] = useState("");
  const ready = confirmed(plan, typed) && !disabled && !busy;
  return (
    <form
      class="confirm"
      onSubmit={(event) => {
        event.preventDefault();
        if (ready) {
          begin();
        }
      }}
    >
      {plan.confirm && (
        <label>
          <span>
            This removes {of(plan.goes, "object")}. Type the name of the object, <strong>{visible(plan.object.name)}</strong>, to confirm:
          </span>
          <input value={typed} autocomplete="off" spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
        </label>
      )}
      <button type="submit" class="danger" disabled={!ready}>
        {busy ? "Deleting…" : plan.unbound ? "Delete" : "Delete as planned"}
      </button>
      <span class="unseen">
        Deletes {visible(nameOf(plan.object))}
        {plan.unbound ? "" : " as planned"}.
      </span>
    </form>
  );
}
