import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { client, live } from "../../app.ts";
import type { Failure, ObjectPage, Ref } from "../../api/types.ts";
import { count } from "../../lib/numbers.ts";
import { deletePath, graphPath, nameOf, overviewPath } from "../../lib/paths.ts";
import { useRead } from "../../lib/read.ts";
import { type RightsRead, useRights } from "../../lib/rights.ts";
import { sentence, visible, visibleLines } from "../../lib/text.ts";
import { Throttle } from "../../lib/throttle.ts";
import { Link } from "../../ui/link.tsx";
import { useKinds } from "../../ui/mentions.tsx";
import { Ago, Copy, Loading, MissingParts, Notice, Problem, Section, Unread } from "../../ui/parts.tsx";
import { StateMark } from "../../ui/state.tsx";
import { View } from "../../ui/view.tsx";
import { HistoryList } from "./history.tsx";
import { Manifest } from "./manifest.tsx";
import { Tree } from "./tree.tsx";
import { Why } from "./why.tsx";

/** What changes is read again at most that often, in ms. */
const pause = 500;

/** ObjectView shows an object, or what is known of one that was removed. It follows the object. */
export function ObjectView({ realm, object }: { realm: string; object: Ref }) {
  useKinds(realm);
  const [reveal, setReveal] = useState(false);
  const read = useRead(`object ${realm} ${nameOf(object)}`, async (options) => ({ page: await client.object(realm, object, reveal, options), revealed: reveal }));
  const { again, refresh } = read;
  const [changes, setChanges] = useState(0);
  const page = read.data?.page;
  const revealed = read.data?.revealed === true;
  const uid = page?.uid ?? object.uid;
  const throttle = useMemo(
    () =>
      new Throttle(pause, () => {
        refresh();
        setChanges((n) => n + 1);
      }),
    [refresh],
  );
  useEffect(() => () => throttle.stop(), [throttle]);
  const [stopped, setStopped] = useState<Failure>();
  useEffect(() => {
    if (uid === undefined) {
      return;
    }
    const changed = () => {
      setStopped(undefined);
      throttle.ask();
    };
    return live.ask({ realm, view: "Object", uid }, { news: (news) => (news.changed ? changed() : setStopped(news.error)), again: changed });
  }, [realm, uid, throttle]);
  const shown = useRef(false);
  useEffect(() => {
    if (shown.current !== reveal) {
      shown.current = reveal;
      again();
    }
  }, [reveal, again]);

  const finalizers = (page?.explanation.finalizers ?? []).filter((f) => !f.builtIn).map((f) => f.name);
  const rights = useRights(realm, { resource: object.resource, namespace: object.namespace, finalizers });
  const shownFinalizers = useRef(false);
  const hasFinalizers = finalizers.length > 0;
  useEffect(() => {
    if (hasFinalizers && !shownFinalizers.current && new URLSearchParams(location.search).get("at") === "finalizers") {
      shownFinalizers.current = true;
      const part = document.getElementById("finalizers");
      part?.scrollIntoView({ block: "center" });
      part?.focus({ preventScroll: true });
    }
  }, [hasFinalizers]);
  const name = visible(nameOf(object));
  const unknown = page === undefined && read.failure?.reason === "NotFound";
  return (
    <View title={unknown ? `No ${name}` : name} heading={unknown ? undefined : <Title object={page ?? object} />} of={`object ${realm} ${name} ${object.uid ?? ""}`} actions={<Actions realm={realm} page={page} rights={rights} />} wide>
      {page === undefined ? (
        <NotShown realm={realm} object={object} failure={read.failure} again={again} />
      ) : (
        <>
          <Facts realm={realm} page={page} />
          {read.failure !== undefined && <Problem what="The object could not be read again; what is shown may be old." failure={read.failure} again={again} />}
          {stopped !== undefined && <Problem what="This page does not follow the object." failure={stopped} again={again} />}
          <MissingParts missing={page.missing} />
          <Why realm={realm} page={page} rights={rights} />
          <ObjectWarnings page={page} />
          <div class={page.state === "Removed" ? undefined : "columns even"}>
            {uid !== undefined && page.state !== "Removed" && <Tree realm={realm} uid={uid} namespace={page.namespace} changes={changes} />}
            <HistoryList realm={realm} object={{ ...object, ...(uid === undefined ? {} : { uid }) }} changes={changes} events={rights.rights?.events !== false} />
          </div>
          {page.manifest !== undefined && page.manifest !== "" && <Manifest page={page} revealed={revealed} wanted={reveal} reveal={setReveal} />}
          <ExplainText text={page.text} />
        </>
      )}
    </View>
  );
}

