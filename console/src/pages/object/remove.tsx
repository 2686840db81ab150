import { useState } from "preact/hooks";
import { client } from "../../app.ts";
import { failureOf, refused } from "../../api/client.ts";
import type { Done, Failure, Ref } from "../../api/types.ts";
import { nameOf } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { Problem } from "../../ui/parts.tsx";

interface Props {
  realm: string;
  object: Ref;
  finalizer: string;
  /** force: the user may remove the finalizer even while its program works. The request is then refused until it names the call. */
  force: boolean;
  close: () => void;
  done: (done: Done) => void;
}

/** canForce returns whether what was refused may be forced: only what was refused because of a call that the program works on. */
export function canForce({ reason, call }: Failure): boolean {
  return reason === "Conflict" && call !== undefined;
}

/**
 * RemoveByHand asks why a finalizer is to be removed in place of its program. If the user may force it, the server refuses while the
 * program works on the call; the call can be named then.
 */
export function RemoveByHand({ realm, object, finalizer, force, close, done }: Props) {
  const [reason, setReason] = useState("");
  const [refusal, setRefusal] = useState<{ failure: Failure; certain: boolean }>();
  const [forced, setForced] = useState(false);
  const [busy, setBusy] = useState(false);
  const call = refusal?.failure.call;
  const forceable = refusal !== undefined && force && canForce(refusal.failure);
  const ready = reason.trim() !== "" && !busy;
  const remove = async () => {
    setBusy(true);
    try {
      done(await client.removeFinalizer(realm, { object, finalizer, reason: reason.trim(), ...(force ? { force, ...(forced && forceable && call !== undefined ? { call } : {}) } : {}) }));
    } catch (error) {
      setRefusal({ failure: failureOf(error), certain: refused(error) });
      setBusy(false);
    }
  };
  return (
    <Dialog title="Remove the finalizer by hand" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) {
            void remove();
          }
        }}
      >
        <p>
          <strong>{visible(finalizer)}</strong> blocks the removal of <strong>{visible(nameOf(object))}</strong> until its program has cleaned up. If you remove it, the program does not: what it would have cleaned up stays behind. The log records your user and the reason.
        </p>
        <label>
          <span>Reason (required)</span>
          <input value={reason} required autocomplete="off" onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
        {refusal !== undefined && <Problem what={refusal.certain ? "The finalizer was not removed." : "It is not known whether the finalizer was removed."} failure={refusal.failure} />}
        {forceable && (
          <div class="pick">
            <input id="force" type="checkbox" checked={forced} onChange={(event) => setForced(event.currentTarget.checked)} />
            <label for="force">
              Remove it although its program works on call {call}
            </label>
          </div>
        )}
        <div class="buttons">
          <button type="submit" class="danger" disabled={!ready}>
            {busy ? "Removing…" : forced && forceable ? "Remove by force" : "Remove"}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
