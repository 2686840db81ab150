import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Session } from "../api/types.ts";
import { go } from "../lib/go.ts";
import { eventsPath, graphPath, overviewPath, parkedPath, type Route } from "../lib/paths.ts";
import { useRights } from "../lib/rights.ts";
import { visible } from "../lib/text.ts";
import { Logo } from "../ui/icons.tsx";
import { Link } from "../ui/link.tsx";
import { ConnectionBar, ConnectionMark } from "./connection.tsx";
import { Help } from "./help.tsx";
import { Menu } from "./menu.tsx";
import { Search } from "./search.tsx";

/** Shell is around each view of a person who is signed in. */
export function Shell({ session, realm, view, children }: { session: Session; realm: string | undefined; view?: Route["view"]; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const help = () => {
    if (!dialog.current?.open) {
      dialog.current?.showModal();
    }
  };
  useKeys(help);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          // The URL keeps naming the view.
          event.preventDefault();
          document.querySelector("h1")?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="bar">
        <Link href={realm === undefined ? "/" : overviewPath(realm)} class="brand" title="Overview">
          <Logo />
          <span>Coppice</span>
        </Link>
        <Realms session={session} realm={realm} />
        {realm === undefined ? <span class="search" /> : <Search key={realm} realm={realm} />}
        <ConnectionMark />
        <button type="button" class="quiet help-button" aria-label="Keys" aria-keyshortcuts="?" title="Keys (?)" onClick={help}>
          ?
        </button>
        <Menu session={session} help={help} />
      </header>
      {realm !== undefined && <Views realm={realm} view={view} />}
      {children}
      <ConnectionBar />
      <Help dialog={dialog} />
    </>
  );
}

/** Views leads to the views of a realm that the user may see. */
function Views({ realm, view }: { realm: string; view: Route["view"] | undefined }) {
  // What could not be read is offered: the view itself says whether the user may see it.
  const { rights, failure } = useRights(realm);
  return (
    <nav class="views" aria-label="Views of the realm">
      <Link href={overviewPath(realm)} current={view === "overview"}>
        Overview
      </Link>
      <Link href={graphPath(realm)} current={view === "graph"}>
        Graph
      </Link>
      {rights?.events !== false && (
        <Link href={eventsPath(realm)} current={view === "events"}>
          Events
        </Link>
      )}
      {(rights?.listParked ?? failure !== undefined) && (
        <Link href={parkedPath(realm)} current={view === "parked"}>
          Parked work
        </Link>
      )}
    </nav>
  );
}

/** Realms leads to another realm. */
function Realms({ session, realm }: { session: Session; realm: string | undefined }) {
  const names = (session.realms ?? []).map((r) => r.name);
  if (realm !== undefined && !names.includes(realm)) {
    names.unshift(realm);
  }
  return (
    <span class="realms">
      <select aria-label="Realm" value={realm ?? ""} onChange={(event) => go(event.currentTarget.value === "" ? "/realms" : overviewPath(event.currentTarget.value))}>
        <option value="">{realm === undefined ? "Choose a realm" : "All realms"}</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {visible(name)}
          </option>
        ))}
      </select>
    </span>
  );
}

/** useKeys makes "/" go to the search, and "?" show the keys, unless a person types text. */
function useKeys(help: () => void) {
  const latest = useRef(help);
  latest.current = help;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || at.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName)) {
        return;
      }
      if (event.key === "/") {
        event.preventDefault();
        document.getElementById("search")?.focus();
      } else if (event.key === "?") {
        event.preventDefault();
        latest.current();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}
