/** Palette has the colours of the console's scheme, each as CSS writes it. */
export interface Palette {
  /** states are the colours of the states by their numbers, then that of groups and of what is hidden without a state of its own. */
  states: string[];
  text: string;
  dim: string;
  ground: string;
  accent: string;
  line: string;
  font: string;
}

const names = ["--good", "--info", "--wait", "--odd", "--odd", "--bad", "--dim", "--line-strong"];

export function paletteOf(element: Element): Palette {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return { states: names.map(colour), text: colour("--text"), dim: colour("--dim"), ground: colour("--surface"), accent: colour("--accent"), line: colour("--line-strong"), font: style.fontFamily };
}

/** rgb returns the parts of a colour "#rrggbb" or "#rgb", from 0 to 1. */
export function rgb(colour: string): [number, number, number] {
  const digits = colour.slice(1);
  const value = parseInt(digits.length === 3 ? digits.replace(/./g, "$&$&") : digits, 16);
  return [(value >> 16) / 255, ((value >> 8) & 255) / 255, (value & 255) / 255];
}
