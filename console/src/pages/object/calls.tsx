import type { ComponentChildren } from "preact";
import type { Agent, Finalizer } from "../../api/types.ts";
import { of } from "../../lib/numbers.ts";
import { visible } from "../../lib/text.ts";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { Ago, For } from "../../ui/parts.tsx";
import { StateMark } from "../../ui/state.tsx";
import { Part, type PartProps } from "./why.tsx";

/** What a call waits for, in words. */
const waits: Record<string, { icon: IconName; tone: string; says: string }> = {
  NoConsumer: { icon: "plug", tone: "bad", says: "waits for a consumer" },
  Silent: { icon: "error", tone: "bad", says: "the consumer does not answer" },
  Queued: { icon: "terminating", tone: "wait", says: "queued" },
  Working: { icon: "changed", tone: "info", says: "in progress" },
  Failed: { icon: "warning", tone: "bad", says: "failed, and is tried again" },
  Parked: { icon: "parked", tone: "bad", says: "parked: it is not tried again by itself" },
};

/** Calls are the finalizers and the agent of an object, with what their programs do. */
export function Calls({ e }: PartProps) {
  const finalizers = e.finalizers ?? [];
  return (
    <>
      {finalizers.length > 0 && (
        <Part title="Finalizers" wide>
          <ul class="calls">
            {finalizers.map((f) => (
              <li key={f.name}>
                <p class="call-name">
                  <strong>{visible(f.name)}</strong>
                  {f.builtIn && <> <span class="tag">built in</span></>}
                  {f.consumer !== undefined && f.consumer !== "" && <> <StateMark state={f.consumer} /></>}
                </p>
                <Call call={f}>
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
