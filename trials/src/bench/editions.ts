// Which editions of blocks a benchmark measures. Of both, the first one's figures have names of
// their own and stand beside those of the second.

import type { Result } from '@hers/paper/lab/report';
import { UsageError } from '@hers/paper/lab/runner';
import type { Edition } from '@hers/scheme';

interface Wanted {
  readonly edition?: string;
  readonly profile?: string;
}

/** The second edition first: what people have, and then what it is compared with. */
export function editionsOf({ edition = '2', profile = 'compact' }: Wanted): readonly Edition[] {
  if (!['1', '2', 'both'].includes(edition)) throw new UsageError('--edition takes 1, 2 or both');
  if (edition !== '2' && !['compact', 'exact'].includes(profile))
    throw new UsageError('Edition 1 has the profiles compact and exact alone');
  return edition === 'both' ? [2, 1] : [Number(edition) as Edition];
}

/** Figures of the first edition, each beside the one of the second that has its name. */
export function besideSecond(results: readonly Result[], second: readonly Result[]): Result[] {
  const values = new Map(second.map(({ name, value }) => [name, value]));
  return results.map(({ name, value, unit }) => {
    const other = values.get(name);
    return {
      name: `${name}-edition-1`,
      value,
      unit,
      ...(other ? { ratio: value / other, against: name } : {}),
    };
  });
}