/** Actions are what the user may do with an object. */
function Actions({ realm, page, rights: read }: { realm: string; page: ObjectPage | undefined; rights: RightsRead }) {
  if (page?.uid === undefined || page.state === "Removed") {
    return null;
  }
  const { rights, failure, again } = read;
  if (rights === undefined && failure !== undefined) {
    return <Unread what="you may delete it" failure={failure} again={again} />;
  }
  if (!rights?.delete || !rights.plan) {
    return null;
  }
  return (
    <Link href={deletePath(realm, { resource: page.resource, name: page.name, uid: page.uid, ...(page.namespace === undefined ? {} : { namespace: page.namespace }) })} class="button">
      Delete…
    </Link>
  );
}

function Title({ object }: { object: Ref }) {
  return (
    <>
      <span class="title-resource">{visible(object.resource)}/</span>
      {visible(object.name)}
    </>
  );
}

function Facts({ realm, page }: { realm: string; page: ObjectPage }) {
  const facts: [string, string, string?][] = [["Kind", page.kind.kind === "" ? page.resource : page.kind.kind, page.kind.apiVersion]];
  if (page.namespace !== undefined) {
    facts.push(["Namespace", page.namespace]);
  }
  if (page.revision !== undefined) {
    facts.push(["Revision", count(page.revision)]);
  }
  return (
    <dl class="line">
      <div>
        <dt class="unseen">State</dt>
        <dd>
          <StateMark state={page.state} badge /> {page.explanation.since !== undefined && <Ago time={page.explanation.since} />}
        </dd>
      </div>
      {facts.map(([name, value, title]) => (
        <div key={name} title={title}>
          <dt>{name}</dt>
          <dd>{visible(value)}</dd>
        </div>
      ))}
      {page.uid !== undefined && (
        <div>
          <dt>UID</dt>
          <dd class="uid">
            <code>{visible(page.uid)}</code>
            <Copy text={page.uid} what="the UID" />
          </dd>
        </div>
      )}
      <div>
        <dt>Realm</dt>
        <dd>
          <Link href={overviewPath(realm)}>{visible(realm)}</Link>
        </dd>
      </div>
      {page.uid !== undefined && page.state !== "Removed" && (
        <div>
          <dt class="unseen">Graph</dt>
          <dd>
            <Link href={graphPath(realm, { show: [page.uid], at: page.uid })}>Show in the graph</Link>
          </dd>
        </div>
      )}
    </dl>
  );
}

function ObjectWarnings({ page }: { page: ObjectPage }) {
  return (
    <>
      {(page.warnings ?? []).map((w) => (
        <Notice key={w.reason} tone="wait">
          <p>
            <strong>{visible(w.reason)}</strong> {visible(w.message)} <Ago time={w.time} />
          </p>
        </Notice>
      ))}
    </>
  );
}

/** ExplainText is the explanation as the command line writes it, to be sent to a colleague. */
function ExplainText({ text }: { text: string }) {
  if (text === "") {
    return null;
  }
  return (
    <Section id="text" title="In the words of coppice explain" aside={<Copy text={text} what="the explanation" />}>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- scrolled by keys */}
      <pre class="text wrap" tabIndex={0} aria-label="Explanation">
        {visibleLines(text)}
      </pre>
    </Section>
  );
}

/** NotShown is for an object that is being read, could not be read, or does not exist. */
function NotShown({ realm, object, failure, again }: { realm: string; object: Ref; failure: Failure | undefined; again: () => void }) {
  const name = visible(nameOf(object));
  if (failure === undefined) {
    return <Loading what={name} lines={10} />;
  }
  if (failure.reason !== "NotFound") {
    return <Problem what="The object could not be read." failure={failure} again={again} />;
  }
  return (
    <>
      <p>{visible(sentence(failure.message))}</p>
      <p>
        Neither the realm <Link href={overviewPath(realm)}>{visible(realm)}</Link> nor its log has an object <strong>{name}</strong>
        {object.namespace !== undefined && ` in the namespace ${visible(object.namespace)}`}
        {object.uid !== undefined && ` with the UID ${visible(object.uid)}`}. Search for a part of its name: press <kbd>/</kbd>.
      </p>
    </>
  );
}
