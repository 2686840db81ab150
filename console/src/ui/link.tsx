import type { ComponentChildren } from "preact";
import { go } from "../lib/go.ts";

/** Link leads to another view without loading the page again. One that is not focusable is part of a row that has the focus; current leads to the view that is shown. lead does what a click does instead. */
export function Link({ href, children, class: of, title, focusable = true, current = false, lead = () => go(href) }: { href: string; children: ComponentChildren; class?: string; title?: string; focusable?: boolean; current?: boolean; lead?: () => void }) {
  const follow = (event: MouseEvent) => {
    if (event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey) {
      event.preventDefault();
      lead();
    }
  };
  return (
    <a href={href} onClick={follow} class={of} title={title} tabIndex={focusable ? undefined : -1} aria-current={current ? "page" : undefined}>
      {children}
    </a>
  );
}
