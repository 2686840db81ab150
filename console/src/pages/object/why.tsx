import type { ComponentChildren } from "preact";
import type { Explanation, ObjectPage } from "../../api/types.ts";
import { typeWord } from "../../lib/eventwords.ts";
import { count, of } from "../../lib/numbers.ts";
import type { RightsRead } from "../../lib/rights.ts";
import { visible } from "../../lib/text.ts";
import { Icon } from "../../ui/icons.tsx";
import { Mentions, Named } from "../../ui/mentions.tsx";
import { Ago, For, In, ObjectLink, Section } from "../../ui/parts.tsx";
import { StateMark, lookOf } from "../../ui/state.tsx";
import { Calls } from "./calls.tsx";

export interface PartProps {
  realm: string;
  namespace: string | undefined;
  e: Explanation;
}

const titles: Record<string, string> = { Active: "Why it is kept", Terminating: "Why it is not deleted yet", Removed: "Why it was removed" };

/** Why says why an object is not deleted, or why it was: the sentence first, then each part that matters. */
export function Why({ realm, page, rights }: { realm: string; page: ObjectPage; rights: RightsRead }) {
  const e = page.explanation;
  const { icon, tone } = lookOf(page.state);
  const props = { realm, namespace: page.namespace, e };
  return (
    <Section id="why" title={titles[page.state] ?? "Why"} tone={page.state === "Terminating" ? "wait" : page.state === "Removed" ? "dim" : "good"}>
      <p class="summary">
        <Icon name={icon} tone={tone} />
        <span>
          <Mentions realm={realm} namespace={page.namespace} text={e.summary} self={page} />
        </span>
      </p>
      <div class="parts">
        <Causes {...props} />
        <Calls {...props} rights={rights} />
        <Blockers {...props} />
        <Pending {...props} />
        <Owners {...props} />
        <Protection {...props} />
        <Expiry {...props} />
        <Uses {...props} />
        <Conditions {...props} />
      </div>
    </Section>
  );
}

