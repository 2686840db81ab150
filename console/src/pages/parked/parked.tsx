import { useEffect, useRef, useState } from "preact/hooks";
import { client } from "../../app.ts";
import { failureOf } from "../../api/client.ts";
import type { Failure, ParkedWork } from "../../api/types.ts";
import { count, of } from "../../lib/numbers.ts";
import { overviewPath } from "../../lib/paths.ts";
import { useRead } from "../../lib/read.ts";
import { useRights } from "../../lib/rights.ts";
import { capital, sentence, visible } from "../../lib/text.ts";
import { Link } from "../../ui/link.tsx";
import { Ago, Empty, Loading, Notice, ObjectLink, Problem, Section, Unread } from "../../ui/parts.tsx";
import { Table } from "../../ui/table.tsx";
import { View } from "../../ui/view.tsx";
import { DropDialog } from "./drop.tsx";

interface Pages {
  work: ParkedWork[];
  next: number | undefined;
}

/** The first page is read again after so long, in ms, unless more was read: that would go with it. */
const pause = 5_000;

/** ParkedPage shows work that kept failing, and retries or drops it. */
export function ParkedPage({ realm }: { realm: string }) {
  const { rights, failure: unread, again: readRights } = useRights(realm);
  const { data, failure, again, refresh } = useRead(`parked ${realm}`, async (options): Promise<Pages> => {
    const page = await client.parked(realm, undefined, options);
    return { work: page.work ?? [], next: page.next };
  });
  const grown = useRef(false);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible" && !grown.current) {
        refresh();
      }
    }, pause);
    return () => clearInterval(timer);
  }, [refresh]);
  return (
    <View title={`Parked work · ${visible(realm)}`} heading="Parked work" of={`parked ${realm}`} wide>
      <p class="dim">
        Work that kept failing, in the realm <Link href={overviewPath(realm)}>{visible(realm)}</Link>. It is not tried again by itself.
      </p>
      {failure !== undefined && <Problem what="The parked work could not be read." failure={failure} again={again} />}
      {unread !== undefined && <Unread what="you may retry and drop work" failure={unread} again={readRights} />}
      {data === undefined ? failure === undefined && <Loading what="the parked work" lines={6} /> : <Work realm={realm} first={data} may={{ Retry: rights?.retryParked === true, Drop: rights?.dropParked === true }} grown={grown} again={again} />}
    </View>
  );
}

interface WorkProps {
  realm: string;
  first: Pages;
  /** may says what the user may do with parked work. */
  may: { Retry: boolean; Drop: boolean };
  grown: { current: boolean };
  again: () => void;
}

