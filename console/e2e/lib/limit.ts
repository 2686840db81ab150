/** limit is how long one wait may last, in milliseconds. It is far longer than any takes on a slow machine. */
export const limit = 30_000;

/** until waits until a function returns a value other than undefined and false, and returns it. */
export async function until<T>(what: string, probe: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  const end = Date.now() + limit;
  for (;;) {
    const value = await probe();
    if (value !== undefined && value !== false) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${limit / 1000} s, and it did not happen: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
