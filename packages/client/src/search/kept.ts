// Ranking where the store has left the responses: in the memory of a device, which a package has
// registered (crew/accelerator.ts).

import type { QuerySecret } from '@hers/scheme/secret';
import type { KeptResponses } from '@hers/service';
import type { DeviceGrouping } from '../crew/accelerator.ts';
import type { RankOptions } from '../crew/crew.ts';
import type { Candidate } from '../crew/ranking.ts';
import type { ManifestBlock } from '../formats/manifest.ts';
import type { View } from '../session/view.ts';
import type { Query } from './queries.ts';

export interface Keeping {
  /** Tells by the number of a block which of its slots count; undefined where all do. */
  readonly slotsOf: ((number: number) => Uint32Array | undefined) | undefined;
  readonly grouping: DeviceGrouping | undefined;
  readonly options: Omit<RankOptions, 'query'>;
  /** Notes that a query is answered; throws if it was before. */
  readonly claim: (query: Query) => void;
  /** Takes what the ranking of a query will give. */
  readonly ranks: (query: Query, best: Promise<Candidate[]>) => void;
}

/** Returns what takes kept responses, or undefined unless all of them can be decrypted there. */
export function keepOnDevice(
  queries: readonly Query[],
  { slotsOf, grouping, options, claim, ranks }: Keeping,
): ((kept: KeptResponses) => Promise<void>) | undefined {
  if (queries.length === 0 || !queries.every(({ of }) => of.space.device())) return undefined;
  return async (kept) => {
    for (const [i, number] of kept.queries.entries()) {
      const query = queries[number];
      claim(query);
      const secret = query.secret as QuerySecret;
      const chosen = slotsOf && query.of.numbers.map(slotsOf);
      const best = query.of.space
        .device()!
        .rank(kept, i, secret, query.of, chosen, { ...options, query: query.vector }, grouping)
        .finally(() => secret.wipe());
      ranks(query, best);
      // An error is reported with those of other queries.
      await best.catch(() => {});
    }
  };
}

/** Groups records by a field, of which the device knows the codes. */
export function deviceGrouping(view: View, blocks: readonly ManifestBlock[], field: string): DeviceGrouping {
  const columnOf = (number: number) => view.columns.get(blocks[number].id)!.get(field)!;
  return {
    ...{ field, source: view.columns },
    codesOf: (number) => columnOf(number).codes,
    groupOf: ({ block, slot }) => columnOf(block).value(slot),
  };
}
