import { useEffect, useRef, useState } from "preact/hooks";
import { sessions } from "../app.ts";
import { failureOf } from "../api/client.ts";
import type { Session } from "../api/types.ts";
import { visible } from "../lib/text.ts";
import { Icon } from "../ui/icons.tsx";
import { Problem } from "../ui/parts.tsx";

/** Menu says who is signed in, and signs out. */
export function Menu({ session, help }: { session: Session; help: () => void }) {
  const [open, setOpen] = useState(false);
  const [failure, setFailure] = useState<ReturnType<typeof failureOf>>();
  const place = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) {
      return;
    }
    const outside = (event: Event) => {
      if (!place.current?.contains(event.target as Node)) {
        setOpen(false);
      }
    };
    const escape = (event: KeyboardEvent) => {
      if (event.key === "Escape") {
        setOpen(false);
        button.current?.focus();
      }
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    document.addEventListener("keydown", escape);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
      document.removeEventListener("keydown", escape);
    };
  }, [open]);
  const user = visible(session.user);
  return (
    <div class="menu" ref={place}>
      <button ref={button} type="button" class="quiet" aria-expanded={open} aria-controls="menu" aria-label={`User ${user}`} onClick={() => setOpen(!open)}>
        <Icon name="user" />
        <span class="menu-user" aria-hidden="true">
          {user}
        </span>
      </button>
      <div id="menu" class="popup" hidden={!open}>
        <p>
          Signed in as <strong>{user}</strong>
          {session.local && " (the local user)"}
        </p>
        <p class="dim">Coppice {visible(session.version)}</p>
        {failure !== undefined && <Problem what="Signing out failed." failure={failure} />}
        <div class="buttons">
          <button
            type="button"
            onClick={() => {
              setOpen(false);
              help();
            }}
          >
            Keys
          </button>
          <button type="button" onClick={() => void sessions.signOut().catch((error: unknown) => setFailure(failureOf(error)))}>
            Sign out
          </button>
        </div>
      </div>
    </div>
  );
}
