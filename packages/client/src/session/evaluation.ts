// The evaluation keys of a space under the profile `open`: what its store expands queries and packs
// responses with (packages/scheme/README.md §10).

import { makeEvaluationKeys } from '@hers/scheme/secret/open';
import { HersError } from '@hers/service';
import { fromHex, hex } from '../bytes.ts';
import type { Manifest, ManifestEvaluation } from '../formats/manifest.ts';
import { Draft } from './draft.ts';
import type { CollectionSession } from './session.ts';
import type { Space } from './space.ts';
import type { View } from './view.ts';

/** The secret that the key holder's own queries are encrypted under: that of the public key. */
export const OWN_DEVICE = 0;

/** All pieces, from fresh randomness. It takes a second or two. */
export async function evaluationKeysOf(space: Space): Promise<readonly Uint8Array[]> {
  return makeEvaluationKeys(space.key(), { devices: [OWN_DEVICE] });
}

/** The evaluation keys of a space, where a manifest names some that belong to its key. */
export function evaluationOf(
  { evaluation }: Pick<Manifest, 'evaluation'>,
  space: Space,
): ManifestEvaluation | undefined {
  const keyId = hex(space.key().keyId);
  return evaluation.find((each) => each.epoch === space.epoch && each.keyId === keyId);
}

/** The lists with the evaluation keys of these spaces; INTEGRITY where there are none. */
export function evaluationLists({ manifest }: View, spaces: Iterable<Space>): Uint8Array[] {
  const lists: Uint8Array[] = [];
  for (const space of spaces) {
    if (space.plan.profile !== 'open') continue;
    const found = evaluationOf(manifest, space);
    if (!found)
      throw new HersError(
        'INTEGRITY',
        'this collection has lost its evaluation keys: optimize (hers optimize) makes them again',
      );
    for (const list of found.lists) lists.push(fromHex(list));
  }
  return lists;
}

/** Makes evaluation keys where a collection with open queries has none: when it is new, say. */
export function completeEvaluation(session: CollectionSession): Promise<void> {
  return session.write(async (view) => {
    const missing = [...view.spaces.values()].filter(
      (space) => space.plan.profile === 'open' && !evaluationOf(view.manifest, space),
    );
    if (missing.length === 0) return { result: undefined };
    const draft = new Draft(view);
    for (const space of missing) await session.evaluate(draft, space);
    return { draft, result: undefined };
  });
}
