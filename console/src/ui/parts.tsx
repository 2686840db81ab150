import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Failure, Missing, Ref } from "../api/types.ts";
import { objectPath } from "../lib/paths.ts";
import { capital, sentence, visible } from "../lib/text.ts";
import { absolute, duration, now, relative } from "../lib/time.ts";
import { Icon, type IconName } from "./icons.tsx";
import { Link } from "./link.tsx";

/** Ago shows a time as seen from now, with the absolute time as its title. */
export function Ago({ time }: { time: string }) {
  return (
    <time class="ago" dateTime={time} title={absolute(time)}>
      {relative(time, now.value)}
    </time>
  );
}

/** For shows how long ago a time is, for sentences such as "pending for 2 h". */
export function For({ time }: { time: string }) {
  return (
    <time class="ago" dateTime={time} title={absolute(time)}>
      {duration(Math.max(0, now.value - Date.parse(time)))}
    </time>
  );
}

/** In names the namespace of an object. */
export function In({ namespace }: { namespace: string }) {
  return (
    <>
      {" "}
      <span class="namespace">in {visible(namespace)}</span>
    </>
  );
}

/** Copy copies a text. It says so for two seconds. */
export function Copy({ text, what }: { text: string; what: string }) {
  const [result, setResult] = useState<"" | "copied" | "failed">("");
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setResult("copied"),
      () => setResult("failed"),
    );
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setResult(""), 2000);
  };
  return (
    <>
      <button type="button" class="quiet copy" onClick={copy} aria-label={`Copy ${what}`} title={`Copy ${what}`}>
        <Icon name={result === "copied" ? "done" : "copy"} />
      </button>
      <span class="unseen" role="status">
        {result === "copied" ? `Copied ${what}` : result === "failed" ? "The browser does not allow copying; select the text instead." : ""}
      </span>
    </>
  );
}

/** Command shows a command line with a button that copies it. */
export function Command({ line }: { line: string }) {
  return (
    <span class="command">
      <code>{visible(line)}</code>
      <Copy text={line} what="the command" />
    </span>
  );
}

/** ObjectLink names an object, and leads to its page. The namespace is left out if it is that of the page. */
export function ObjectLink({ realm, object, within }: { realm: string; object: Ref; within?: string | undefined }) {
  const { namespace } = object;
  return (
    <span class="object">
      <Link href={objectPath(realm, object)}>
        {visible(object.resource)}/<wbr />
        {visible(object.name)}
      </Link>
      {namespace !== undefined && namespace !== within && <In namespace={namespace} />}
    </span>
  );
}

/** Notice is a text that needs attention. */
export function Notice({ tone, icon, children, role }: { tone: "bad" | "wait" | "info" | "good"; icon?: IconName; children: ComponentChildren; role?: "alert" | "status" }) {
  const icons = { bad: "error", wait: "warning", info: "info", good: "check" } as const;
  return (
    <div class={`notice tone-${tone}`} {...(role === undefined ? {} : { role })}>
      <Icon name={icon ?? icons[tone]} tone={tone} />
      <div>{children}</div>
    </div>
  );
}

/** Problem shows why something failed, with a button that tries again if that can help. */
export function Problem({ failure, what, again }: { failure: Failure; what: string; again?: (() => void) | undefined }) {
  return (
    <Notice tone="bad" role="alert">
      <p>
        <strong>{what}</strong> {visible(sentence(failure.message))}
      </p>
      {again !== undefined && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </Notice>
  );
}

/** Unread stands where something would be offered, if it could not be read whether the user may do it. */
export function Unread({ what, failure, again }: { what: string; failure: Failure; again: () => void }) {
  return (
    <div class="unread" role="status">
      <span title={visible(sentence(failure.message))}>Whether {what} could not be read.</span>{" "}
      <button type="button" class="small" onClick={again}>
        Try again
      </button>
    </div>
  );
}

/** MissingParts says what could not be read, and why. */
export function MissingParts({ missing }: { missing: readonly Missing[] | null }) {
  return (
    <>
      {(missing ?? []).map((m) => (
        <Notice key={m.part} tone="wait">
          <p>
            <strong>{visible(capital(m.part))}</strong> could not be read: {visible(m.why)}
          </p>
        </Notice>
      ))}
    </>
  );
}

/** Section is a part of a page with a heading. aside stands at the right of the heading. */
export function Section({ id, title, aside, children, tone }: { id: string; title: string; aside?: ComponentChildren; children: ComponentChildren; tone?: string }) {
  return (
    <section class={`section${tone === undefined ? "" : ` section-${tone}`}`} aria-labelledby={`${id}-title`} id={id}>
      <header class="section-head">
        <h2 id={`${id}-title`}>{title}</h2>
        {aside !== undefined && <span class="aside">{aside}</span>}
      </header>
      {children}
    </section>
  );
}

/** Loading reserves the place of what is being read. */
export function Loading({ what, lines = 3 }: { what: string; lines?: number }) {
  return (
    <div class="loading">
      <span class="unseen" role="status">
        Reading {what}
      </span>
      {Array.from({ length: lines }, (_, i) => (
        <span key={i} class="bone" aria-hidden="true" />
      ))}
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}
