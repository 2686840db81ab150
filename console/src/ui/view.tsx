import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { product } from "../app.ts";
import { arrived } from "../lib/go.ts";

/** first is true until a view was shown: the browser places the focus when it loads a page. */
let first = true;

/**
 * View is the main part of a page. It names the window, and moves the focus to its heading after a navigation: key identifies what
 * the view shows. actions stand at the right of the heading.
 */
export function View({ title, heading, actions, children, of, wide }: { title: string; heading?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; of: string; wide?: boolean }) {
  const h1 = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = title === "" ? product : `${title} · ${product}`;
  }, [title]);
  useEffect(() => {
    if (arrived()) {
      window.scrollTo(0, 0);
    }
    if (!first) {
      h1.current?.focus({ preventScroll: true });
    }
    first = false;
  }, [of]);
  return (
    <main id="main" class={wide ? "wide" : "narrow"}>
      <div class="title-row">
        <h1 ref={h1} tabIndex={-1}>
          {heading ?? title}
        </h1>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </div>
      {children}
    </main>
  );
}
