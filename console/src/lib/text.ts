// Characters that are not seen, or that change the order in which others are shown: controls, marks of direction, spaces without
// width, tags, and halves of surrogate pairs. A name with them could be taken for another.
const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

function escaped(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}}`;
}

/** visible returns a text of one line with the characters escaped that are not seen. */
export function visible(text: string): string {
  return text.replace(hidden, escaped);
}

/** visibleLines is visible for texts of several lines: ends of lines and tabs stay. */
export function visibleLines(text: string): string {
  return text.replace(hidden, (c) => (c === "\n" || c === "\t" ? c : escaped(c)));
}

/** capital returns a text that begins with a capital letter. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** sentence returns an error of the server, which begins with a small letter and has no full stop, as a sentence. */
export function sentence(text: string): string {
  const first = capital(text);
  return first === "" || /[.!?]$/.test(first) ? first : `${first}.`;
}
