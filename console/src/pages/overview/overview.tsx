import { useEffect, useState } from "preact/hooks";
import { client, live } from "../../app.ts";
import type { Failure, Overview } from "../../api/types.ts";
import { count, of } from "../../lib/numbers.ts";
import { useRead } from "../../lib/read.ts";
import { visible } from "../../lib/text.ts";
import { Loading, Notice, Problem } from "../../ui/parts.tsx";
import { View } from "../../ui/view.tsx";
import { Deletions, Longest } from "./deletions.tsx";
import { Finalizers, Services, StorageUse, Warnings } from "./health.tsx";
import { MissingRest } from "./missing.tsx";
import { StuckList, doubt } from "./stuck.tsx";

/** OverviewPage shows what needs attention in a realm, problems first. It follows the realm. */
export function OverviewPage({ realm }: { realm: string }) {
  const { overview, failure, again } = useOverview(realm);
  const stuck = overview?.stuck?.length ?? 0;
  return (
    <View title={`${stuck > 0 ? `(${stuck}) ` : ""}${visible(realm)}`} heading={<>Realm {visible(realm)}</>} of={`overview ${realm}`} wide>
      {failure !== undefined && <Problem what="The overview could not be read." failure={failure} again={again} />}
      {overview === undefined ? failure === undefined && <Loading what="the overview" lines={8} /> : <Content realm={realm} overview={overview} />}
    </View>
  );
}

/** useOverview reads an overview once, and then takes those that the server sends. */
function useOverview(realm: string): { overview: Overview | undefined; failure: Failure | undefined; again: () => void } {
  const { data, failure, again, refresh } = useRead(`overview ${realm}`, (options) => client.overview(realm, options));
  const [pushed, setPushed] = useState<{ overview?: Overview; failure?: Failure }>({});
  useEffect(
    () =>
      live.ask(
        { realm, view: "Overview" },
        {
          news: ({ overview, error }) => {
            if (overview !== undefined) {
              setPushed({ overview });
            } else if (error !== undefined) {
              setPushed((before) => ({ ...before, failure: error }));
            }
          },
          again: refresh,
        },
      ),
    [realm, refresh],
  );
  const overview = data === undefined || (pushed.overview !== undefined && Date.parse(pushed.overview.time) >= Date.parse(data.time)) ? pushed.overview : data;
  return { overview, failure: pushed.failure ?? (pushed.overview === undefined ? failure : undefined), again };
}

function Content({ realm, overview }: { realm: string; overview: Overview }) {
  const missing = overview.missing ?? [];
  return (
    <>
      <Totals overview={overview} />
      {overview.partial && <p class="dim partial">Your user may not see all objects of this realm. Counts and lists are about those that it may see.</p>}
      {overview.loading && (
        <Notice tone="info" role="status">
          <p>The objects of the realm are still being read. Counts and lists grow until that is complete.</p>
        </Notice>
      )}
      <MissingRest missing={missing} />
      <StuckList realm={realm} overview={overview} />
      <div class="columns">
        <div>
          <Deletions realm={realm} overview={overview} />
          <Longest realm={realm} overview={overview} />
          <Finalizers overview={overview} />
        </div>
        <div>
          <Warnings realm={realm} overview={overview} />
          <Services overview={overview} />
          <StorageUse overview={overview} />
        </div>
      </div>
    </>
  );
}

function Totals({ overview }: { overview: Overview }) {
  const totals: [string, number, string?][] = [
    ["Objects", overview.objects],
    ["Terminating", overview.terminating],
    ["Garbage", overview.garbage, "Objects that are not being deleted yet, and whose owners are all gone"],
    ["Deletions", overview.deletionsTotal, "Deletions in progress"],
    ["Warnings", overview.warningsTotal],
    ["Revision", overview.revision, "Counts the changes of objects in the realm"],
  ];
  return (
    <>
      <dl class="totals">
        {totals.map(([name, value, title]) => (
          <div key={name} title={title}>
            <dt>{name}</dt>
            <dd>{count(value)}</dd>
          </div>
        ))}
      </dl>
      {overview.paused && (
        <Notice tone="wait" icon="paused">
          <p>
            <strong>The realm is paused.</strong> It was restored, and deletes nothing until it is resumed.
          </p>
        </Notice>
      )}
      <p class="unseen" role="status">
        {(overview.stuck ?? []).length === 0 ? (doubt(overview) === undefined ? "Nothing is stuck." : "Nothing is known to be stuck.") : `${of((overview.stuck ?? []).length, "reason")} why objects are not deleted.`}
      </p>
    </>
  );
}