/** Part is a part of the explanation. With an id it can have the focus. */
export function Part({ title, children, wide = false, id }: { title: string; children: ComponentChildren; wide?: boolean; id?: string }) {
  return (
    <section class={`part${wide ? " wide-part" : ""}`} aria-label={title} {...(id === undefined ? {} : { id, tabIndex: -1 })}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Causes({ realm, namespace, e }: PartProps) {
  const because = e.because ?? [];
  const causes = e.causes ?? [];
  if (because.length === 0 && causes.length === 0) {
    return null;
  }
  return (
    <Part title="Causes">
      {because.length > 0 && (
        <ol class="chain">
          {because.map((text) => (
            <li key={text}>
              because <Mentions realm={realm} namespace={namespace} text={text} self={e} />
            </li>
          ))}
        </ol>
      )}
      {causes.length > 0 && (
        <details>
          <summary>{of(causes.length, "event")} of the log</summary>
          <ul class="plain">
            {causes.map((c) => (
              <li key={`${c.revision} ${c.type} ${c.name}`}>
                <span class="dim">{count(c.revision)}</span> <span title={visible(c.type)}>{visible(typeWord(c.type))}</span> <ObjectLink realm={realm} object={{ resource: c.resource, name: c.name, ...(c.namespace ? { namespace: c.namespace } : {}) }} within={namespace} />{" "}
                {c.reason === "Requested" && `by ${visible(c.actor)} (${visible(c.verb)}) `}
                <Ago time={c.time} />
              </li>
            ))}
          </ul>
        </details>
      )}
    </Part>
  );
}

function Blockers({ realm, namespace, e }: PartProps) {
  const d = e.dependents;
  const blockers = d?.blockers ?? [];
  const late = d?.late ?? [];
  const contents = e.contents ?? [];
  if (blockers.length === 0 && late.length === 0 && contents.length === 0) {
    return null;
  }
  return (
    <Part title="Blocked by" wide>
      {d !== undefined && d.all > 0 && (
        <p class="dim">
          {of(d.all, "dependent")}, {count(d.blocking)} blocking{d.unmarked !== undefined && `, ${count(d.unmarked)} still to be marked`}
        </p>
      )}
      <ul class="pairs">
        {blockers.map((b) => (
          <li key={b.uid}>
            <Icon name="blocked" tone="bad" />
            <Named realm={realm} namespace={namespace} text={b.object} uid={b.uid} />{" "}
            <span>{b.blocked !== undefined && <Mentions realm={realm} namespace={namespace} text={b.blocked} />}</span>
          </li>
        ))}
        {contents.map((c) => (
          <li key={c.uid}>
            <Icon name="blocked" tone="bad" />
            <span>
              <Named realm={realm} namespace={c.namespace ?? namespace} text={c.object} uid={c.uid} />{c.namespace !== undefined && <In namespace={c.namespace} />}
            </span>{" "}
            <span>{visible(c.blockedBy)}</span>
          </li>
        ))}
      </ul>
      {d?.truncated && <p class="dim">and more</p>}
      {late.map((l) => (
        <p key={l.actor}>
          {visible(l.actor)} created {of(l.count, "dependent")} after the object was marked, the last one <Named realm={realm} namespace={namespace} text={l.last} /> <Ago time={l.time} />.
        </p>
      ))}
    </Part>
  );
}

function Pending({ realm, namespace, e }: PartProps) {
  const pending = e.pending ?? [];
  if (pending.length === 0 && e.importEnds === undefined && e.generation === undefined) {
    return null;
  }
  return (
    <Part title="Pending work">
      <ul class="plain">
        {pending.map((p) => (
          <li key={`${p.object} ${p.what}`}>
            <Named realm={realm} namespace={namespace} text={p.object} self={e} /> {visible(p.what)}, pending for <For time={p.since} />
            {p.due !== undefined && (
              <>
                , due <Ago time={p.due} />
              </>
            )}
          </li>
        ))}
        {e.importEnds !== undefined && (
          <li>
            Built-in finalizers act after the import session, which ends <Ago time={e.importEnds} />.
          </li>
        )}
        {e.generation !== undefined && (
          <li>
            Its controller has observed generation {count(e.generation.observed)} of {count(e.generation.awaited)}.
          </li>
        )}
      </ul>
    </Part>
  );
}

function Owners({ realm, namespace, e }: PartProps) {
  const owners = e.owners ?? [];
  if (owners.length === 0) {
    return null;
  }
  return (
    <Part title="Owner references">
      <ul class="owners">
        {owners.map((o, i) => (
          <li key={`${i} ${o.uid}`} style={{ "--depth": o.depth }}>
            <Named realm={realm} namespace={namespace} text={o.owner} uid={o.uid} />
            {o.controller && <> <span class="tag">controller</span></>}
            {o.blocking && <> <span class="tag">blocking</span></>}
            {o.terminating && <> <StateMark state="Terminating" /></>}{" "}
            <span class="dim">
              <strong>{visible(o.class.toLowerCase())}</strong>
              {o.why !== "" && `: ${visible(o.why)}`}
              {o.unknownUntil !== undefined && (
                <>
                  {" "}
                  (kept; the owner grace ends <Ago time={o.unknownUntil} />)
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Protection({ realm, namespace, e }: PartProps) {
  const waits = e.waitsForProtected ?? [];
  if (e.protected === undefined && waits.length === 0) {
    return null;
  }
  return (
    <Part title="Protection">
      {e.protected !== undefined && (
        <p>
          <Icon name="protected" tone="info" /> {visible(e.protected)}
        </p>
      )}
      {waits.length > 0 && (
        <>
          <p>The deletion waits for protected objects:</p>
          <ul class="plain">
            {waits.map((text) => (
              <li key={text}>
                <Mentions realm={realm} namespace={namespace} text={text} />
              </li>
            ))}
          </ul>
        </>
      )}
    </Part>
  );
}

function Expiry({ e }: PartProps) {
  const notices = e.notices ?? [];
  const policies = e.expiryPolicies ?? [];
  if (e.expiresAt === undefined && notices.length === 0 && policies.length === 0) {
    return null;
  }
  return (
    <Part title="Expiry">
      <ul class="plain">
        {e.expiresAt !== undefined && (
          <li>
            Expires <Ago time={e.expiresAt} />, and is deleted then.
          </li>
        )}
        {notices.map((n) => (
          <li key={n.policy}>
            <strong>{visible(n.policy)}</strong> gave notice <Ago time={n.given} />, which ends <Ago time={n.ends} />.{" "}
            {n.due === undefined ? "The object stays until a program agrees." : <>It is deleted <Ago time={n.due} /> at the earliest.</>}
            {n.answeredBy !== undefined && (
              <>
                {" "}
                {visible(n.answeredBy)} {n.vetoUntil === undefined ? "agreed" : <>objected; the objection ends <Ago time={n.vetoUntil} /></>}
                {n.reason !== undefined && `: ${visible(n.reason)}`}
              </>
            )}
          </li>
        ))}
        {policies.map((p) => (
          <li key={p.policy}>
            <strong>{visible(p.policy)}</strong> {visible(p.says)}
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Uses({ realm, namespace, e }: PartProps) {
  const uses = e.uses ?? [];
  const usedBy = e.usedBy ?? [];
  const users = e.users ?? 0;
  if (uses.length === 0 && users === 0) {
    return null;
  }
  return (
    <Part title="Uses">
      <ul class="plain">
        {uses.map((u) => (
          <li key={`${u.namespace ?? ""} ${u.object}`}>
            uses <Named realm={realm} namespace={u.namespace ?? namespace} text={u.object} />{u.namespace !== undefined && <In namespace={u.namespace} />} <span class="dim">{visible(u.state)}</span>
          </li>
        ))}
        {usedBy.map((text) => (
          <li key={text}>
            used by <Mentions realm={realm} namespace={namespace} text={text} />
          </li>
        ))}
        {users > usedBy.length && <li class="dim">and {of(users - usedBy.length, "other user")}</li>}
      </ul>
    </Part>
  );
}

function Conditions({ e }: PartProps) {
  const conditions = e.conditions ?? [];
  if (conditions.length === 0) {
    return null;
  }
  return (
    <Part title="Conditions" wide>
      <ul class="plain">
        {conditions.map((c) => (
          <li key={c.type}>
            <strong>{visible(c.type)}</strong> {visible(c.status)}
            {c.reason !== "" && ` (${visible(c.reason)})`}
            {c.message !== "" && `: ${visible(c.message)}`} {c.since !== undefined && <span class="dim">(changed <Ago time={c.since} />)</span>}
          </li>
        ))}
      </ul>
    </Part>
  );
}
