/** A name of which fewer letters would be left has no label: it could be any. */
const leastLetters = 7;

/**
 * shortened returns a text with "…" in its middle if it does not fit: the ends of names differ most. Of less than seven letters, or of
 * about half a text, nothing is left.
 */
export function shortened(text: string, fits: (text: string) => boolean): string {
  if (fits(text)) {
    return text;
  }
  for (let letters = text.length - 2; letters >= leastLetters && letters >= 0.5 * text.length; letters--) {
    const end = Math.ceil(letters * 0.6);
    const short = `${text.slice(0, letters - end)}…${text.slice(-end)}`;
    if (fits(short)) {
      return short;
    }
  }
  return "";
}

/** Ruler knows how wide texts are. It measures each character of ASCII once: to measure each text would take longer than to write it. */
export class Ruler {
  private readonly fonts = new Map<string, Float32Array>();

  width(to: CanvasRenderingContext2D, font: string, text: string): number {
    let widths = this.fonts.get(font);
    if (widths === undefined) {
      to.font = font;
      widths = Float32Array.from({ length: 128 }, (_, code) => (code < 32 ? 0 : to.measureText(String.fromCharCode(code)).width));
      this.fonts.set(font, widths);
    }
    const wide = widths[64] ?? 0; // "@"
    let width = 0;
    for (let i = 0; i < text.length; i++) {
      width += widths[text.charCodeAt(i)] ?? wide;
    }
    return width;
  }
}
