// How much of everything a server takes on. The defaults fit a machine of two cores and two gigabytes.

import { HersError } from '@hers/service';

export interface Limits {
  /** The largest body that is held in memory: a block, a search, a commit. */
  readonly bodyBytes: number;
  /** Scans at a time, and searches that may wait for one. */
  readonly scans: number;
  readonly queue: number;
  /** Requests of one token at a time; of one address where there are no tokens. */
  readonly requests: number;
  /** Seconds for a request from its head to the end of its answer; snapshots and purges take as long as they take. */
  readonly requestSeconds: number;
  /** Seconds for the head of a request, seconds without a byte in the middle of a body or an answer, seconds between requests. */
  readonly headerSeconds: number;
  readonly stallSeconds: number;
  readonly idleSeconds: number;
  readonly connections: number;
}

export const LIMITS: Limits = {
  bodyBytes: 72 * 2 ** 20,
  scans: 2,
  queue: 64,
  requests: 64,
  requestSeconds: 120,
  headerSeconds: 10,
  stallSeconds: 30,
  idleSeconds: 60,
  connections: 4096,
};

export function checkLimits(given: Partial<Limits>): Limits {
  const limits = { ...LIMITS, ...given };
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(LIMITS, name)) throw new HersError('INVALID_ARGUMENT', `a server has no limit ${name}`);
    const least = name === 'queue' ? 0 : name.endsWith('Seconds') ? 0.001 : 1;
    if (!(Number.isFinite(value) && value >= least) || (!name.endsWith('Seconds') && !Number.isInteger(value)))
      throw new HersError('INVALID_ARGUMENT', `the limit ${name} is a number from ${least}`);
  }
  return limits;
}
