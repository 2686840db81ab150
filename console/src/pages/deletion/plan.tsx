import { useEffect, useRef, useState } from "preact/hooks";
import { client, live } from "../../app.ts";
import { failureOf } from "../../api/client.ts";
import type { Failure, Plan, Ref } from "../../api/types.ts";
import { goInstead, replace } from "../../lib/go.ts";
import { count, of } from "../../lib/numbers.ts";
import { type Choice, deletePath, deletionPath, nameOf, objectPath, overviewPath } from "../../lib/paths.ts";
import { useRead } from "../../lib/read.ts";
import { useRights } from "../../lib/rights.ts";
import { sentence, visible } from "../../lib/text.ts";
import { Link } from "../../ui/link.tsx";
import { Command, Loading, MissingParts, Notice, Problem, Section, Unread } from "../../ui/parts.tsx";
import { View } from "../../ui/view.tsx";
import { Confirm } from "./confirm.tsx";
import { useFate } from "./fate.ts";
import { Options } from "./options.tsx";
import { Counts, differ } from "./outcomes.tsx";
import { PlanTree } from "./planTree.tsx";
import { NotDeleted, type Refusal, refusalOf } from "./refusal.tsx";

interface Props {
  realm: string;
  object: Ref;
  choice: Choice;
}

/** DeletePage shows what a deletion would do, and begins it when a person confirms the plan. */
export function DeletePage({ realm, object, choice }: Props) {
  const { policy, grace } = choice;
  const key = `plan ${policy ?? ""} ${grace ?? ""}`;
  const { data, failure, again } = useRead(key, (options) => client.plan(realm, object, choice, options));
  // Until the plan of another choice has been made, the last one stays in its place, and cannot be confirmed.
  const last = useRef<Plan | undefined>(undefined);
  if (data !== undefined) {
    last.current = data;
  }
  const plan = data ?? (failure === undefined ? last.current : undefined);
  const name = visible(nameOf(object));
  return (
    <View
      title={`Delete ${name}`}
      heading={
        <>
          Delete{" "}
          <Link href={objectPath(realm, object)}>
            {visible(object.resource)}/<wbr />
            {visible(object.name)}
          </Link>
        </>
      }
      of={`delete ${realm} ${name}`}
      wide
    >
      <p class="dim">
        {object.namespace !== undefined && (
          <>
            In the namespace <strong>{visible(object.namespace)}</strong> of{" "}
          </>
        )}
        {object.namespace === undefined && "In "}the realm <Link href={overviewPath(realm)}>{visible(realm)}</Link>. Nothing is deleted before you confirm the plan.
      </p>
      {failure?.reason === "Forbidden" ? (
        <Refused failure={failure} />
      ) : failure?.reason === "NotFound" ? (
        <Notice tone="info">
          <p>
            <strong>{name} does not exist.</strong> {visible(sentence(failure.message))} <Link href={objectPath(realm, object)}>Its page says what the log has of it.</Link>
          </p>
        </Notice>
      ) : (
        <Options choice={choice} policy={plan?.policy} choose={(next) => replace(deletePath(realm, object, next))} />
      )}
      {failure !== undefined && failure.reason !== "Forbidden" && failure.reason !== "NotFound" && <Problem what="The deletion could not be planned." failure={failure} again={again} />}
      {plan === undefined ? failure === undefined && <Loading what="the plan" lines={10} /> : <Planned key={key} realm={realm} plan={plan} current={data !== undefined} failed={failure !== undefined} again={again} />}
    </View>
  );
}

/** Refused is for users who may not delete the object. */
function Refused({ failure }: { failure: Failure }) {
  return (
    <Notice tone="info">
      <p>
        <strong>Your user may not delete this object.</strong> {visible(sentence(failure.message))}
      </p>
    </Notice>
  );
}

interface PlannedProps {
  realm: string;
  plan: Plan;
  /** current: the plan is that of the present choice. failed: it could not be made again. */
  current: boolean;
  failed: boolean;
  again: () => void;
}

