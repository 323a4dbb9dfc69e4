// How much of everything a server takes on. The defaults fit a machine of two cores and two gigabytes.

import { HersError } from '@hers/service';

interface Limit {
  readonly usual: number;
  readonly least: number;
  readonly about: string;
  /** Seconds may have a fraction; counts and bytes may not. */
  readonly fraction?: true;
}

const MIB = 2 ** 20;

export const LIMITS = {
  bodyBytes: {
    usual: 72 * MIB,
    least: 1024,
    about: 'bytes of a body: a block, a search, a commit; snapshots and records are not limited',
  },
  memoryBytes: {
    usual: 256 * MIB,
    least: 1024,
    about: 'bytes of memory for all requests together; two thirds of it held at a time, and half of that for one token',
  },
  scans: { usual: 4, least: 1, about: 'scans at a time; half of them for one token' },
  queue: { usual: 128, least: 0, about: 'searches that may wait for a scan; half of them of one token' },
  requests: { usual: 64, least: 1, about: 'requests of one token at a time; of one address where there are no tokens' },
  requestsPerSecond: { usual: 500, least: 1, about: 'requests of one token in a second' },
  connections: { usual: 4096, least: 1, about: 'connections at a time; half of them from one address' },
  requestSeconds: {
    usual: 120,
    least: 0.001,
    about: 'seconds for a request; snapshots, staged records and purges take as long as they take',
    fraction: true,
  },
  headerSeconds: { usual: 10, least: 0.001, about: 'seconds for the head of a request', fraction: true },
  stallSeconds: {
    usual: 30,
    least: 0.001,
    about: 'seconds without a byte in the middle of a body or an answer',
    fraction: true,
  },
  idleSeconds: {
    usual: 60,
    least: 0.001,
    about: 'seconds that a connection may wait for its next request',
    fraction: true,
  },
  graceSeconds: {
    usual: 30,
    least: 0,
    about: 'seconds that requests under way get when the server goes down',
    fraction: true,
  },
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof LIMITS;
export type Limits = { readonly [name in LimitName]: number };

export function checkLimits(given: { readonly [name in LimitName]?: number | undefined }): Limits {
  for (const name of Object.keys(given))
    if (!Object.hasOwn(LIMITS, name)) throw new HersError('INVALID_ARGUMENT', `a server has no limit ${name}`);
  const checked = Object.entries(LIMITS).map(([name, limit]: [string, Limit]) => {
    const value = given[name as LimitName] ?? limit.usual;
    if (!(Number.isFinite(value) && value >= limit.least && (limit.fraction || Number.isSafeInteger(value))))
      throw new HersError('INVALID_ARGUMENT', `the limit ${name} is a number from ${limit.least}, not ${value}`);
    return [name, value];
  });
  return Object.fromEntries(checked);
}
