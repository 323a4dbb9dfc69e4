// How much of everything a server takes on. The defaults fit a machine of two cores and two
// gigabytes.

import { HersError } from '@hers/service';

/** Half of what there is, but something. */
export const half = (count: number): number => (count === 0 ? 0 : Math.max(1, Math.floor(count / 2)));

interface Limit {
  readonly default: number;
  readonly minimum: number;
  readonly description: string;
  /** Seconds may have a fraction; counts and bytes may not. */
  readonly fraction?: true;
}

const MIB = 2 ** 20;

/** The limits of a server: their defaults, the least they can be, and what they limit. */
export const LIMITS = {
  bodyBytes: {
    default: 72 * MIB,
    minimum: 1024,
    description: 'bytes of a body: a block, a search, a commit; snapshots and records are not limited',
  },
  memoryBytes: {
    default: 256 * MIB,
    minimum: 1024,
    description:
      'bytes of memory for all requests together; three fifths of it held at a time, and half of that for one token',
  },
  scans: { default: 4, minimum: 1, description: 'scans at a time; half of them for one token' },
  queue: { default: 128, minimum: 0, description: 'searches that may wait for a scan; half of them of one token' },
  requests: {
    default: 64,
    minimum: 1,
    description: 'requests of one token at a time; of one address where there are no tokens',
  },
  requestsPerSecond: { default: 500, minimum: 1, description: 'requests of one token in a second' },
  connections: { default: 4096, minimum: 1, description: 'connections at a time; half of them from one address' },
  requestSeconds: {
    default: 120,
    minimum: 0.001,
    description: 'seconds for a request; snapshots, staged records and purges take as long as they take',
    fraction: true,
  },
  headerSeconds: { default: 10, minimum: 0.001, description: 'seconds for the head of a request', fraction: true },
  stallSeconds: {
    default: 30,
    minimum: 0.001,
    description: 'seconds without a byte in the middle of a body or an answer',
    fraction: true,
  },
  idleSeconds: {
    default: 60,
    minimum: 0.001,
    description: 'seconds that a connection may wait for its next request',
    fraction: true,
  },
  graceSeconds: {
    default: 30,
    minimum: 0,
    description: 'seconds that requests under way get when the server goes down',
    fraction: true,
  },
} as const satisfies Record<string, Limit>;

/** A limit of a server. */
export type LimitName = keyof typeof LIMITS;
/** A number for every limit. */
export type Limits = { readonly [name in LimitName]: number };

export function checkLimits(given: { readonly [name in LimitName]?: number | undefined }): Limits {
  for (const name of Object.keys(given))
    if (!Object.hasOwn(LIMITS, name)) throw new HersError('INVALID_ARGUMENT', `a server has no limit ${name}`);
  const checked = Object.entries(LIMITS).map(([name, limit]: [string, Limit]) => {
    const value = given[name as LimitName] ?? limit.default;
    if (!(Number.isFinite(value) && value >= limit.minimum && (limit.fraction || Number.isSafeInteger(value))))
      throw new HersError('INVALID_ARGUMENT', `the limit ${name} is a number from ${limit.minimum}, not ${value}`);
    return [name, value];
  });
  return Object.fromEntries(checked);
}
