/** Throttle calls a function at once, and then at most once in each interval while it is asked for. */
export class Throttle {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private again = false;

  constructor(
    private readonly interval: number,
    private readonly run: () => void,
  ) {}

  ask(): void {
    if (this.timer !== undefined) {
      this.again = true;
      return;
    }
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.again) {
        this.again = false;
        this.ask();
      }
    }, this.interval);
    this.run();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.again = false;
  }
}
