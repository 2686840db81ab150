import { useEffect, useId, useRef } from "preact/hooks";
import type { Relative } from "../../api/types.ts";
import type { GraphChoice } from "../../lib/graphchoice.ts";
import { sentence, visible } from "../../lib/text.ts";
import { ObjectSearch } from "../../ui/objectsearch.tsx";

interface ToolbarProps {
  realm: string;
  choice: GraphChoice;
  /** namespaces are those to choose from. */
  namespaces: readonly string[];
  rootName: string;
  /** refused says why the labels were refused. */
  refused: string | undefined;
  /** select changes which objects are shown. */
  select: (part: { namespace?: string; labels?: string; root?: string }) => void;
  find: (object: Relative) => void;
}

/** Toolbar chooses which objects are shown, and finds one. */
export function Toolbar({ realm, choice, namespaces, rootName, refused, select, find }: ToolbarProps) {
  const id = useId();
  const namespace = useRef<HTMLInputElement>(null);
  const labels = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (namespace.current !== null && labels.current !== null) {
      namespace.current.value = choice.namespace ?? "";
      labels.current.value = choice.labels ?? "";
    }
  }, [choice.namespace, choice.labels]);
  const root = choice.root === undefined ? {} : { root: choice.root };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    select({ namespace: namespace.current?.value.trim() ?? "", labels: labels.current?.value.trim() ?? "", ...root });
  };
  return (
    <div class="graph-tools">
      <form onSubmit={submit}>
        <label class="field">
          <span>Namespace</span>
          <input ref={namespace} name="namespace" list={`${id}-namespaces`} placeholder="All; - for none" autocomplete="off" autocapitalize="none" spellcheck={false} />
        </label>
        <datalist id={`${id}-namespaces`}>
          <option value="-" label="(without a namespace)" />
          {namespaces.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <label class="field">
          <span>Labels</span>
          <input
            ref={labels}
            name="labels"
            placeholder="key=value,…"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            aria-invalid={refused !== undefined}
            aria-describedby={refused === undefined ? undefined : `${id}-refused`}
          />
        </label>
        {refused !== undefined && (
          <p id={`${id}-refused`} class="field-refused">
            {visible(sentence(refused))}
          </p>
        )}
        <button type="submit">Apply</button>
        {(choice.namespace !== undefined || choice.labels !== undefined) && (
          <button
            type="button"
            class="quiet"
            title="Show all namespaces and labels"
            onClick={() => {
              // The button vanishes, and must not take the focus with it.
              namespace.current?.focus();
              select(root);
            }}
          >
            Clear
          </button>
        )}
      </form>
      <ObjectSearch realm={realm} label="Find in the graph" chosen={find} />
      {choice.root !== undefined && (
        <span class="chip">
          <span>
            Only <strong>{visible(rootName)}</strong> and what depends on it
          </span>
          <button
            type="button"
            class="quiet small"
            aria-label="Show all objects again"
            onClick={() => {
              namespace.current?.focus();
              select({ ...(choice.namespace === undefined ? {} : { namespace: choice.namespace }), ...(choice.labels === undefined ? {} : { labels: choice.labels }) });
            }}
          >
            ×
          </button>
        </span>
      )}
    </div>
  );
}
