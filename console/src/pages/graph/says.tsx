import { useMemo } from "preact/hooks";
import type { GraphChoice } from "../../lib/graphchoice.ts";
import { count, of } from "../../lib/numbers.ts";
import { graphPath } from "../../lib/paths.ts";
import { sentence, visible } from "../../lib/text.ts";
import { Link } from "../../ui/link.tsx";
import { Notice, Problem } from "../../ui/parts.tsx";
import { type Followed, refusedLabels } from "./follow.ts";
import type { NextSays } from "./next.ts";
import type { Picture } from "./picture.ts";
import { isGroupKey, statusWords, stateWord } from "./words.ts";

interface SaysProps {
  realm: string;
  choice: GraphChoice;
  followed: Followed;
  /** lost is the key of the selected node if it is not shown. */
  lost: string | undefined;
  next: NextSays | undefined;
  goNext: (state: number) => void;
  show: (uid: string) => void;
  deselect: () => void;
}

/** Says is what there is to say about the whole picture, over its lower edge, so that it moves nothing. */
export function Says({ realm, choice, followed, lost, next, goNext, show, deselect }: SaysProps) {
  const { picture, failure } = followed;
  const { head } = picture;
  const status = useMemo(() => (head === undefined ? "" : statusWords(picture, head)), [picture, head]);
  return (
    <div class="graph-says">
      <Failed followed={followed} />
      {next?.failure !== undefined && <Problem what={`The next object in the state ${stateWord(next.state)} could not be read.`} failure={next.failure} again={() => goNext(next.state)} />}
      {head === undefined && failure === undefined && <Notice tone="info">The graph is being read.</Notice>}
      {head?.trouble !== undefined && <Notice tone="wait">The graph may be out of date: {visible(head.trouble)}. The console tries again.</Notice>}
      {choice.root !== undefined && head?.objects !== 0 && (head?.outside ?? []).includes(choice.root) && <Notice tone="info">The object was removed. What names it as its owner is shown.</Notice>}
      {head?.othersLeft !== undefined && (
        <Notice tone="info">{of(head.othersLeft, "line")} to other owners would be too many: choose a namespace, or what depends on one object.</Notice>
      )}
      {head?.full === true && (
        <Notice tone="wait">
          {count(head.most)} nodes can be shown, and more are open: close owners or choose a namespace.
        </Notice>
      )}
      {head?.loading !== true && head?.objects === 0 && failure === undefined && <Notice tone="info">{emptyWords(choice, head.partial === true)}</Notice>}
      {lost !== undefined && <Lost realm={realm} choice={choice} picture={picture} lost={lost} show={show} deselect={deselect} />}
      <p class="graph-status dim">
        {status}
        {head?.partial === true && ", of those that you may see"}
        <span role="status">{next !== undefined && next.failure === undefined && ` · No object is in the state ${stateWord(next.state)}.`}</span>
      </p>
    </div>
  );
}

/** Failed says why the picture is not what was asked for. */
function Failed({ followed: { picture, failure, again } }: { followed: Followed }) {
  if (failure === undefined) {
    return null;
  }
  if (failure.retry) {
    return <Problem what="The graph does not arrive for now." failure={failure} again={again} />;
  }
  const why = refusedLabels(failure) === undefined ? visible(sentence(failure.message)) : "The labels are not valid.";
  return (
    <Notice tone="bad" role="alert">
      <p>
        <strong>{picture.head === undefined ? "The graph cannot be shown." : "The graph still shows what was chosen before."}</strong> {why}
      </p>
    </Notice>
  );
}

function emptyWords({ namespace, labels, root }: GraphChoice, partial: boolean): string {
  if (root !== undefined) {
    return "The object does not exist any more, or you may not see it, and nothing that you may see names it as its owner. Show all objects again.";
  }
  if (namespace !== undefined || labels !== undefined) {
    return "No object matches: change the namespace or the labels.";
  }
  return partial ? "The realm has no objects that you may see." : "The realm has no objects.";
}

/** Lost says that the selected node is not shown, and why. */
function Lost({ realm, choice, picture: { head }, lost, show, deselect }: { realm: string; choice: GraphChoice; picture: Picture; lost: string; show: (uid: string) => void; deselect: () => void }) {
  const outside = (head?.outside ?? []).includes(lost);
  // What was asked for and is not outside arrives with the next frame.
  if (head === undefined || head.loading === true || (!outside && (choice.show ?? []).includes(lost))) {
    return null;
  }
  const narrowed = choice.namespace !== undefined || choice.labels !== undefined || choice.root !== undefined;
  const whole = { ...(choice.show === undefined ? {} : { show: choice.show }), at: lost };
  const group = isGroupKey(lost);
  return (
    <Notice tone="info" role="status">
      <p>{group ? "The selected group is not shown any more." : lostWords(outside, narrowed)}</p>
      {outside && narrowed && <Link href={graphPath(realm, whole)}>Show the whole realm</Link>}
      {!outside && !group && (
        <button type="button" class="small" onClick={() => show(lost)}>
          Look for it
        </button>
      )}
      <button type="button" class="quiet small" aria-label="Close, and deselect" title="Close, and deselect (Esc)" onClick={deselect}>
        ×
      </button>
    </Notice>
  );
}

function lostWords(outside: boolean, narrowed: boolean): string {
  if (!outside) {
    return "The selected object is not shown: it is below a closed owner, or not in this part of the graph, or does not exist any more.";
  }
  return narrowed ? "The object is not in this part of the graph." : "The object does not exist any more, or you may not see it.";
}
