import type { ObjectPage } from "../../api/types.ts";
import { visibleLines } from "../../lib/text.ts";
import { Copy, Empty, Notice, Section } from "../../ui/parts.tsx";

interface Props {
  page: ObjectPage;
  /** revealed: the manifest was read with the values of a Secret. wanted: they are to be shown. */
  revealed: boolean;
  wanted: boolean;
  reveal: (is: boolean) => void;
}

/** Manifest is the object as YAML. Values of Secrets are shown when a person asks for them, and are forgotten with the page. */
export function Manifest({ page, revealed, wanted, reveal }: Props) {
  if (revealed && !wanted) {
    return (
      <Section id="manifest" title="Manifest">
        <Empty>The values are hidden. The manifest without them is not read yet.</Empty>
      </Section>
    );
  }
  const text = page.manifest ?? "";
  return (
    <Section id="manifest" title="Manifest" aside={<Copy text={text} what="the manifest" />}>
      {page.hidden && !revealed && (
        <Notice tone="info">
          <p>The values of this Secret are left out.</p>
          <button type="button" onClick={() => reveal(true)}>
            Show values
          </button>
        </Notice>
      )}
      {revealed && !page.hidden && (
        <Notice tone="wait">
          <p>The values of this Secret are shown.</p>
          <button type="button" onClick={() => reveal(false)}>
            Hide values
          </button>
        </Notice>
      )}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- scrolled by keys */}
      <pre class="text yaml" tabIndex={0} aria-label="Manifest">
        {visibleLines(text)}
      </pre>
    </Section>
  );
}
