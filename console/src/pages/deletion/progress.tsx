import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { client, live } from "../../app.ts";
import type { Failure, Progress, Ref } from "../../api/types.ts";
import { count, of, rate } from "../../lib/numbers.ts";
import { type Root, cascadePath, eventsPath, nameOf, objectPath, overviewPath } from "../../lib/paths.ts";
import { useRights } from "../../lib/rights.ts";
import { useRead } from "../../lib/read.ts";
import { visible } from "../../lib/text.ts";
import { Throttle } from "../../lib/throttle.ts";
import { now, precise } from "../../lib/time.ts";
import { Icon } from "../../ui/icons.tsx";
import { Link } from "../../ui/link.tsx";
import { In, Loading, Notice, Problem } from "../../ui/parts.tsx";
import { View } from "../../ui/view.tsx";
import { Pace } from "./steady.ts";
import { WaitingList } from "./waiting.tsx";

/** What is read aloud changes at most that often, in ms. */
const aloud = 15_000;

/** ProgressPage follows a deletion to its end, also one that this page has not begun. */
export function ProgressPage({ realm, root }: { realm: string; root: Root }) {
  const { progress, failure, stopped, ended, again } = useProgress(realm, root.uid, root.rev);
  const { rights, failure: unread } = useRights(realm);
  // The page has a title before data arrives, and after the console has forgotten the deletion.
  const named = root.resource !== undefined && root.name !== undefined ? { resource: root.resource, name: root.name, uid: root.uid, ...(root.namespace === undefined ? {} : { namespace: root.namespace }) } : undefined;
  const object: Ref | undefined = progress !== undefined && progress.root.name !== "" ? progress.root : named;
  const name = object === undefined ? `the object with the UID ${root.uid}` : nameOf(object);
  const done = progress === undefined ? undefined : partOf(progress);
  const running = progress?.state === "Running";
  return (
    <View title={`${running && done !== undefined ? `${done}% ` : ""}Deletion of ${visible(name)}`} heading={<>Deletion of {visible(name)}</>} of={`deletion ${realm} ${root.uid}`} wide>
      {/* What changes stands last, and moves nothing. */}
      <p class="dim">
        Realm <Link href={overviewPath(realm)}>{visible(realm)}</Link>
        {(rights?.events ?? unread !== undefined) && (
          <>
            {" "}
            · {root.rev === undefined ? <Link href={eventsPath(realm, { uid: root.uid })}>Events of the object</Link> : <Link href={cascadePath(realm, root.rev)}>Events of this deletion</Link>}
          </>
        )}
        {object !== undefined && (
          <>
            {" "}
            · <Link href={objectPath(realm, object)}>{visible(nameOf(object))}</Link>
            {object.namespace !== undefined && <In namespace={object.namespace} />}
            {progress?.gone && " (removed)"}
          </>
        )}
      </p>
      <Warnings />
      {failure !== undefined && progress === undefined && <Problem what="The deletion could not be read." failure={failure} again={again} />}
      {stopped !== undefined && <Problem what="This page does not follow the deletion." failure={stopped} again={again} />}
      {progress === undefined ? failure === undefined && <Loading what="the deletion" lines={8} /> : <State realm={realm} progress={progress} object={object} name={name} took={ended} />}
    </View>
  );
}

/** Warnings are those of the reply to the request that began the deletion. */
function Warnings() {
  const [warnings] = useState(() => {
    const state: unknown = history.state;
    return typeof state === "object" && state !== null && "warnings" in state && Array.isArray(state.warnings) ? state.warnings.filter((w) => typeof w === "string") : [];
  });
  return (
    <>
      {warnings.map((warning) => (
        <Notice key={warning} tone="wait">
          <p>{visible(warning)}</p>
        </Notice>
      ))}
    </>
  );
}

/** useProgress reads a deletion once, and then takes what the server sends. ended is how long it took, if this page has seen that. */
function useProgress(realm: string, uid: string, rev: number | undefined) {
  const { data, failure, again, refresh } = useRead(`deletion ${realm} ${uid}`, (options) => client.deletion(realm, uid, rev, options));
  const [pushed, setPushed] = useState<{ progress?: Progress; stopped?: Failure }>({});
  useEffect(
    () =>
      live.ask(
        { realm, view: "Deletion", uid, ...(rev === undefined ? {} : { after: rev }) },
        {
          news: ({ deletion, error }) => {
            if (deletion !== undefined) {
              setPushed({ progress: deletion });
            } else if (error !== undefined) {
              setPushed((before) => ({ ...before, stopped: error }));
            }
          },
          again: refresh,
        },
      ),
    [realm, uid, rev, refresh],
  );
  const progress = pushed.progress ?? data;
  // When it ended is known to a page that has seen it run.
  const seen = useRef<{ began: string; ended?: number } | undefined>(undefined);
  if (progress?.state === "Running") {
    seen.current = { began: progress.began };
  } else if (progress?.state === "Ended" && seen.current !== undefined) {
    seen.current.ended ??= Date.now();
  }
  const { began, ended } = seen.current ?? {};
  return { progress, failure, stopped: pushed.stopped, ended: ended === undefined || began === undefined ? undefined : Math.max(0, ended - Date.parse(began)), again };
}

