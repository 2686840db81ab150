interface Task {
  what: string;
  run: () => Promise<void>;
}

/** Single runs one task at a time. */
export class Single {
  private running: Task | undefined;
  private next: Task | undefined;

  /** run runs a task after the one that runs, unless that is the same one. The last of those that wait is the one that runs then. */
  run(what: string, run: () => Promise<void>): void {
    if (this.running?.what === what) {
      return;
    }
    if (this.running !== undefined) {
      this.next = { what, run };
      return;
    }
    this.running = { what, run };
    void run().finally(() => {
      const { next } = this;
      this.running = this.next = undefined;
      if (next !== undefined) {
        this.run(next.what, next.run);
      }
    });
  }
}
