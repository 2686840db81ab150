import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Family, Relative } from "../../api/types.ts";
import { client } from "../../app.ts";
import { type GraphChoice, withShown } from "../../lib/graphchoice.ts";
import { count } from "../../lib/numbers.ts";
import { graphPath, objectPath } from "../../lib/paths.ts";
import { type Read, useRead } from "../../lib/read.ts";
import { sentence, visible } from "../../lib/text.ts";
import { Throttle } from "../../lib/throttle.ts";
import { Link } from "../../ui/link.tsx";
import { StateMark } from "../../ui/state.tsx";
import { states } from "./look.ts";
import type { Picture } from "./picture.ts";
import { Shape } from "./shapes.tsx";

/** A family is read again at most once in so long while the graph changes, in ms. */
const pause = 2_000;

/** So many dependents are named. */
const named = 5;

/** useFamily reads the owners and dependents of an object, and again when the graph has another revision. */
export function useFamily(realm: string, uid: string, revision: number): Read<Family> {
  const read = useRead(`${realm} ${uid}`, (options) => client.family(realm, uid, 0, options));
  const refresh = useRef(read.refresh);
  refresh.current = read.refresh;
  const throttle = useMemo(() => new Throttle(pause, () => refresh.current()), []);
  useEffect(() => () => throttle.stop(), [throttle]);
  const seen = useRef(revision);
  useEffect(() => {
    if (seen.current !== revision) {
      seen.current = revision;
      throttle.ask();
    }
  }, [revision, throttle]);
  return read;
}

interface RelativesProps {
  realm: string;
  choice: GraphChoice;
  picture: Picture;
  /** self is the object, whose page has what is not named here. */
  self: string;
  read: Read<Family>;
  select: (slot: number) => void;
  show: (uid: string) => void;
}

/** Relatives names the owners of an object, and its first dependents. */
export function Relatives({ realm, choice, picture, self, read: { data, failure, again }, select, show }: RelativesProps) {
  const owners = data?.owners ?? [];
  const dependents = (data?.dependents ?? []).slice(0, named);
  // Each frame has a head of its own.
  const { head } = picture;
  const slots = useMemo(() => (head === undefined ? new Map<string, number>() : picture.findAll([...(data?.owners ?? []), ...(data?.dependents ?? []).slice(0, named)].flatMap(({ uid }) => uid ?? []))), [picture, head, data]);
  const more = (data?.total ?? 0) - dependents.length;
  const list = (all: Relative[]) => all.map((one) => <One key={one.uid ?? one.name} realm={realm} choice={choice} one={one} slot={slots.get(one.uid ?? "")} select={select} show={show} />);
  return (
    <div class="relatives">
      {failure !== undefined && (
        <p role="status">
          Owners and dependents could not be read. {visible(sentence(failure.message))}{" "}
          <button type="button" class="small" onClick={again}>
            Try again
          </button>
        </p>
      )}
      {data !== undefined && (
        <>
          <Part title="Owners" total={owners.length}>
            {list(owners)}
          </Part>
          <Part title="Dependents" total={data.total}>
            {list(dependents)}
            {more > 0 && (
              <li>
                <Link href={self}>and {count(more)} more</Link>
              </li>
            )}
          </Part>
        </>
      )}
    </div>
  );
}

function Part({ title, total, children }: { title: string; total: number; children: ComponentChildren }) {
  return (
    <>
      <h3>
        {title}: {total === 0 ? "none" : count(total)}
      </h3>
      {total > 0 && <ul aria-label={title}>{children}</ul>}
    </>
  );
}

/** One is an owner or a dependent: a button that selects it if it is in the picture, otherwise a link that shows it. */
function One({ realm, choice, one, slot, select, show }: { realm: string; choice: GraphChoice; one: Relative; slot: number | undefined; select: (slot: number) => void; show: (uid: string) => void }) {
  const state: number = (states as readonly string[]).indexOf(one.state);
  const name = visible(one.name === "" ? (one.uid ?? "") : one.name);
  const to = () => {
    if (slot !== undefined) {
      return (
        <button type="button" class="as-link" onClick={() => select(slot)}>
          {name}
        </button>
      );
    }
    const { uid } = one;
    if (state < 0 || uid === undefined) {
      return one.name === "" ? name : <Link href={objectPath(realm, one)}>{name}</Link>;
    }
    return (
      <Link href={graphPath(realm, withShown(choice, uid))} lead={() => show(uid)}>
        {name}
      </Link>
    );
  };
  return (
    <li>
      {state < 0 ? <StateMark state={one.state} /> : <Shape state={state} />} {to()} <span class="dim">{visible(one.resource)}</span>
    </li>
  );
}
