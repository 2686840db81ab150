import { cleanup, configure } from "@testing-library/preact";
import { afterEach, vi } from "vitest";

// Tests wait for what they expect. Only what never happens reaches this limit, also on a slow machine.
configure({
  asyncUtilTimeout: 30_000,
  getElementError: (message) => new Error(`${message ?? ""}\n${document.body.textContent}`),
});

// happy-dom does not know that elements are inline by default, which decides about spaces in accessible names.
const computed = window.getComputedStyle.bind(window);
window.getComputedStyle = (element, pseudo) => {
  const style = computed(element, pseudo);
  if (style.display === "") {
    const get = style.getPropertyValue.bind(style);
    style.getPropertyValue = (name) => (name === "display" ? "inline" : get(name));
  }
  return style;
};

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});
