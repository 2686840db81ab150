import type { ComponentChildren } from "preact";
import type { Ref } from "../../api/types.ts";
import type { GraphChoice } from "../../lib/graphchoice.ts";
import { count } from "../../lib/numbers.ts";
import { deletePath, objectPath } from "../../lib/paths.ts";
import { capital, visible } from "../../lib/text.ts";
import { useRights } from "../../lib/rights.ts";
import { Link } from "../../ui/link.tsx";
import { Relatives, useFamily } from "./family.tsx";
import { kinds, states } from "./look.ts";
import type { Picture } from "./picture.ts";
import { Shape } from "./shapes.tsx";
import { belowWords, placeOf, stateWord, titleOf } from "./words.ts";

/** Objects in these states are being deleted, and can wait for something. */
const deleted = ["Terminating", "Blocked"];

/** refOf returns the object of a node; undefined of one that stands for several. */
export function refOf(picture: Picture, slot: number): Ref | undefined {
  if (!picture.shown(slot) || picture.lookOf(slot).kind !== kinds.object) {
    return undefined;
  }
  const { resource, namespace } = placeOf(picture, slot);
  return { resource, name: picture.nameOf(slot), uid: picture.keyOf(slot), ...(namespace ? { namespace } : {}) };
}

interface PanelProps {
  realm: string;
  choice: GraphChoice;
  picture: Picture;
  /** slot is the selected node; -1 if none is. */
  slot: number;
  select: (slot: number) => void;
  deselect: () => void;
  toggle: (slot: number) => void;
  show: (uid: string) => void;
  root: (uid: string) => void;
}

/** Panel says what is known of the selected node, and what can be done with it. */
export function Panel(props: PanelProps) {
  const { picture, slot } = props;
  const object = refOf(picture, slot);
  return (
    <section class={`graph-panel section${picture.shown(slot) ? "" : " is-empty"}`} aria-label="Selected node">
      {!picture.shown(slot) ? <p class="dim">Select a node: click on it, or press the arrow keys in the graph.</p> : object === undefined ? <Group {...props} /> : <Selected {...props} object={object} />}
    </section>
  );
}

function Title({ picture, slot, deselect, children }: { picture: Picture; slot: number; deselect: () => void; children: ComponentChildren }) {
  const { state, kind } = picture.lookOf(slot);
  return (
    <div class="panel-title">
      <h2>
        <Shape state={state} kind={kind} /> {children}
      </h2>
      <button type="button" class="quiet small" aria-label="Deselect" title="Deselect (Esc)" onClick={deselect}>
        ×
      </button>
    </div>
  );
}

/** Below says how many objects are below a node, and in which group it is. */
function Below({ picture, slot, select }: { picture: Picture; slot: number; select: (slot: number) => void }) {
  const above = picture.above[slot] ?? -1;
  return (
    <>
      <dt>Objects below</dt>
      <dd>{capital(belowWords(picture, slot, (n) => (n === 0 ? "none" : count(n))))}</dd>
      {above >= 0 && picture.lookOf(above).kind !== kinds.object && (
        <>
          <dt>Group</dt>
          <dd>
            <button type="button" class="as-link" onClick={() => select(above)}>
              {capital(titleOf(picture, above))}
            </button>
          </dd>
        </>
      )}
    </>
  );
}

function Toggle({ picture, slot, toggle }: { picture: Picture; slot: number; toggle: (slot: number) => void }) {
  const { closed, kind } = picture.lookOf(slot);
  const opens = closed && kind !== kinds.rest;
  return opens || picture.isOpen(slot) ? (
    <button type="button" onClick={() => toggle(slot)}>
      {opens ? "Open" : "Close"}
    </button>
  ) : null;
}

/** Group is about a node that stands for several objects. */
function Group({ picture, slot, select, deselect, toggle }: PanelProps) {
  return (
    <>
      <Title picture={picture} slot={slot} deselect={deselect}>
        {capital(titleOf(picture, slot))}
      </Title>
      <dl class="facts">
        <Below picture={picture} slot={slot} select={select} />
      </dl>
      <div class="panel-buttons">
        <Toggle picture={picture} slot={slot} toggle={toggle} />
      </div>
    </>
  );
}

/** Selected is about an object. */
function Selected({ realm, choice, picture, slot, object, select, deselect, toggle, show, root }: PanelProps & { object: Ref }) {
  const uid = object.uid ?? "";
  const read = useFamily(realm, uid, picture.head?.revision ?? 0);
  const { state } = picture.lookOf(slot);
  const page = objectPath(realm, object);
  return (
    <>
      <Title picture={picture} slot={slot} deselect={deselect}>
        <Link href={page}>{visible(object.name)}</Link>
      </Title>
      <dl class="facts">
        <dt>State</dt>
        <dd>{stateWord(state)}</dd>
        {deleted.includes(states[state] ?? "") && (
          <>
            <dt>Waits for</dt>
            <dd>{read.data === undefined ? "…" : visible(read.data.self.waits ?? "nothing")}</dd>
          </>
        )}
        <dt>Resource</dt>
        <dd>{visible(object.resource)}</dd>
        {object.namespace !== undefined && (
          <>
            <dt>Namespace</dt>
            <dd>{visible(object.namespace)}</dd>
          </>
        )}
        <Below picture={picture} slot={slot} select={select} />
      </dl>
      <div class="panel-buttons">
        <Toggle picture={picture} slot={slot} toggle={toggle} />
        {(picture.below[slot] ?? 0) > 0 && choice.root !== uid && (
          <button type="button" onClick={() => root(uid)}>
            Only this and what depends on it
          </button>
        )}
        <Link class="button" href={page}>
          {states[state] === "Blocked" ? "Why it is not deleted" : "Show its page"}
        </Link>
        <Delete realm={realm} object={object} />
      </div>
      <Relatives realm={realm} choice={choice} picture={picture} self={page} read={read} select={select} show={show} />
    </>
  );
}

/** Delete leads to the deletion of an object, if the user may delete it. */
function Delete({ realm, object }: { realm: string; object: Ref }) {
  const { rights } = useRights(realm, { resource: object.resource, namespace: object.namespace });
  return rights?.delete && rights.plan ? (
    <Link class="button" href={deletePath(realm, object)}>
      Delete…
    </Link>
  ) : null;
}
