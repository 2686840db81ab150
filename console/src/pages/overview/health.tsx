import type { Overview } from "../../api/types.ts";
import { bytes, count, of } from "../../lib/numbers.ts";
import { nameOf } from "../../lib/paths.ts";
import { visible } from "../../lib/text.ts";
import { Icon } from "../../ui/icons.tsx";
import { Ago, Empty, Notice, ObjectLink, Section } from "../../ui/parts.tsx";
import { StateMark } from "../../ui/state.tsx";
import { Table } from "../../ui/table.tsx";
import { MissingIn } from "./missing.tsx";

/** Finalizers are the external finalizers of objects, with the programs that run them. */
export function Finalizers({ overview }: { overview: Overview }) {
  const finalizers = overview.finalizers ?? [];
  return (
    <Section id="finalizers" title="Finalizers" aside={count(finalizers.length)}>
      {finalizers.length === 0 ? (
        <Empty>No object has an external finalizer.</Empty>
      ) : (
        <Table
          label="Finalizers"
          rows={finalizers}
          rowKey={(f) => f.name}
          columns={[
            { head: "Finalizer", width: "38%", cell: (f) => visible(f.name), main: true },
            { head: "Consumer", width: "20%", cell: (f) => <StateMark state={f.consumer} /> },
            { head: "Objects", width: "13%", cell: (f) => count(f.objects), numeric: true },
            { head: "Terminating", width: "15%", cell: (f) => count(f.terminating), numeric: true },
            { head: "Oldest", width: "16%", cell: (f) => (f.oldest === undefined ? <span class="dim">none</span> : <Ago time={f.oldest} />) },
          ]}
          wideNotes
          note={(f) => (f.says === "" ? undefined : visible(f.says))}
        />
      )}
    </Section>
  );
}

/** Warnings are the newest. */
export function Warnings({ realm, overview }: { realm: string; overview: Overview }) {
  const warnings = overview.warnings ?? [];
  const others = overview.warningsTotal - warnings.length;
  return (
    <Section id="warnings" title="Warnings" aside={count(overview.warningsTotal)}>
      <MissingIn missing={overview.missing} parts={["warnings"]} />
      {warnings.length === 0 ? (
        <Empty>There are no warnings.</Empty>
      ) : (
        <ul class="warnings">
          {warnings.map((w) => (
            <li key={`${w.uid ?? ""} ${w.namespace ?? ""} ${nameOf(w)} ${w.reason}`}>
              <Icon name="warning" tone="wait" />
              <div>
                <p>
                  <strong>{visible(w.reason)}</strong> {w.name === "" ? <span class="dim">the realm</span> : <ObjectLink realm={realm} object={w} />}
                </p>
                <p>{visible(w.message)}</p>
              </div>
              <Ago time={w.time} />
            </li>
          ))}
        </ul>
      )}
      {others > 0 && <p class="dim">and {of(others, "older warning")}</p>}
    </Section>
  );
}

/** Services are those whose addresses the console was given, and the graph service that writes the realm. */
export function Services({ overview }: { overview: Overview }) {
  const services = overview.services ?? [];
  return (
    <Section id="services" title="Services" aside={services.length === 0 ? undefined : count(services.length)}>
      <p class="writer">
        <span class="dim">Writer:</span> {overview.writer ? <strong>{visible(overview.writer)}</strong> : <span class="dim">none or not known</span>}
      </p>
      {services.length === 0 ? (
        <Empty>This console was given no addresses of services, and does not know their health.</Empty>
      ) : (
        <ul class="services">
          {services.map((s) => (
            <li key={s.address}>
              <StateMark state={s.ready ? "Ready" : "Waiting"} />
              <div>
                <p>
                  <strong>{visible(s.name)}</strong> <span class="dim address">{visible(s.address)}</span>
                </p>
                {s.waiting !== undefined && <p>{visible(s.waiting)}</p>}
              </div>
              {s.revision !== undefined && (
                <span class="lag">
                  <span>revision {count(s.revision)}</span>
                  <span class="dim">{s.lag === undefined ? "up to date" : `${of(s.lag, "revision")} behind`}</span>
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

/** StorageUse is what the realm takes on disks. */
export function StorageUse({ overview }: { overview: Overview }) {
  const s = overview.storage;
  return (
    <Section id="storage" title="Storage">
      <MissingIn missing={overview.missing} parts={["storage"]} />
      {s === undefined ? (
        <Empty>No graph service reports what the realm takes on disks.</Empty>
      ) : (
        <>
          <dl class="facts">
            <dt>Log</dt>
            <dd>{bytes(s.logBytes)}</dd>
            <dt>State</dt>
            <dd>{bytes(s.stateBytes)}</dd>
            <dt>Archive</dt>
            <dd>{s.archived ? bytes(s.archiveBytes) : <span class="dim">none</span>}</dd>
            <dt>Disk</dt>
            <dd>
              {bytes(s.diskFreeBytes)} free of {bytes(s.diskBytes)}
              {s.diskBytes > 0 && <meter min={0} max={s.diskBytes} high={s.diskBytes * 0.85} value={s.diskBytes - s.diskFreeBytes} aria-label="Disk in use" />}
            </dd>
          </dl>
          <div class="storage-notices">
          {s.archiveError !== undefined && (
            <Notice tone="bad">
              <p>
                <strong>The archive fails:</strong> {visible(s.archiveError)}
              </p>
            </Notice>
          )}
          {s.cutWaits !== undefined && (
            <Notice tone="wait">
              <p>
                <strong>The log is not cut:</strong> {visible(s.cutWaits)}
              </p>
            </Notice>
          )}
          </div>
        </>
      )}
    </Section>
  );
}
