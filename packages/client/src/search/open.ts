// Queries under the profile `open`: a kilobyte each, under the secret of a device, and the store
// expands them with the evaluation keys of the collection. A search is for the client's own
// vectors, or for questions of devices, which lie in the inbox of the store.

import { peekQuery } from '@hers/scheme';
import type { OpenPlan } from '@hers/scheme/open';
import { encryptShortQuery, makeDeviceKey } from '@hers/scheme/secret/open';
import { HersError, type OpenSearch } from '@hers/service';
import { fromHex } from '../bytes.ts';
import type { Space } from '../keys/space.ts';
import { evaluationOf, OWN_DEVICE } from '../session/draft.ts';
import type { View } from '../session/view.ts';
import type { MakeQueries, Query, Strategy } from './queries.ts';

/** A question of a device; its vector is the probe, as the space of its epoch indexes it. */
export interface Asked {
  /** Its number in the inbox. */
  readonly number: number;
  readonly vector: Float32Array;
  readonly epoch: number;
  readonly queryId: Uint8Array;
  readonly generation: number;
  /** The number of the secret that it is under. */
  readonly device: number;
  /** Scanned as others are, so that the store sees no difference, and not decrypted. */
  readonly isIgnored: boolean;
}

export const open: Strategy = {
  encrypt({ manifest }, space, vector) {
    const { plan } = space;
    const generation = evaluationOf(manifest, space)?.generation ?? 0;
    const device = makeDeviceKey(space.key(), OWN_DEVICE, generation);
    try {
      const query = encryptShortQuery(plan as OpenPlan, device, vector);
      return { query, secret: { queryId: new Uint8Array(peekQuery(query).queryId), generation } };
    } finally {
      device.seed.fill(0);
    }
  },
  request: (view, queries) => requestFor(view, queries),
  begin: (candidates) => candidates.checkSearching(),
  // All answers are under the same secrets, so a store that cheats gets no second try.
  tampered: (candidates) => candidates.stopSearching(),
};

/** Searches for questions in the inbox in place of queries of the client's own. */
export function questions(asked: readonly Asked[]): MakeQueries {
  return async (view, spaces) => {
    const found = spaces.flatMap((of) =>
      asked.flatMap((question, probe) => {
        const { epoch, queryId, vector, generation, isIgnored } = question;
        if (epoch !== of.space.epoch) return [];
        const secret = isIgnored ? undefined : { queryId, generation };
        return [{ question, query: { probe, of, queryId, vector, secret } }];
      }),
    );
    const all = found.map(({ query }) => query);
    const devices = found.map(({ query, question }) => [query.of.space, question.device] as const);
    const inbox = found.map(({ question }) => question.number);
    return {
      ...{ all, probes: asked.length },
      request: { queries: [], open: { ...requestFor(view, all), devices: deviceLists(view, devices), inbox } },
      indexed: async (probe) => {
        const { isIgnored, epoch, vector } = asked[probe];
        const isIndexed = epoch === view.space.epoch || !view.space.compression;
        return isIgnored || !isIndexed ? undefined : vector;
      },
    };
  };
}

/**
 * Names the evaluation keys that the store needs for these queries; INTEGRITY if there are none.
 */
function requestFor({ manifest }: View, queries: readonly Query[]): OpenSearch {
  const evaluation = [...new Set(queries.map(({ of }) => of.space))].flatMap((space) => {
    const found = evaluationOf(manifest, space);
    if (!found)
      throw new HersError(
        'INTEGRITY',
        'this collection has lost its evaluation keys: optimize (hers optimize) makes them again',
      );
    return found.lists.map(fromHex);
  });
  return { evaluation, devices: [], inbox: [] };
}

/**
 * Returns the lists with the evaluation keys of devices, by the numbers of their secrets;
 * KEY_MISMATCH if there are none. Number 0, that of the public key, is among those of the
 * collection.
 */
function deviceLists({ manifest }: View, secrets: readonly (readonly [Space, number])[]): Uint8Array[] {
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
