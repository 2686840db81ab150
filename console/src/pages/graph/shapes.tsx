import type { ComponentChildren } from "preact";
import { kinds, type Look } from "./look.ts";

const tones = ["good", "info", "wait", "odd", "odd", "bad"];

/** Shapes of the states by their numbers, as the canvas draws them. All are 16 by 16. */
const shapes: ComponentChildren[] = [
  <ellipse key="0" cx="8" cy="8" rx="5" ry="5" class="fill" />,
  <rect key="1" x="3.500" y="3.500" width="9" height="9" class="fill" />,
  <path key="2" d="M2.500 4h11L8 13.500z" class="fill" />,
  <ellipse key="3" cx="8" cy="8" rx="4.500" ry="4.500" />,
  <path key="4" d="M8 2 14 8 8 14 2 8z" />,
  <path key="5" fill-rule="evenodd" d="M8 .8 15.200 8 8 15.200.800 8zM4.800 7v2h6.400V7z" class="fill solid" />,
];

/** Shape is the shape of a state, or of a group; a word next to it says the same. */
export function Shape({ state, kind = kinds.object }: Partial<Look> & { state: number }) {
  const tone = kind === kinds.object ? (tones[state] ?? "dim") : "dim";
  return (
    <svg class={`icon shape tone-${tone}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      {kind === kinds.object ? shapes[state] : kind === kinds.rest ? <path d="M3.500 8h.1M8 8h.1M12.500 8h.1" stroke-width="3" /> : <rect x="3.500" y="3.500" width="9" height="9" />}
    </svg>
  );
}
