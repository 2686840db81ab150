import { useState } from "preact/hooks";
import { client } from "../../app.ts";
import { failureOf, refused } from "../../api/client.ts";
import type { Done, Failure, Stuck } from "../../api/types.ts";
import { finalizersPath, parkedPath } from "../../lib/paths.ts";
import type { RightsRead } from "../../lib/rights.ts";
import { sentence, visible } from "../../lib/text.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { Link } from "../../ui/link.tsx";
import { Problem, Unread } from "../../ui/parts.tsx";

/** CureHere is what the console itself can do about a reason why objects are not deleted, if the user may. */
export function CureHere({ realm, stuck, rights: { rights, failure, again }, done }: { realm: string; stuck: Stuck; rights: RightsRead; done: (done: Done) => void }) {
  const [resuming, setResuming] = useState(false);
  const first = stuck.examples?.[0];
  switch (stuck.blocker) {
    case "Parked":
      return (rights?.listParked ?? failure !== undefined) ? (
        <Link href={parkedPath(realm)} class="button">
          Show parked work
        </Link>
      ) : null;
    case "Finalizer":
      return first === undefined ? null : (
        <Link href={finalizersPath(realm, first)} class="button">
          Show the finalizers of the first object
        </Link>
      );
    case "Paused":
      if (rights === undefined && failure !== undefined) {
        return <Unread what="you may resume the realm" failure={failure} again={again} />;
      }
      return rights?.resume ? (
        <>
          <button type="button" onClick={() => setResuming(true)}>
            Resume…
          </button>
          {resuming && (
            <ResumeDialog
              realm={realm}
              close={() => setResuming(false)}
              done={(says) => {
                setResuming(false);
                done(says);
              }}
            />
          )}
        </>
      ) : null;
  }
  return null;
}

function ResumeDialog({ realm, close, done }: { realm: string; close: () => void; done: (done: Done) => void }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<{ failure: Failure; certain: boolean }>();
  const resume = async () => {
    setBusy(true);
    try {
      done(await client.resume(realm));
    } catch (error) {
      setFailure({ failure: failureOf(error), certain: refused(error) });
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Resume the realm ${visible(realm)}?`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void resume();
        }}
      >
        <p>The pause ends: the collector deletes objects whose owners are gone, finalizers are called, and clients can write. This cannot be undone; see first whether the realm is as it should be.</p>
        {failure !== undefined && <Problem what={failure.certain ? "The realm was not resumed." : "It is not known whether the realm was resumed."} failure={failure.failure} />}
        <div class="buttons">
          <button type="submit" class="danger" disabled={busy}>
            {busy ? "Resuming…" : "Resume"}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Said is what was done, in a sentence. */
export function Said({ done }: { done: Done | undefined }) {
  return (
    <div role="status">
      {done !== undefined && (
        <p>
          {visible(sentence(done.says))} {(done.warnings ?? []).map((w) => visible(sentence(w))).join(" ")}
        </p>
      )}
    </div>
  );
}
