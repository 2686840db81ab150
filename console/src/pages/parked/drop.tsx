import { of } from "../../lib/numbers.ts";
import { Dialog } from "../../ui/dialog.tsx";

/** DropDialog says what follows when work is dropped. */
export function DropDialog({ pieces, close, drop }: { pieces: number; close: () => void; drop: () => void }) {
  return (
    <Dialog title={`Drop ${of(pieces, "piece of work", "pieces of work")}?`} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          drop();
        }}
      >
        <p>Dropped work is not done. The call of a finalizer that still blocks an object is published again after some time, and can fail and be parked again.</p>
        <div class="buttons">
          <button type="submit" class="danger">
            Drop
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
