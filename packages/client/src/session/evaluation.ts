// The evaluation keys of a space under the profile `open`: what its store expands queries and packs
// responses with (packages/scheme/README.md §9).

import { makeEvaluationKeys } from '@hers/scheme/secret/open';
import { HersError } from '@hers/service';
import { fromHex, hex } from '../bytes.ts';
import type { Manifest, ManifestDevice, ManifestEvaluation } from '../formats/manifest.ts';
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

/** The devices that have keys of their own, made for the key of this space. */
export function ownedDevices(devices: readonly ManifestDevice[], space: Space): number[] {
  const keyId = hex(space.key().keyId);
  return devices.flatMap(({ own, revoked }) => (own?.keyId === keyId && revoked === undefined ? [own.secret] : []));
}

/**
 * The lists with the evaluation keys of devices, by the numbers of their secrets; KEY_MISMATCH
 * where there are none. Number 0, that of the public key, is among those of the collection.
 */
export function deviceLists({ manifest }: View, secrets: Iterable<readonly [Space, number]>): Uint8Array[] {
  const lists = new Set<string>();
  for (const [space, secret] of secrets) {
    if (secret === OWN_DEVICE) continue;
    const list = evaluationOf(manifest, space)?.devices?.[secret];
    if (list === undefined)
      throw new HersError('KEY_MISMATCH', 'there are no evaluation keys for this device; renew it');
    lists.add(list);
  }
  return [...lists].map(fromHex);
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
    const { manifest } = view;
    const open = [...view.spaces.values()].filter(({ plan }) => plan.profile === 'open');
    const missing = open.filter((space) => !evaluationOf(manifest, space));
    const devices = open.flatMap((space) => {
      const found = evaluationOf(manifest, space);
      const lacking = ownedDevices(manifest.devices ?? [], space).filter((secret) => !found?.devices?.[secret]);
      return found ? lacking.map((secret) => [space, secret] as const) : [];
    });
    if (missing.length + devices.length === 0) return { result: undefined };
    const draft = new Draft(view);
    for (const space of missing) await session.evaluate(draft, space);
    for (const [space, secret] of devices) await session.evaluateDevice(draft, space, secret);
    return { draft, result: undefined };
  });
}
