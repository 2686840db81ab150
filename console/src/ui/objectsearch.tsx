import { useEffect, useId, useRef, useState } from "preact/hooks";
import { client } from "../app.ts";
import { failureOf } from "../api/client.ts";
import type { Found, Relative } from "../api/types.ts";
import { nameOf } from "../lib/paths.ts";
import { visible } from "../lib/text.ts";
import { Icon } from "./icons.tsx";
import { In } from "./parts.tsx";
import { StateMark } from "./state.tsx";

const delay = 150;

interface ObjectSearchProps {
  realm: string;
  /** label names the field. */
  label: string;
  chosen: (object: Relative) => void;
  /** shortcut is the key that leads to the field, which then has the id "search". */
  shortcut?: string;
}

/** ObjectSearch finds objects of a realm by parts of their names: a combobox with a list of matches. */
export function ObjectSearch({ realm, label, chosen, shortcut }: ObjectSearchProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState<{ q: string; found?: Found; says?: string }>({ q: "" });
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const q = text.trim();

  useEffect(() => {
    if (q === "") {
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      client.search(realm, q, { signal: abort.signal }).then(
        (found) => {
          setFound({ q, found });
          setActive((found.matches ?? []).length > 0 ? 0 : -1);
        },
        (error: unknown) => {
          if (!abort.signal.aborted) {
            setFound({ q, says: failureOf(error).message });
          }
        },
      );
    }, delay);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [realm, q]);

  const matches = q === "" ? [] : (found.found?.matches ?? []);
  const close = () => {
    setOpen(false);
    setActive(-1);
  };
  const choose = (object: Relative) => {
    close();
    setText("");
    chosen(object);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move !== undefined && matches.length > 0) {
      event.preventDefault();
      setOpen(true);
      setActive((at) => (at < 0 && move < 0 ? matches.length - 1 : (at + move + matches.length) % matches.length));
    } else if (event.key === "Enter" && found.q === q) {
      event.preventDefault();
      const match = matches[active];
      if (open && match !== undefined) {
        choose(match);
      }
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (open && q !== "") {
        close();
      } else {
        setText("");
        input.current?.blur();
      }
    }
  };
  const shown = open && q !== "";
  useEffect(() => {
    if (shown && active >= 0) {
      document.getElementById(`${id}-${active}`)?.scrollIntoView({ block: "nearest" });
    }
  }, [shown, active, id]);
  return (
    <div class="search" role="search" aria-label={label}>
      <Icon name="search" />
      <input
        ref={input}
        id={shortcut === undefined ? `${id}-field` : "search"}
        type="text"
        role="combobox"
        aria-label={label}
        aria-expanded={shown}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={shown && active >= 0 ? `${id}-${active}` : undefined}
        aria-keyshortcuts={shortcut}
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        placeholder={label}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={close}
        onKeyDown={onKeyDown}
      />
      {shortcut !== undefined && <kbd aria-hidden="true">{shortcut}</kbd>}
      <div class="popup" hidden={!shown}>
        {/* The focus stays in the field, which has the keys. */}
        <div role="listbox" tabIndex={-1} id={`${id}-list`} aria-label="Matches" onMouseDown={(event) => event.preventDefault()}>
          {matches.map((match, i) => (
            // eslint-disable-next-line jsx-a11y/click-events-have-key-events
            <div key={match.uid ?? nameOf(match)} role="option" tabIndex={-1} id={`${id}-${i}`} aria-selected={i === active} onClick={() => choose(match)}>
              <span class="match">
                <span class="match-name">{visible(nameOf(match))}</span>
                {match.namespace !== undefined && <In namespace={match.namespace} />}
              </span>{" "}
              <StateMark state={match.state} />
            </div>
          ))}
        </div>
        <p role="status" class="popup-note">
          {q === "" ? "" : note(q, found)}
        </p>
      </div>
    </div>
  );
}

function note(q: string, { q: of, found, says }: { q: string; found?: Found; says?: string }): string {
  if (of !== q && found === undefined && says === undefined) {
    return "Searching…";
  }
  if (says !== undefined) {
    return `The search failed: ${says}`;
  }
  const parts = [];
  if ((found?.matches ?? []).length === 0 && of === q) {
    parts.push("No object matches.");
  }
  if (found?.more) {
    parts.push("More objects match: type more of the name.");
  }
  if (found?.loading) {
    parts.push("The objects of the realm are still being read.");
  }
  return parts.join(" ");
}