function Work({ realm, first, may, grown, again }: WorkProps) {
  const change = may.Retry || may.Drop;
  // What was read after the first page belongs to that page.
  const [rest, setRest] = useState<Pages & { first: Pages }>();
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const [result, setResult] = useState<{ says: string; failed: string[] }>();
  const [dropping, setDropping] = useState(false);
  // The button that was pressed is disabled, or goes with the last work.
  const line = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (result !== undefined) {
      line.current?.focus();
    }
  }, [result]);
  const more = rest?.first === first ? rest : undefined;
  grown.current = more !== undefined;
  const work = [...first.work, ...(more?.work ?? [])];
  const next = more === undefined ? first.next : more.next;
  const ids = work.filter((w) => chosen.has(w.id)).map((w) => w.id);

  const act = async (what: () => Promise<void>) => {
    setBusy(true);
    setFailure(undefined);
    try {
      await what();
    } catch (error) {
      setFailure(failureOf(error));
    }
    setBusy(false);
  };
  const show = (after: number) =>
    act(async () => {
      const page = await client.parked(realm, after);
      setRest({ first, work: [...(more?.work ?? []), ...(page.work ?? [])], next: page.next });
    });
  const apply = (action: "Retry" | "Drop") =>
    act(async () => {
      setResult(undefined);
      const { done, failed } = await client.changeParked(realm, { action, ids });
      setResult({ says: `${of(done, "piece of work was", "pieces of work were")} ${action === "Retry" ? "queued again. What fails again comes back here" : "dropped"}.`, failed: failed ?? [] });
      setChosen(new Set());
      again();
    });
  const choose = (id: number, is: boolean) => {
    const after = new Set(chosen);
    if (is) {
      after.add(id);
    } else {
      after.delete(id);
    }
    setChosen(after);
  };
  const all = work.length > 0 && ids.length === work.length;
  return (
    <Section id="parked" title="Work" aside={`${count(work.length)}${next ? " shown" : ""}`}>
      {change && work.length > 0 && (
        <div class="parked-tools">
          <span class="pick">
            <input id="all" type="checkbox" checked={all} onChange={(event) => setChosen(new Set(event.currentTarget.checked ? work.map((w) => w.id) : []))} />
            <label for="all">Select all shown</label>
          </span>
          <span class="buttons">
            {may.Retry && (
              <button type="button" disabled={busy || ids.length === 0} onClick={() => void apply("Retry")}>
                Retry
              </button>
            )}
            {may.Drop && (
              <button type="button" disabled={busy || ids.length === 0} onClick={() => setDropping(true)}>
                Drop…
              </button>
            )}
          </span>
          <span class="dim">{of(ids.length, "piece", "pieces")} selected</span>
        </div>
      )}
      <div role="status" ref={line} tabIndex={-1}>
        {result !== undefined && (
          <Notice tone={result.failed.length === 0 ? "good" : "wait"}>
            <p>{result.says}</p>
            {result.failed.length > 0 && (
              <ul class="notes causes" aria-label="What failed">
                {result.failed.map((text) => (
                  <li key={text}>{visible(sentence(text))}</li>
                ))}
              </ul>
            )}
          </Notice>
        )}
      </div>
      {failure !== undefined && <Problem what="The request failed." failure={failure} />}
      {dropping && (
        <DropDialog
          pieces={ids.length}
          close={() => setDropping(false)}
          drop={() => {
            setDropping(false);
            void apply("Drop");
          }}
        />
      )}
      {work.length === 0 ? (
        <Empty>No work is parked.</Empty>
      ) : (
        <div class="parked">
          <Table
            label="Parked work"
            rows={work}
            rowKey={(w) => String(w.id)}
            columns={[
              { head: "Work", width: "30%", main: true, cell: (w) => <What work={w} change={change} chosen={chosen.has(w.id)} choose={choose} /> },
              { head: "Object", width: "24%", full: true, cell: (w) => (w.object === undefined ? <span class="dim">several</span> : <ObjectLink realm={realm} object={w.object} />) },
              { head: "Error", width: "32%", full: true, cell: (w) => <span class="error-text">{visible(w.error)}</span> },
              { head: "Attempts", width: "10%", numeric: true, cell: (w) => count(w.attempts) },
              { head: "Since", width: "12%", cell: (w) => <Ago time={w.time} /> },
              { head: "Parked by", width: "16%", cell: (w) => visible(w.by) },
            ]}
          />
        </div>
      )}
      {next !== undefined && next !== 0 && (
        <button type="button" disabled={busy} onClick={() => void show(next)}>
          Show more
        </button>
      )}
    </Section>
  );
}

function What({ work, change, chosen, choose }: { work: ParkedWork; change: boolean; chosen: boolean; choose: (id: number, is: boolean) => void }) {
  const says = visible(work.says === "" ? work.subject : capital(work.says));
  if (!change) {
    return <>{says}</>;
  }
  return (
    <span class="pick">
      <input id={`work-${work.id}`} type="checkbox" checked={chosen} onChange={(event) => choose(work.id, event.currentTarget.checked)} />
      <label for={`work-${work.id}`}>{says}</label>
    </span>
  );
}