/** Planned shows a plan. The next one, of the same choice, takes its place, with what differs. */
function Planned({ realm, plan, current, failed, again }: PlannedProps) {
  const { rights, failure: unread, again: readRights } = useRights(realm, { resource: plan.object.resource, namespace: plan.object.namespace });
  const [before, setBefore] = useState<Plan>();
  const [refusal, setRefusal] = useState<Refusal>();
  // After a request whose outcome is not known, what other requests say is no longer all that has happened.
  const [doubt, setDoubt] = useState(false);
  const [busy, setBusy] = useState(false);
  const changed = useChanged(realm, plan);
  const planAgain = () => {
    setBefore(plan);
    setRefusal(undefined);
    again();
  };
  const begin = async () => {
    setBusy(true);
    setRefusal(undefined);
    try {
      const deleted = await client.delete(realm, plan);
      const uid = deleted.object.uid ?? plan.object.uid ?? "";
      goInstead(deletionPath(realm, { ...plan.object, uid, rev: deleted.revision }), { warnings: deleted.warnings ?? [] });
    } catch (error) {
      const refusal = refusalOf(error);
      setRefusal(refusal);
      setDoubt((before) => before || refusal.is === "Unknown");
      setBusy(false);
    }
  };
  useFate(realm, plan.object, doubt, () => goInstead(deletionPath(realm, { ...plan.object, uid: plan.object.uid ?? "" })));
  const planning = before === plan && !failed;
  const compared = before === undefined || before === plan ? undefined : before.counts;
  return (
    <div aria-busy={!current || planning} class={current ? "plan" : "plan stale"}>
      {rights?.delete === false && (
        <Notice tone="info">
          <p>
            <strong>Your user may see the plan but may not delete {visible(nameOf(plan.object))}.</strong> An administrator can allow it.
          </p>
        </Notice>
      )}
      {plan.root.terminating && plan.object.uid !== undefined && (
        <Notice tone="wait">
          <p>
            <strong>This object is being deleted already.</strong> <Link href={deletionPath(realm, { ...plan.object, uid: plan.object.uid })}>Follow its deletion</Link>
          </p>
        </Notice>
      )}
      <Section id="counts" title="What would happen" aside={`revision ${count(plan.revision)}`}>
        <p class="summary">{visible(plan.says)}</p>
        {(plan.waits ?? []).map((text) => (
          <Notice key={text} tone="wait">
            <p>{visible(text)}</p>
          </Notice>
        ))}
        <Counts counts={plan.counts} before={compared} />
        {compared !== undefined && (
          <p role="status" class="compared">
            {differ(compared, plan.counts) ? "The numbers differ from the plan before, as shown: before → now." : "The numbers are those of the plan before."}
          </p>
        )}
        <MissingParts missing={plan.missing} />
        {(plan.notes ?? []).length > 0 && (
          <ul class="notes">
            {(plan.notes ?? []).map((note) => (
              <li key={note}>{visible(note)}</li>
            ))}
          </ul>
        )}
      </Section>
      <Section id="plan" title="Objects" aside={plan.root.below > 0 ? `${of(plan.root.below, "object")} below` : undefined}>
        <PlanTree realm={realm} plan={plan} again={again} />
      </Section>
      {rights?.delete !== false && (
        <Section id="confirm" title="Confirm">
          {plan.unbound && (
            <Notice tone="wait">
              <p>
                <strong>The plan has too many objects to be checked again when it is carried out.</strong> The deletion is not bound to it: what depends on the object by then goes too.
              </p>
            </Notice>
          )}
          {plan.command !== undefined && plan.command !== "" && (
            <div class="cure">
              <span class="dim">The same on the command line:</span> <Command line={plan.command} />
            </div>
          )}
          <div class="plan-news" role="status">
            {planning ? (
              <span class="dim">Planning again…</span>
            ) : (
              changed && refusal === undefined && (
                <>
                  <span class="tone-wait">The object has changed since the plan.</span>{" "}
                  <button type="button" onClick={planAgain}>
                    Plan again
                  </button>
                </>
              )
            )}
          </div>
          {unread !== undefined && <Unread what="you may delete it" failure={unread} again={readRights} />}
          <Confirm key={plan.plan} plan={plan} disabled={!current || planning || rights === undefined || refusal?.is === "Changed" || refusal?.is === "Gone"} busy={busy} begin={() => void begin()} />
          {refusal !== undefined && <NotDeleted realm={realm} object={plan.object} refusal={refusal} doubt={doubt} again={planAgain} />}
        </Section>
      )}
    </div>
  );
}

/** useChanged returns whether the object, its owners or its dependents have changed since the plan was made. */
function useChanged(realm: string, plan: Plan): boolean {
  const uid = plan.object.uid;
  const [changed, setChanged] = useState<Plan>();
  const latest = useRef(plan);
  latest.current = plan;
  useEffect(() => {
    if (uid === undefined) {
      return;
    }
    // News are also that the object is followed, and that the console has read it. What is a change comes after that, at a
    // revision later than that of the plan.
    let followed = false;
    let ended = false;
    const news = () => {
      client.family(realm, uid, 0, { background: true }).then(
        ({ loading, revision }) => {
          if (ended || loading) {
            return;
          }
          if (followed && revision > latest.current.revision) {
            setChanged(latest.current);
          }
          followed = true;
        },
        (error: unknown) => {
          if (!ended && followed && failureOf(error).reason === "NotFound") {
            setChanged(latest.current);
          }
        },
      );
    };
    const end = live.ask({ realm, view: "Object", uid }, { news: (says) => says.changed && news(), again: news });
    return () => {
      ended = true;
      end();
    };
  }, [realm, uid]);
  return changed === plan;
}
