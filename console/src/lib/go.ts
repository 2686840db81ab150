import { navigate } from "wouter-preact/use-browser-location";

let fresh = false;

/** go leads to another view. Its top is shown; after "back" the browser restores what was shown. */
export function go(href: string): void {
  fresh = true;
  navigate(href);
}

/** replace changes the URL of the view that is shown. */
export function replace(href: string): void {
  navigate(href, { replace: true });
}

/** arrived returns whether the view was reached by go, once. */
export function arrived(): boolean {
  const is = fresh;
  fresh = false;
  return is;
}
