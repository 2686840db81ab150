import type { ComponentChildren } from "preact";
import { go } from "../lib/go.ts";

/** Link leads to another view without loading the page again. One that is not focusable is part of a row that has the focus; current leads to the view that is shown. */
export function Link({ href, children, class: of, title, focusable = true, current = false }: { href: string; children: ComponentChildren; class?: string; title?: string; focusable?: boolean; current?: boolean }) {
  const follow = (event: MouseEvent) => {
    if (event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      go(href);
    }
  };
  return (
    <a href={href} onClick={follow} class={of} title={title} tabIndex={focusable ? undefined : -1} aria-current={current ? "page" : undefined}>
      {children}
    </a>
  );
}