/** partOf returns how much was removed, in percent, of what this console has seen. */
function partOf({ removed, remaining }: Progress): number {
  const all = removed + remaining;
  return all === 0 ? 0 : Math.floor((100 * removed) / all);
}

interface StateProps {
  realm: string;
  progress: Progress;
  object: Ref | undefined;
  name: string;
  took: number | undefined;
}

function State({ realm, progress, object, name, took }: StateProps) {
  const page = object === undefined ? "Search for it by its name." : <Link href={objectPath(realm, object)}>Its page says what the log has of it.</Link>;
  if (progress.loading && progress.state !== "Running" && progress.state !== "Ended") {
    return <Loading what="the objects of the realm" lines={8} />;
  }
  switch (progress.state) {
    case "Running":
    case "Ended":
      return <Follow realm={realm} progress={progress} took={took} />;
    case "NotDeleted":
      return (
        <Notice tone="info">
          <p>
            <strong>{visible(name)} is not being deleted.</strong> {page}
          </p>
        </Notice>
      );
    default:
      return (
        <Notice tone="info">
          <p>
            <strong>This console knows of no deletion of {visible(name)}.</strong> It may have ended before this console followed the realm. {page}
          </p>
        </Notice>
      );
  }
}

function Follow({ realm, progress, took }: { realm: string; progress: Progress; took: number | undefined }) {
  const ended = progress.state === "Ended";
  const pace = useMemo(() => new Pace(), []);
  useEffect(() => pace.add(Date.now(), progress.rate), [pace, progress]);
  const left = ended ? undefined : pace.left(progress.remaining);
  const done = ended ? 100 : partOf(progress);
  const elapsed = ended ? took : Math.max(0, now.value - Date.parse(progress.began));
  const all: [string, string | undefined, string?][] = [
    ["Remaining", count(progress.remaining)],
    ["Removed", count(progress.removed), "Since this console has followed the deletion"],
    ["Rate", rate(progress.rate), "Objects removed in a second, over the last 10 seconds"],
    ["Blocked", count(progress.blocked), "Objects that wait for a finalizer, an agent or a protected object"],
    ["Elapsed", elapsed === undefined ? undefined : precise(elapsed)],
    ["Time left", ended ? (progress.partial ? "not known" : "none") : left === undefined ? "not known" : `about ${precise(left)}`, "Estimated while the rate is steady"],
  ];
  const numbers = all.filter((n): n is [string, string, string?] => n[1] !== undefined);
  return (
    <>
      {progress.loading && (
        <Notice tone="info">
          <p>The objects of the realm are still being read. The numbers grow until that is complete.</p>
        </Notice>
      )}
      <dl class="totals deletion">
        {numbers.map(([name, value, title]) => (
          <div key={name} title={title}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <div class="outcome">
        {ended ? (
          <p class="summary">
            {progress.partial ? <Icon name="info" tone="info" /> : <Icon name="check" tone="good" />}
            <span>
              <strong>{finished(progress, took)}</strong>
            </span>
          </p>
        ) : (
          <div class="progress">
            <progress value={progress.removed} max={Math.max(progress.removed + progress.remaining, 1)} aria-label={`${done}% removed`} />
            <span>
              {done}%: {count(progress.removed)} of {of(progress.removed + progress.remaining, "object")}{progress.partial && " that you may see"} removed since this console has followed the deletion
            </span>
          </div>
        )}
      </div>
      <Aloud text={ended ? finished(progress, took) : `${count(progress.remaining)} remaining, ${count(progress.removed)} removed, ${count(progress.blocked)} blocked`} at={ended} />
      {(!ended || progress.partial) && <WaitingList realm={realm} progress={progress} />}
    </>
  );
}

/** finished is the end of a deletion in words: for a user who may not see all objects, the end of what it may see. */
export function finished({ removed, partial }: Progress, took: number | undefined): string {
  if (partial) {
    const those = removed === 0 ? "The objects that you may see are removed" : `${of(removed, "object")} that you may see ${removed === 1 ? "was" : "were"} removed${took === undefined || took < 1000 ? "" : ` in ${precise(took)}`}`;
    return `${those}. Others may remain.`;
  }
  if (removed === 0) {
    return "The deletion has ended.";
  }
  return `${of(removed, "object was", "objects were")} removed${took === undefined || took < 1000 ? "" : ` in ${precise(took)}`}.`;
}

/** Aloud has a text for screen readers. It changes seldom, and at once when the deletion ends: at. */
function Aloud({ text, at }: { text: string; at: boolean }) {
  const [said, setSaid] = useState("");
  const latest = useRef(text);
  latest.current = text;
  const throttle = useMemo(() => new Throttle(aloud, () => setSaid(latest.current)), []);
  useEffect(() => () => throttle.stop(), [throttle]);
  useEffect(() => throttle.ask(), [throttle, text]);
  return (
    <p class="unseen" role="status">
      {at ? text : said}
    </p>
  );
}
