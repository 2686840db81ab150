import { useEffect, useRef, useState } from "preact/hooks";
import { live } from "../../app.ts";
import { failureOf } from "../../api/client.ts";
import type { Asked, Question } from "../../api/live.ts";
import type { Failure } from "../../api/types.ts";
import { type GraphChoice, graphAskOf } from "../../lib/graphchoice.ts";
import type { Drawing } from "./drawing.ts";
import { decode } from "./frame.ts";
import { Picture } from "./picture.ts";

export interface Followed {
  picture: Picture;
  /** version grows with each change of the picture. */
  version: number;
  /** failure says why the picture is not what was asked for. */
  failure: Failure | undefined;
  /** drawing is told of each change before the page is shown again. */
  drawing: { current: Drawing | undefined };
  again: () => void;
}

/** refusedLabels returns why the labels of an ask were refused; undefined if something else failed. */
export function refusedLabels(failure: Failure | undefined): string | undefined {
  const [, why] = /^labels: (.*)/s.exec(failure?.message ?? "") ?? [];
  return failure?.reason === "BadRequest" ? why : undefined;
}

function questionOf(realm: string, choice: GraphChoice): Question {
  return { realm, view: "Graph", graph: graphAskOf(choice) };
}

/** useGraph follows the graph of a realm. What it asks for changes with the choice. */
export function useGraph(realm: string, choice: GraphChoice): Followed {
  const [state, setState] = useState<{ version: number; failure?: Failure; refused?: Failure }>({ version: 0 });
  const [picture] = useState(() => new Picture());
  const drawing = useRef<Drawing | undefined>(undefined);
  const asked = useRef<{ asked: Asked; key: string } | undefined>(undefined);
  const question = questionOf(realm, choice);
  const key = JSON.stringify(question);
  const latest = useRef(question);
  latest.current = question;
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const now = live.follow(latest.current, {
      news: ({ error }) => {
        if (error !== undefined) {
          setState(({ version }) => ({ version, failure: error, ...(error.retry ? {} : { refused: error }) }));
        }
      },
      frame: (message) => {
        try {
          const frame = decode(message);
          drawing.current?.before();
          const changed = picture.apply(frame);
          drawing.current?.update(changed);
          // What was refused stays refused while the graph goes on with what was chosen before.
          setState(({ version, refused }) => ({ version: version + 1, ...(refused === undefined || frame.head.first ? {} : { failure: refused, refused }) }));
        } catch (error) {
          setState(({ version }) => ({ version, failure: failureOf(error) }));
        }
      },
      // The first frame on the new connection has all of it.
      again: () => undefined,
    });
    asked.current = { asked: now, key: JSON.stringify(latest.current) };
    return () => {
      asked.current = undefined;
      now.end();
    };
  }, [realm, picture, tries]);
  useEffect(() => {
    const { current } = asked;
    if (current !== undefined && current.key !== key) {
      current.key = key;
      current.asked.change(latest.current);
      setState(({ version }) => ({ version }));
    }
  }, [key]);
  return { picture, version: state.version, failure: state.failure, drawing, again: () => setTries((n) => n + 1) };
}
