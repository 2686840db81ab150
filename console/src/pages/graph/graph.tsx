import { useCallback, useEffect, useRef } from "preact/hooks";
import { useSearch } from "wouter-preact/use-browser-location";
import type { Relative } from "../../api/types.ts";
import { choose, go, replace } from "../../lib/go.ts";
import { type GraphChoice, graphChoiceOf, toggled, withShown } from "../../lib/graphchoice.ts";
import { graphPath, objectPath } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";
import { View } from "../../ui/view.tsx";
import { refusedLabels, useGraph } from "./follow.ts";
import { Legend } from "./legend.tsx";
import { kinds } from "./look.ts";
import { useNext } from "./next.ts";
import { Panel, refOf } from "./panel.tsx";
import { Says } from "./says.tsx";
import { useSelection } from "./selection.ts";
import { Stage } from "./stage.tsx";
import { Toolbar } from "./toolbar.tsx";
import { isBelow } from "./walk.ts";
import { isGroupKey, spoken } from "./words.ts";

/** GraphPage shows the objects of a realm, and what owns what, as a picture. */
export function GraphPage({ realm }: { realm: string }) {
  const choice = graphChoiceOf(useSearch());
  const followed = useGraph(realm, choice);
  const { picture, version, drawing } = followed;
  // A choice is made of the latest one, which the URL may have got since this page was shown.
  const change = (next: GraphChoice) => choose(graphPath(realm, next));
  const { key, slot, select: selectNode, selectKey, write } = useSelection(picture, choice.at, (at) => {
    replace(graphPath(realm, { ...graphChoiceOf(location.search), at: at ?? "" }));
  });
  // The camera goes to a node that is named by the URL or a search when it arrives.
  const wanted = useRef(choice.at);
  const arrive = useCallback(() => {
    const at = wanted.current === undefined ? -1 : picture.find(wanted.current);
    if (at >= 0 && drawing.current !== undefined) {
      wanted.current = undefined;
      drawing.current.reveal(at);
    }
  }, [picture, drawing]);
  useEffect(arrive, [arrive, version]);
  const select = (at: number) => {
    wanted.current = undefined;
    selectNode(at);
  };
  // Another part of the realm is another picture.
  const part = JSON.stringify([choice.namespace, choice.labels, choice.root]);
  const shownPart = useRef(part);
  useEffect(() => {
    if (shownPart.current !== part) {
      shownPart.current = part;
      drawing.current?.refit();
    }
  }, [part, drawing]);

  const toggle = (at: number) => {
    const { kind, closed } = picture.lookOf(at);
    if (!picture.shown(at) || kind === kinds.rest || (picture.below[at] ?? 0) === 0) {
      return;
    }
    const below = (choice.show ?? []).filter((uid) => {
      const shown = picture.find(uid);
      return shown !== at && isBelow(picture, shown, at);
    });
    change({ ...toggled(choice, picture.keyOf(at), closed, below), at: picture.keyOf(at) });
  };
  const reach = (at: number) => {
    select(at);
    drawing.current?.reveal(at);
  };
  const show = (uid: string) => {
    wanted.current = uid;
    selectKey(uid);
    change(withShown(graphChoiceOf(location.search), uid));
    arrive();
  };
  const canvas = useRef<HTMLDivElement>(null);
  const find = ({ uid }: Relative) => {
    if (uid !== undefined) {
      show(uid);
      canvas.current?.focus({ preventScroll: true });
    }
  };
  const { next, says } = useNext(realm, choice, key === undefined || isGroupKey(key) ? undefined : key, show);
  // A selection in the URL is a place in the picture, where the keys go on, unless a person has moved the focus.
  const placed = useRef(choice.at === undefined);
  useEffect(() => {
    if (!placed.current && slot >= 0) {
      placed.current = true;
      if (document.activeElement === null || document.activeElement === document.body || document.activeElement.tagName === "H1") {
        canvas.current?.focus({ preventScroll: true });
      }
    }
  }, [slot]);
  // On a narrow window the panel lies over the lower part, so that the picture goes to the top.
  const selected = slot >= 0;
  useEffect(() => {
    if (selected && matchMedia("(max-width: 46rem)").matches) {
      canvas.current?.scrollIntoView({ block: "start" });
    }
  }, [selected]);
  // What was open belongs to the graph that was shown before. The selected object is shown in this one, too, if it is in it.
  const selectPart = (part: Partial<GraphChoice>) => {
    const before = graphChoiceOf(location.search);
    const at = before.at ?? (part.root === undefined ? before.root : undefined);
    const shown = at === undefined ? part : isGroupKey(at) ? { ...part, at } : withShown(part, at);
    change(shown);
  };
  const deselect = () => {
    select(-1);
    canvas.current?.focus({ preventScroll: true });
  };
  const rootSlot = choice.root === undefined ? -1 : picture.find(choice.root);
  const namespaces = [...new Set(picture.places.flatMap((place) => place.namespace ?? []))].sort();
  return (
    <View
      title={`Graph of ${visible(realm)}`}
      heading="Graph"
      of={`graph ${realm}`}
      wide
      actions={<Toolbar realm={realm} choice={choice} namespaces={namespaces} rootName={rootSlot < 0 ? (choice.root ?? "") : picture.nameOf(rootSlot)} refused={refusedLabels(followed.failure)} select={selectPart} find={find} />}
    >
      <Legend totals={picture.head?.totals ?? []} next={next} />
      <div class="graph">
        <div class="graph-main">
          <Stage
            picture={picture}
            slot={slot}
            canvas={canvas}
            drawing={drawing}
            select={select}
            toggle={toggle}
            open={(at) => {
              const object = refOf(picture, at);
              if (object === undefined) {
                toggle(at);
              } else {
                write();
                go(objectPath(realm, object));
              }
            }}
            drawn={arrive}
            said={slot < 0 ? "" : spoken(picture, slot)}
          />
          <Says realm={realm} choice={choice} followed={followed} lost={slot < 0 ? key : undefined} next={says} goNext={next} show={show} deselect={deselect} />
        </div>
        <Panel realm={realm} choice={choice} picture={picture} slot={slot} select={reach} deselect={deselect} toggle={toggle} show={show} root={(uid) => change({ root: uid, at: uid })} />
      </div>
    </View>
  );
}
