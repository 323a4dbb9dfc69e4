// Open queries: a search expands them with the evaluation keys of the collection, scans with the
// rows, and packs the responses of several blocks into one (packages/scheme/README.md §9).

import type { ScanResult } from '@hers/scan';
import { decodeOpenQuery, EXPANDED_BYTES, expandedBytes, type OpenQuery, scannedQuery } from '@hers/scheme/open';
import type { OpenSearch } from '@hers/service';
import type { Collection } from './collection.ts';
import {
  type DevicePieces,
  deviceName,
  type KeyLists,
  type LoadedKeys,
  type ReadLists,
  readDevicePieces,
} from './evaluation/evaluator.ts';
import { readLists } from './reading.ts';
import type { Positions, Strategy } from './search.ts';

/**
 * Queries that are expanded at the same time, at most, and within EXPANDED_BYTES: at 128 dimensions
 * each takes 4.4 MB. A scan reads the gallery once for all of them.
 */
const EXPANDED_AT_ONCE = 8;
/** Responses that are being packed while others are scanned. */
const MOST_PACKING = 8;

/** With `read`, which gives lists of other shards too, it is known already that they exist. */
export function openStrategy(
  collection: Collection,
  { evaluation, devices }: OpenSearch,
  encoded: readonly Uint8Array[],
  signal: AbortSignal,
  read?: ReadLists,
): Strategy<OpenQuery> {
  const lists: KeyLists = {
    ...{ id: collection.id, ending: collection.ending.signal },
    has: (list) => read !== undefined || collection.tables.listPlace(list) !== undefined,
    read: read ?? ((ids, signal) => readLists(collection, ids, signal)),
  };
  let pieces: DevicePieces;
  return {
    decode: decodeOpenQuery,
    async begin() {
      pieces = await readDevicePieces(lists, devices, signal);
    },
    async *answer(kernel, { queries, numbers }, positions) {
      yield* collection.folder.evaluators.using(lists, evaluation, signal, async function* (keys) {
        // All of one key, so of one size.
        const fitting = Math.floor(EXPANDED_BYTES / expandedBytes(encoded[numbers[0]]));
        const atOnce = Math.max(1, Math.min(EXPANDED_AT_ONCE, fitting));
        for (let first = 0; first < queries.length; first += atOnce) {
          signal.throwIfAborted();
          const some = queries.slice(first, first + atOnce);
          const expanding = some.map(({ keyId, device }, i) =>
            keys.expand(encoded[numbers[first + i]], pieces.get(deviceName(keyId, device))),
          );
          yield* expanded(keys, expanding, (all) => {
            const scanned = some.map((query, i) => scannedQuery(query, all[i].rows));
            const results = kernel.scan([...positions.keys()], scanned, { signal });
            return packed(results, positions, some, (i, responses) => keys.pack(all[i].number, responses));
          });
        }
      });
    },
  };
}

type Expanded = Awaited<ReturnType<LoadedKeys['expand']>>;

/** Calls `use` with the expanded queries, and forgets them afterwards. */
async function* expanded<T>(
  keys: LoadedKeys,
  expanding: readonly Promise<Expanded>[],
  use: (all: readonly Expanded[]) => AsyncGenerator<T>,
): AsyncGenerator<T> {
  const settled = await Promise.allSettled(expanding);
  try {
    yield* use(await Promise.all(expanding));
  } finally {
    for (const each of settled) if (each.status === 'fulfilled') keys.forget(each.value.number);
  }
}

/** Responses as they are packed: with those of other blocks to the same query, in any order. */
async function* packed(
  results: AsyncIterable<ScanResult>,
  positions: Positions,
  queries: readonly OpenQuery[],
  pack: (query: number, responses: readonly Uint8Array[]) => Promise<Uint8Array>,
): AsyncGenerator<readonly Uint8Array[]> {
  const waiting: Uint8Array[][] = queries.map(() => []);
  const packing: Promise<Uint8Array>[] = [];
  const begin = (query: number) => {
    const promise = pack(query, waiting[query].splice(0));
    promise.catch(() => {}); // reported when it is awaited
    packing.push(promise);
  };
  try {
    for await (const { handle, block, query, response } of results) {
      if (!positions.get(handle)!.has(block)) continue;
      // A view, which stays valid for as long as somebody refers to it.
      waiting[query].push(response);
      if (waiting[query].length === queries[query].parameters.evaluation.responses) begin(query);
      while (packing.length > MOST_PACKING) yield [await packing.shift()!];
    }
    for (const [query, left] of waiting.entries()) if (left.length > 0) begin(query);
    while (packing.length > 0) yield [await packing.shift()!];
  } finally {
    await Promise.allSettled(packing);
  }
}
