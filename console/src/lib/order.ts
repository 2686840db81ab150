/**
 * keepOrder returns the items in the order in which they were shown before, and new ones after them, so that rows do not change
 * places while a person reads them.
 */
export function keepOrder<T>(shown: readonly string[], items: readonly T[], key: (item: T) => string): T[] {
  const place = new Map(shown.map((k, i) => [k, i]));
  const placeOf = (item: T): number => place.get(key(item)) ?? shown.length;
  return [...items].sort((a, b) => placeOf(a) - placeOf(b)); // sort is stable
}
