import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Failure } from "../../api/types.ts";
import { failureOf } from "../../api/client.ts";
import { Notice, Problem } from "../../ui/parts.tsx";
import { type Draw, type Drawing, supported } from "./drawing.ts";
import type { Picture } from "./picture.ts";
import { step, type Step } from "./walk.ts";

interface StageProps {
  picture: Picture;
  slot: number;
  /** canvas is the element that has the keys. */
  canvas: { current: HTMLDivElement | null };
  drawing: { current: Drawing | undefined };
  select: (slot: number) => void;
  toggle: (slot: number) => void;
  open: (slot: number) => void;
  /** drawn is called when the drawing is there. */
  drawn: () => void;
  /** said is the selected node in words. */
  said: string;
}

const steps: Record<string, Step> = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right", Home: "home", End: "end" };

async function load(): Promise<Draw> {
  const { Canvas } = await import("./canvas.ts");
  return (host, picture, events) => new Canvas(host, picture, events);
}

/** Stage draws the picture, and has the keys. */
export function Stage({ picture, slot, canvas, drawing, select, toggle, open, drawn, said }: StageProps) {
  const id = useId();
  const host = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<{ is: "ready" | "unsupported" | "lost" } | { is: "failed"; failure: Failure }>({ is: "ready" });
  const [tries, setTries] = useState(0);
  const latest = useRef({ select, toggle, drawn, slot });
  latest.current = { select, toggle, drawn, slot };
  useEffect(() => {
    if (!supported()) {
      setState({ is: "unsupported" });
      return;
    }
    let current = true;
    setState({ is: "ready" });
    load().then(
      (draw) => {
        if (!current || host.current === null) {
          return;
        }
        try {
          drawing.current = draw(host.current, picture, {
            select: (at) => latest.current.select(at),
            toggle: (at) => latest.current.toggle(at),
            lost: () => setState({ is: "lost" }),
          });
          drawing.current.select(latest.current.slot);
          latest.current.drawn();
        } catch (error) {
          setState({ is: "failed", failure: failureOf(error) });
        }
      },
      (error: unknown) => setState({ is: "failed", failure: failureOf(error) }),
    );
    return () => {
      current = false;
      drawing.current?.end();
      drawing.current = undefined;
    };
  }, [picture, drawing, tries]);
  useEffect(() => drawing.current?.select(slot), [drawing, slot]);

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const to = steps[event.key];
    if (to !== undefined) {
      const next = step(picture, slot, to);
      if (next >= 0) {
        select(next);
        drawing.current?.reveal(next);
      }
    } else if (event.key === " ") {
      toggle(slot);
    } else if (event.key === "Enter") {
      open(slot);
    } else if (event.key === "Escape" && slot >= 0) {
      select(-1);
    } else if (event.key === "+" || event.key === "=") {
      drawing.current?.zoom(1.5);
    } else if (event.key === "-") {
      drawing.current?.zoom(1 / 1.5);
    } else if (event.key === "0" || event.key === "f") {
      drawing.current?.fit();
    } else {
      return;
    }
    event.preventDefault();
  };
  const again = () => setTries((n) => n + 1);
  return (
    <div class="graph-stage">
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions, jsx-a11y/no-noninteractive-tabindex -- it has keys of its own, which its description names */}
      <div ref={canvas} class="graph-canvas" role="application" aria-roledescription="graph" tabIndex={0} aria-label="Graph of owners" aria-describedby={`${id}-keys`} onKeyDown={onKeyDown}>
        <div class="graph-layers" ref={host} aria-hidden="true" />
        {state.is !== "ready" && (
          <div class="graph-instead">
            {state.is === "unsupported" && (
              <Notice tone="wait">
                <p>
                  <strong>This browser cannot draw the graph:</strong> WebGL is not available. The arrow keys, the panel and the search work without it, and the page of an object shows its owners and dependents as a tree.
                </p>
              </Notice>
            )}
            {state.is === "lost" && (
              <Notice tone="wait" role="alert">
                <p>The browser has stopped drawing: the graphics card was reset or has no memory left.</p>
                <button type="button" onClick={again}>
                  Draw again
                </button>
              </Notice>
            )}
            {state.is === "failed" && <Problem what="The graph could not be drawn." failure={state.failure} again={again} />}
          </div>
        )}
      </div>
      <p id={`${id}-keys`} class="unseen">
        Arrow up goes to the owner, arrow down to the first dependent, arrow left and right to the previous and next node below the same owner, Home and End to the first and last. Space opens or closes a node. Enter shows the page of an object, and opens or closes a group. Escape deselects. Plus and minus zoom, 0 shows all.
      </p>
      <p class="unseen" role="status">
        {said}
      </p>
      {state.is === "ready" && (
        <div class="graph-zoom">
          <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => drawing.current?.zoom(1.5)}>
            +
          </button>
          <button type="button" aria-label="Zoom out" title="Zoom out (-)" onClick={() => drawing.current?.zoom(1 / 1.5)}>
            −
          </button>
          <button type="button" title="Show all (0)" onClick={() => drawing.current?.fit()}>
            Fit
          </button>
        </div>
      )}
    </div>
  );
}
