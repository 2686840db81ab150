import { navigate } from "wouter-preact/use-browser-location";

let fresh = false;

/** go leads to another view. Its top is shown; after "back" the browser restores what was shown. */
export function go(href: string): void {
  fresh = true;
  navigate(href);
}

/** choose changes the URL of the view that is shown, and "back" leads to the URL before. */
export function choose(href: string): void {
  navigate(href);
}

/** replace changes the URL of the view that is shown. */
export function replace(href: string): void {
  navigate(href, { replace: true });
}

/** goInstead leads to another view, which takes the place of the one that is shown. state is kept with it in the history. */
export function goInstead(href: string, state?: unknown): void {
  fresh = true;
  navigate(href, { replace: true, state });
}

/** arrived returns whether the view was reached by go, once. */
export function arrived(): boolean {
  const is = fresh;
  fresh = false;
  return is;
}
