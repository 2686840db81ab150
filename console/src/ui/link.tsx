import type { ComponentChildren } from "preact";
import { go } from "../lib/go.ts";

/** Link leads to another view without loading the page again. One that is not focusable is part of a row that has the focus. */
export function Link({ href, children, class: of, title, focusable = true }: { href: string; children: ComponentChildren; class?: string; title?: string; focusable?: boolean }) {
  const follow = (event: MouseEvent) => {
    if (event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      go(href);
    }
  };
  return (
    <a href={href} onClick={follow} class={of} title={title} tabIndex={focusable ? undefined : -1}>
      {children}
    </a>
  );
}
