// Where the time of a search goes, and how many bytes it moves, seen from the service that the
// client calls.

import { Grouped, groupsOf, type Service, withMethods } from '@hers/service';

export interface Phases {
  /**
   * Milliseconds until the queries were encrypted and sent, until the last response arrived, and
   * until the answer was ready.
   */
  readonly encrypt: number;
  readonly scan: number;
  readonly decrypt: number;
  readonly total: number;
  readonly queryBytes: number;
  readonly responseBytes: number;
}

/** A service that times searches; everything else passes through. */
export class TimedService {
  readonly service: Service;
  #sent = 0;
  #ended = 0;
  #queryBytes = 0;
  #responseBytes = 0;

  constructor(inner: Service) {
    // Many at a time where they come so: a promise for each would be part of what is timed.
    const search: Service['search'] = (...call) => new Grouped(() => this.#search(inner, ...call));
    this.service = withMethods(inner, { search });
  }

  async *#search(
    inner: Service,
    ...[name, request, options]: Parameters<Service['search']>
  ): AsyncIterable<readonly Uint8Array[]> {
    this.#sent = performance.now();
    this.#queryBytes = request.queries.reduce((sum, query) => sum + query.length, 0);
    this.#responseBytes = 0;
    for await (const responses of groupsOf(inner.search(name, request, options))) {
      for (const { length } of responses) this.#responseBytes += length;
      yield responses;
    }
    this.#ended = performance.now();
  }

  /** Times one search through the client. */
  async time<T>(search: () => Promise<T>): Promise<{ result: T; phases: Phases }> {
    const start = performance.now();
    const result = await search();
    const end = performance.now();
    const phases = {
      encrypt: this.#sent - start,
      scan: this.#ended - this.#sent,
      decrypt: end - this.#ended,
      total: end - start,
      queryBytes: this.#queryBytes,
      responseBytes: this.#responseBytes,
    };
    return { result, phases };
  }
}

/** The p-quantile of some numbers. */
export function quantile(values: readonly number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))];
}
