import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Agent, Finalizer } from "../../api/types.ts";
import { of } from "../../lib/numbers.ts";
import { parkedPath } from "../../lib/paths.ts";
import type { RightsRead } from "../../lib/rights.ts";
import { sentence, visible } from "../../lib/text.ts";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { Link } from "../../ui/link.tsx";
import { Ago, For, Unread } from "../../ui/parts.tsx";
import { StateMark } from "../../ui/state.tsx";
import { RemoveByHand } from "./remove.tsx";
import { Part, type PartProps } from "./why.tsx";

/** What a call waits for, in words. */
const waits: Record<string, { icon: IconName; tone: string; says: string }> = {
  NoConsumer: { icon: "plug", tone: "bad", says: "waits for a consumer" },
  Silent: { icon: "error", tone: "bad", says: "the consumer does not answer" },
  Queued: { icon: "terminating", tone: "wait", says: "queued" },
  Working: { icon: "changed", tone: "info", says: "in progress" },
  Failed: { icon: "warning", tone: "bad", says: "failed, and is tried again" },
  Parked: { icon: "parked", tone: "bad", says: "parked after it kept failing" },
};

/** Calls are the finalizers and the agent of an object, with what their programs do. */
export function Calls({ realm, e, rights: { rights, failure, again } }: PartProps & { rights: RightsRead }) {
  const finalizers = e.finalizers ?? [];
  const [removing, setRemoving] = useState<string>();
  const [says, setSays] = useState<{ done: string; warnings: string[] }>();
  // The button that was pressed goes with the finalizer.
  const line = useRef<HTMLParagraphElement>(null);
  useEffect(() => line.current?.focus(), [says]);
  return (
    <>
      <div role="status">
        {says !== undefined && (
          <p class="done-line" ref={line} tabIndex={-1}>
            <Icon name="check" tone="good" /> {visible(sentence(says.done))} {says.warnings.map((w) => visible(sentence(w))).join(" ")}
          </p>
        )}
      </div>
      {removing !== undefined && (
        <RemoveByHand
          realm={realm}
          object={{ resource: e.resource, name: e.name, uid: e.uid, ...(e.namespace ? { namespace: e.namespace } : {}) }}
          finalizer={removing}
          force={rights?.forceFinalizers?.includes(removing) === true}
          close={() => setRemoving(undefined)}
          done={(done) => {
            setSays({ done: done.says, warnings: done.warnings ?? [] });
            setRemoving(undefined);
          }}
        />
      )}
      {finalizers.length > 0 && (
        <Part title="Finalizers" id="finalizers" wide>
          {rights === undefined && failure !== undefined && e.state === "Terminating" && finalizers.some((f) => !f.builtIn) && <Unread what="you may remove them by hand" failure={failure} again={again} />}
          <ul class="calls">
            {finalizers.map((f) => (
              <li key={f.name}>
                <p class="call-name">
                  <strong>{visible(f.name)}</strong>
                  {f.builtIn && <> <span class="tag">built in</span></>}
                  {f.consumer !== undefined && f.consumer !== "" && <> <StateMark state={f.consumer} /></>}
                  {e.state === "Terminating" && !f.builtIn && rights?.removeFinalizers?.includes(f.name) && (
                    <button type="button" class="small" aria-label={`Remove by hand… ${visible(f.name)}`} onClick={() => setRemoving(f.name)}>
                      Remove by hand…
                    </button>
                  )}
                </p>
                <Call call={f}>
                  {f.state === "Parked" && rights?.retryParked && (
                    <>
                      <dt>Retry</dt>
                      <dd>
                        <Link href={parkedPath(realm)}>Retry it in Parked work</Link>
                      </dd>
                    </>
                  )}
                  {f.since !== undefined && (
                    <>
                      <dt>Blocks for</dt>
                      <dd>
                        <For time={f.since} />
                      </dd>
                    </>
                  )}
                </Call>
              </li>
            ))}
          </ul>
        </Part>
      )}
      {e.agent !== undefined && (
        <Part title="Agent">
          <p class="call-name">{e.agent.consumer !== undefined && e.agent.consumer !== "" && <StateMark state={e.agent.consumer} />}</p>
          <Call call={e.agent}>
            <dt>Grace period ends</dt>
            <dd>
              <Ago time={e.agent.until} />
            </dd>
          </Call>
        </Part>
      )}
    </>
  );
}

function Call({ call, children }: { call: Finalizer | Agent; children: ComponentChildren }) {
  const state = call.state === undefined ? undefined : (waits[call.state] ?? { icon: "unknown" as const, tone: "dim", says: call.state });
  return (
    <dl class="facts">
      {state !== undefined && (
        <>
          <dt>Call</dt>
          <dd class={`tone-${state.tone}`}>
            <Icon name={state.icon} tone={state.tone} /> {visible(state.says)}
          </dd>
        </>
      )}
      {children}
      {call.process !== undefined && (
        <>
          <dt>Process</dt>
          <dd>{visible(call.process)}</dd>
        </>
      )}
      {call.failures !== undefined && (
        <>
          <dt>Failed</dt>
          <dd>{of(call.failures, "attempt")}</dd>
        </>
      )}
      {call.lastError !== undefined && (
        <>
          <dt>Last error</dt>
          <dd class="error-text">{visible(call.lastError)}</dd>
        </>
      )}
      {call.nextRetry !== undefined && (
        <>
          <dt>Next attempt</dt>
          <dd>
            <Ago time={call.nextRetry} />
          </dd>
        </>
      )}
    </dl>
  );
}
