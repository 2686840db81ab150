const format = new Intl.NumberFormat("en");

/** count returns a number with separators of thousands. */
export function count(n: number): string {
  return format.format(n);
}

/** of returns a count with its noun, such as "1 object" or "1,200 objects". */
export function of(n: number, one: string, many = one + "s"): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** bytes returns a size in binary units, with three digits. */
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  const digits = unit === 0 || n >= 100 ? 0 : n >= 10 ? 1 : 2;
  return `${n.toFixed(digits)} ${units[unit] ?? ""}`;
}

/** rate returns a number in a second. */
export function rate(n: number): string {
  return `${n > 0 && n < 10 ? n.toFixed(1) : count(Math.round(n))}/s`;
}
