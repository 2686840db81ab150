import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { failureOf } from "../../api/client.ts";
import type { Failure, Missing } from "../../api/types.ts";
import { client, live } from "../../app.ts";
import { type Choices, absoluteTimes, filterOf } from "../../lib/eventfilter.ts";
import { Single } from "../../lib/single.ts";
import { type Log, arrive, begin, older, show } from "./rows.ts";

export interface Reading {
  log: Log | undefined;
  /** choices are those of the page with absolute times, from when it was read. */
  choices: Choices;
  missing: Missing[];
  failure: Failure | undefined;
  /** stopped says why new rows do not arrive. */
  stopped: Failure | undefined;
  busy: boolean;
  again: () => void;
  more: () => void;
  /** put shows the rows that wait. */
  put: () => void;
}

/** useLog reads the events that choices select, and follows the log. free returns whether new rows are shown at once. */
export function useLog(realm: string, chosen: Choices, free: () => boolean): Reading {
  const [choices, setChoices] = useState<Choices>(() => absoluteTimes(chosen, Date.now()));
  const [log, setLog] = useState<Log>();
  const [missing, setMissing] = useState<Missing[]>([]);
  const [failure, setFailure] = useState<Failure>();
  const [stopped, setStopped] = useState<Failure>();
  const [busy, setBusy] = useState(false);
  const isFree = useRef(free);
  isFree.current = free;
  const key = JSON.stringify(chosen);
  const single = useMemo(() => new Single(), []);
  const abort = useRef(new AbortController());
  const reads = useRef(0);
  /** newest reads the newest part of the log in place of what the page has. */
  const newest = useCallback(
    (background: boolean) =>
      single.run(`newest ${realm} ${key}`, async () => {
        const { signal } = abort.current;
        const choices = absoluteTimes(JSON.parse(key) as Choices, Date.now());
        setBusy(true);
        try {
          const page = await client.events(realm, choices, undefined, { signal, background });
          setChoices(choices);
          setLog(begin(page, ++reads.current));
          setMissing(page.missing ?? []);
          setFailure(undefined);
          setStopped(undefined);
        } catch (error) {
          if (!signal.aborted) {
            setFailure(failureOf(error));
          }
        }
        setBusy(false);
      }),
    [single, realm, key],
  );
  useEffect(() => {
    const controller = (abort.current = new AbortController());
    newest(false);
    return () => controller.abort();
  }, [newest]);
  const again = useCallback(() => newest(false), [newest]);

  // The log is followed from where the first reply ends.
  const read = log?.read;
  const last = useRef(0);
  last.current = log?.last ?? 0;
  const filter = JSON.stringify(filterOf(choices));
  useEffect(() => {
    if (read === undefined) {
      return;
    }
    let end: () => void = () => undefined;
    const ask = () => {
      end();
      end = live.ask(
        { realm, view: "Events", events: JSON.parse(filter) as ReturnType<typeof filterOf>, after: last.current },
        {
          news: ({ events, error }) => {
            if (error?.reason === "Expired") {
              // What a person looks at stays until that person asks for what is new.
              if (isFree.current()) {
                newest(true);
              } else {
                setLog((before) => (before?.read === read ? { ...before, gap: true } : before));
              }
            } else if (error !== undefined) {
              setStopped(error);
            } else if (events !== undefined) {
              setStopped(undefined);
              setMissing((before) => [...before, ...(events.missing ?? []).filter((m) => before.every((b) => b.part !== m.part))]);
              setLog((before) => (before?.read === read ? next(arrive(before, events)) : before)); // not rows that another reply has
            }
          },
          again: ask, // from what was read last
        },
      );
    };
    const next = (log: Log): Log => (isFree.current() ? show(log) : log);
    ask();
    return () => end();
  }, [realm, read, filter, newest]);

  const more = () => {
    const before = log?.before;
    if (before === undefined) {
      return;
    }
    single.run("older", async () => {
      const { signal } = abort.current;
      setBusy(true);
      try {
        const page = await client.events(realm, choices, before, { signal });
        setLog((log) => (log?.before === before ? older(log, page) : log));
        setMissing(page.missing ?? []);
      } catch (error) {
        if (!signal.aborted) {
          setFailure(failureOf(error));
        }
      }
      setBusy(false);
    });
  };
  const put = () => setLog((log) => log && show(log));
  return { log, choices, missing, failure, stopped, busy, again, more, put };
}
