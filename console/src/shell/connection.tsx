import { live } from "../app.ts";
import { Icon } from "../ui/icons.tsx";
import { visible } from "../lib/text.ts";
import { now } from "../lib/time.ts";

/** ConnectionMark says in the header whether what is shown follows the realm. */
export function ConnectionMark() {
  const { is } = live.connection.value;
  const word = is === "live" ? "Live" : is === "connecting" ? "Connecting" : "Not live";
  return (
    <span class={`connection is-${is}`} title={is === "live" ? "This page follows the realm." : undefined}>
      <Icon name={is === "live" ? "check" : is === "connecting" ? "terminating" : "warning"} />
      <span>{word}</span>
    </span>
  );
}

/** ConnectionBar covers the bottom of the window while no news arrives. It moves nothing of the view. */
export function ConnectionBar() {
  const connection = live.connection.value;
  return (
    <div role="status" class="connection-bar-place">
      {(connection.is === "closed" || connection.is === "lost") && (
        <div class="connection-bar">
          <Icon name="warning" />
          {connection.is === "lost" ? (
            <p>
              <strong>The console receives no news:</strong> {visible(connection.says)} It tries again. What is shown may be old.
            </p>
          ) : (
            <>
              <p>
                <strong>The connection to the console is lost.</strong> What is shown may be old.{" "}
                <Retry at={connection.retry} />
              </p>
              <button type="button" onClick={() => live.now()}>
                Try now
              </button>
            </>
          )}
        </div>
      )}
    </div>
  );
}

function Retry({ at }: { at: number }) {
  const seconds = Math.ceil((at - now.value) / 1000);
  // A screen reader announces the loss, and not each second.
  return <span aria-hidden="true">{seconds > 0 ? `Next attempt in ${seconds} s.` : "Trying again…"}</span>;
}
