// The numbers of a server (Prometheus text format 0.0.4), and what they say between two readings.

export interface Reading {
  /** Seconds, by the clock of this page. */
  readonly at: number;
  /** Each number by its name and labels, as they are written. */
  readonly values: ReadonlyMap<string, number>;
}

const LINE = /^([a-zA-Z_:][\w:]*(?:\{[^}]*\})?) (\S+)$/;

export function readingOf(text: string, at: number): Reading {
  const values = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, name, value] = LINE.exec(line) ?? [];
    if (name !== undefined) values.set(name, Number(value));
  }
  return { at, values };
}

export const numberIn = ({ values }: Reading, name: string): number => values.get(name) ?? 0;

/** How much a counter grew. A server that was started again counts from zero. */
export function growth(before: Reading, after: Reading, name: string): number {
  const [from, to] = [numberIn(before, name), numberIn(after, name)];
  return to >= from ? to - from : to;
}

interface Bucket {
  /** Seconds, at most. */
  readonly bound: number;
  /** As many took so long or less. */
  readonly count: number;
}

/** The durations of an operation between two readings, as a histogram. */
function bucketsOf(before: Reading, after: Reading, operation: string): Bucket[] {
  const name = new RegExp(`^hers_request_seconds_bucket\\{operation="${operation}",le="([^"]+)"\\}$`);
  const found: Bucket[] = [];
  for (const key of after.values.keys()) {
    const [, bound] = name.exec(key) ?? [];
    if (bound !== undefined)
      found.push({
        bound: bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound),
        count: growth(before, after, key),
      });
  }
  return found.sort((a, b) => a.bound - b.bound);
}

/**
 * The duration, in seconds, that this share of the requests did not exceed, as if durations were
 * spread evenly within each bucket. Undefined where there were none.
 */
export function quantile(before: Reading, after: Reading, operation: string, share: number): number | undefined {
  const buckets = bucketsOf(before, after, operation);
  const total = buckets.at(-1)?.count ?? 0;
  if (total === 0) return undefined;
  const wanted = share * total;
  let [lower, below] = [0, 0];
  for (const { bound, count } of buckets) {
    if (count >= wanted) {
      if (!Number.isFinite(bound)) return lower;
      return count === below ? bound : lower + ((bound - lower) * (wanted - below)) / (count - below);
    }
    [lower, below] = [bound, count];
  }
  return lower;
}
