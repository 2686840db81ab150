/** Sample is a rate at a time, in ms. */
interface Sample {
  at: number;
  rate: number;
}

/** The rate must have been about the same for so long, in ms. */
const span = 10_000;

/** Rates differ by at most this part of their mean. */
const tolerance = 0.4;

/** Pace knows the latest rates of a deletion. */
export class Pace {
  private samples: Sample[] = [];

  add(at: number, rate: number): void {
    this.samples.push({ at, rate });
    // The newest sample that is older than the span stays: it shows that all of the span is known.
    const older = this.samples.filter((s) => s.at <= at - span).length;
    this.samples.splice(0, Math.max(0, older - 1));
  }

  /** left estimates the time until nothing remains, in ms; undefined unless the rate is steady. */
  left(remaining: number): number | undefined {
    const rates = this.samples.map((s) => s.rate);
    const first = this.samples[0];
    const last = this.samples.at(-1);
    if (first === undefined || last === undefined || last.at - first.at < span) {
      return undefined;
    }
    const mean = rates.reduce((a, b) => a + b, 0) / rates.length;
    const steady = mean > 0 && Math.max(...rates) - Math.min(...rates) <= tolerance * mean;
    return steady ? (remaining / last.rate) * 1000 : undefined;
  }
}
