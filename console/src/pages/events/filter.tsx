import { useEffect, useId, useRef, useState } from "preact/hooks";
import { client } from "../../app.ts";
import { type Choices, fromLocalTime, localTime, objectChoices, objectText } from "../../lib/eventfilter.ts";
import { choose } from "../../lib/go.ts";
import { eventsPath } from "../../lib/paths.ts";
import { useRead } from "../../lib/read.ts";
import { visible } from "../../lib/text.ts";
import { Notice } from "../../ui/parts.tsx";

const spans = [
  ["", "all times"],
  ["15m", "the last 15 minutes"],
  ["1h", "the last hour"],
  ["24h", "the last 24 hours"],
] as const;

const between = "between";
const delay = 150;

/** Filter chooses the events that the page shows. What is chosen is in the URL. */
export function Filter({ realm, choices }: { realm: string; choices: Choices }) {
  const id = useId();
  const [object, setObject] = useState(objectText(choices));
  const [resource, setResource] = useState(choices.resource ?? "");
  const [namespace, setNamespace] = useState(choices.namespace ?? "");
  const [actor, setActor] = useState(choices.actor ?? "");
  const [cause, setCause] = useState(choices.cause ?? "");
  const relative = choices.until === undefined && (choices.since === undefined || /^\d+[smhd]$/.test(choices.since));
  const [span, setSpan] = useState(relative ? (choices.since ?? "") : between);
  const [since, setSince] = useState(localTime(choices.since));
  const [until, setUntil] = useState(localTime(choices.until));
  const [wrong, setWrong] = useState<string>();
  const kinds = useRead(`kinds ${realm}`, (options) => client.kinds(realm, options)).data ?? [];
  const matches = useMatches(realm, object);

  const apply = () => {
    const named = object.trim() === "" ? undefined : objectChoices(object);
    if (object.trim() !== "" && named === undefined) {
      setWrong(`${visible(object.trim())} names no object: write resource/namespace/name, such as deployments.apps/shop/web.`);
      return;
    }
    if (cause.trim() !== "" && !/^[1-9]\d*$/.test(cause.trim())) {
      setWrong(`${visible(cause.trim())} is no revision: write a whole number.`);
      return;
    }
    const next: Choices = { ...(named ?? { resource, namespace }), actor: actor.trim(), cause: cause.trim() };
    // The uid stays that of the object: another name is another object.
    if (choices.uid !== undefined && object === objectText(choices)) {
      next.uid = choices.uid;
    }
    if (span !== between) {
      next.since = span;
    } else {
      const [from, to] = [fromLocalTime(since), fromLocalTime(until)];
      if (from !== undefined) {
        next.since = from;
      }
      if (to !== undefined) {
        next.until = to;
      }
    }
    setWrong(undefined);
    choose(eventsPath(realm, next));
  };
  const other = !spans.some(([value]) => value === span) && span !== between;
  return (
    <form
      class="filter"
      aria-label="Filter"
      onSubmit={(event) => {
        event.preventDefault();
        apply();
      }}
    >
      <label class="field">
        <span>Object</span>
        <input type="text" list={`${id}-objects`} value={object} placeholder="pods/shop/web" autocomplete="off" autocapitalize="none" spellcheck={false} onInput={(event) => setObject(event.currentTarget.value)} />
        <datalist id={`${id}-objects`}>
          {matches.map((text) => (
            <option key={text} value={text} />
          ))}
        </datalist>
      </label>
      <label class="field">
        <span>Kind</span>
        <select value={resource} disabled={object.trim() !== ""} onChange={(event) => setResource(event.currentTarget.value)}>
          <option value="">all kinds</option>
          {resource !== "" && !kinds.some((kind) => kind.resource === resource) && <option value={resource}>{visible(resource)}</option>}
          {kinds.map((kind) => (
            <option key={kind.resource} value={kind.resource}>
              {visible(kind.resource)}
            </option>
          ))}
        </select>
      </label>
      <Text label="Namespace" value={namespace} set={setNamespace} disabled={object.trim() !== ""} />
      <Text label="Actor" value={actor} set={setActor} />
      <Text label="Follows from revision" value={cause} set={setCause} numeric />
      <label class="field">
        <span>Time</span>
        <select value={span} onChange={(event) => setSpan(event.currentTarget.value)}>
          {spans.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
          {other && <option value={span}>the last {span}</option>}
          <option value={between}>between two times</option>
        </select>
      </label>
      {span === between && (
        <>
          <label class="field">
            <span>From</span>
            <input type="datetime-local" step="1" value={since} onInput={(event) => setSince(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>Until</span>
            <input type="datetime-local" step="1" value={until} onInput={(event) => setUntil(event.currentTarget.value)} />
          </label>
        </>
      )}
      <div class="filter-buttons">
        <button type="submit" class="primary">
          Filter
        </button>
        <button type="button" onClick={() => choose(eventsPath(realm))}>
          Show all
        </button>
      </div>
      {choices.uid !== undefined && <p class="dim wide-field">Only events of the object with the UID {visible(choices.uid)}.</p>}
      {wrong !== undefined && (
        <div class="wide-field">
          <Notice tone="bad" role="alert">
            <p>{wrong}</p>
          </Notice>
        </div>
      )}
    </form>
  );
}

function Text({ label, value, set, numeric = false, disabled = false }: { label: string; value: string; set: (value: string) => void; numeric?: boolean; disabled?: boolean }) {
  return (
    <label class="field">
      <span>{label}</span>
      <input type="text" inputMode={numeric ? "numeric" : "text"} value={value} disabled={disabled} autocomplete="off" autocapitalize="none" spellcheck={false} onInput={(event) => set(event.currentTarget.value)} />
    </label>
  );
}

/** useMatches returns the objects that a text may mean, as the field takes them. */
function useMatches(realm: string, text: string): string[] {
  const [matches, setMatches] = useState<string[]>([]);
  const first = useRef(text);
  const q = text.trim().split("/").at(-1) ?? "";
  useEffect(() => {
    if (q === "" || text === first.current) {
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      client.search(realm, q, { signal: abort.signal }).then(
        (found) => setMatches((found.matches ?? []).map(objectText)),
        () => undefined, // the field works without completion
      );
    }, delay);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [realm, q, text]);
  return matches;
}
