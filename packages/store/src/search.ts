// Scans a collection as it was when the search began.

import { batchesOf, type Kernel, type ScanResult, type SegmentHandle } from '@hers/scan';
import { decodeQuery, type Query } from '@hers/scheme';
import { decodeOpenQuery, expandedBytes, isOpenQuery, type OpenQuery, scannedQuery } from '@hers/scheme/open';
import { checkBlocks, HersError, type SearchCallOptions, type SearchRequest } from '@hers/service';
import type { Source, StoredBlock } from './blocks/source.ts';
import { checkBytes, hex } from './bytes.ts';
import type { Collection } from './collection.ts';
import {
  type DevicePieces,
  deviceName,
  type LoadedKeys,
  type ReadLists,
  readDevicePieces,
} from './evaluation/evaluator.ts';
import { storageError } from './storage-errors.ts';

/**
 * Open queries that are expanded at the same time, at most, and bytes of their rows unless one has
 * more: at 128 dimensions each takes 4.4 MB. A scan reads the gallery once for all of them.
 */
const EXPANDED_AT_ONCE = 8;
const EXPANDED_BYTES = 2 ** 26;
/** Responses that are being packed while others are scanned. */
const MOST_PACKING = 8;

/** What is compared with blocks, or is to be expanded before. */
type AnyQuery = Query | OpenQuery;

const isOpen = (query: AnyQuery): query is OpenQuery => 'device' in query;

/** The queries of one key, and the blocks they are compared with: positions in each file. */
interface Scan {
  readonly queries: readonly AnyQuery[];
  /** Their numbers in the request. */
  readonly numbers: readonly number[];
  readonly blocks: ReadonlyMap<Source, ReadonlySet<number>>;
}

function wantedBlocks(
  blocks: ReadonlyMap<string, StoredBlock>,
  ids: readonly Uint8Array[] | undefined,
): Iterable<StoredBlock> {
  if (!ids) return blocks.values();
  const wanted = new Set<StoredBlock>();
  for (const id of ids) {
    checkBytes(id, 'a block id');
    const block = blocks.get(hex(id));
    if (!block) throw new HersError('NOT_FOUND', `there is no block ${hex(id)} in this collection`);
    wanted.add(block);
  }
  return wanted;
}

function checkPlan(block: StoredBlock, query: AnyQuery): void {
  if (
    isOpen(query) !== (query.parameters.evaluation !== undefined) ||
    block.parametersId !== query.parameters.id ||
    block.width !== query.width ||
    block.galleryScale !== query.galleryScale
  )
    throw new HersError('BLOCK_MISMATCH', 'a query was made under another plan than the blocks of its key');
}

interface KeyQueries {
  readonly queries: AnyQuery[];
  readonly numbers: number[];
}

function scansOf(wanted: Iterable<StoredBlock>, encodedQueries: readonly Uint8Array[]): Scan[] {
  const byKey = new Map<string, KeyQueries>();
  for (const [number, encoded] of encodedQueries.entries()) {
    const query = isOpenQuery(encoded) ? decodeOpenQuery(encoded) : decodeQuery(encoded);
    const keyId = hex(query.keyId);
    const { queries, numbers } = byKey.get(keyId) ?? { queries: [], numbers: [] };
    byKey.set(keyId, { queries, numbers });
    queries.push(query);
    numbers.push(number);
  }
  const scans = new Map<string, KeyQueries & { readonly blocks: Map<Source, Set<number>> }>();
  // One plan for all blocks of a kind, and most follow another one of the same kind.
  let last: { readonly kind: string; readonly blocks: Map<Source, Set<number>> | undefined } | undefined;
  let positions: { readonly source: Source; readonly numbers: Set<number> } | undefined;
  for (const block of wanted) {
    if (last?.kind !== block.kind) {
      const asked = byKey.get(block.keyId);
      for (const query of asked?.queries ?? []) checkPlan(block, query);
      if (asked && !scans.has(block.keyId)) scans.set(block.keyId, { ...asked, blocks: new Map() });
      last = { kind: block.kind, blocks: scans.get(block.keyId)?.blocks };
      positions = undefined;
    }
    if (!last.blocks) continue;
    if (positions?.source !== block.source) {
      positions = { source: block.source, numbers: last.blocks.get(block.source) ?? new Set() };
      last.blocks.set(block.source, positions.numbers);
    }
    positions.numbers.add(block.position);
  }
  return [...scans.values()];
}

/** Which responses count, in the order of the handles and their blocks, unless all do. */
function onlyThese(positions: ReadonlyMap<SegmentHandle, ReadonlySet<number>>): Uint32Array | undefined {
  if ([...positions].every(([{ header }, wanted]) => wanted.size === header.blocks.length)) return undefined;
  const only: number[] = [];
  let first = 0;
  for (const [{ header }, wanted] of positions) {
    for (const position of wanted) only.push(first + position);
    first += header.blocks.length;
  }
  return Uint32Array.from(only);
}

/** The blocks that a search is about, if the collection has that version. */
function blocksOf(collection: Collection, request: Omit<SearchRequest, 'queries'>): Iterable<StoredBlock> {
  const { version } = collection;
  const blocks =
    request.version === version
      ? collection.blocks
      : request.version < version && collection.past.blocksAt(request.version, collection.blocks);
  if (!blocks)
    throw new HersError('STALE', `${collection.name} has version ${version}, not ${request.version}; read it again`);
  return wantedBlocks(blocks, request.blocks);
}

/**
 * Encoded responses as they become ready, those that do so together in one piece; copies, unless
 * the caller accepts views.
 */
export function searchCollection(
  collection: Collection,
  request: SearchRequest,
  signal: AbortSignal,
  options: SearchCallOptions = {},
): AsyncGenerator<readonly Uint8Array[]> {
  return searchCollections([{ ...request, collection }], request.queries, signal, options);
}

/**
 * The same in one scan of several collections: a query is read and prepared once for all. `read`
 * gives lists with evaluation keys that are not in the first of them.
 */
export async function* searchCollections(
  searched: readonly (Omit<SearchRequest, 'queries'> & { readonly collection: Collection })[],
  encodedQueries: readonly Uint8Array[],
  signal: AbortSignal,
  { views = false, keep, partitions }: SearchCallOptions = {},
  read?: ReadLists,
): AsyncGenerator<readonly Uint8Array[]> {
  for (const { blocks } of searched) checkBlocks(partitions, blocks);
  const [{ collection, evaluation, devices = [] }] = searched;
  const wanted = searched.map((each) => blocksOf(each.collection, each));
  const scans = scansOf(concatenated(wanted), encodedQueries);
  const held: Source[] = [];
  try {
    // All at once, before any `await`: from here on no source of the search can disappear.
    const loading = scans.map(({ blocks }) =>
      [...blocks.keys()].map(async (source) => {
        const handle = await source.acquire();
        held.push(source);
        return [handle, blocks.get(source)!] as const;
      }),
    );
    const loaded = await Promise.allSettled(loading.flat());
    for (const result of loaded) if (result.status === 'rejected') throw result.reason;
    const kernel = await collection.folder.kernel();
    const pieces = await readDevicePieces(collection, devices, signal, read);
    for (const [index, { queries: all, numbers }] of scans.entries()) {
      const positions: Positions = new Map(await Promise.all(loading[index]));
      if (all.some(isOpen)) {
        const open = numbers.map((number) => encodedQueries[number]);
        yield* collection.folder.evaluators.using(collection, evaluation ?? [], signal, read, (keys) =>
          scanOpen(kernel, keys, all as readonly OpenQuery[], open, pieces, positions, signal),
        );
        continue;
      }
      const queries = all as readonly Query[];
      const kept = keep && (await kernel.keep?.([...positions.keys()], queries, { signal }));
      if (keep && kept) {
        try {
          const { handle, device } = kept;
          await keep({ handle, device, queries: numbers, only: onlyThese(positions) });
        } finally {
          kept.forget();
        }
        continue;
      }
      const scanning = { signal, passing: views === 'passing' };
      for await (const batch of batchesOf(kernel, [...positions.keys()], queries, scanning)) {
        const responses: Uint8Array[] = [];
        // The kernel's response may be a view of memory that holds others too.
        for (const { handle, block, response } of batch)
          if (positions.get(handle)!.has(block)) responses.push(views ? response : new Uint8Array(response));
        if (responses.length > 0) yield responses;
        signal.throwIfAborted();
      }
    }
  } catch (error) {
    if (error instanceof HersError && error.code === 'DAMAGED') for (const source of held) source.distrust();
    throw signal.aborted ? signal.reason : storageError(error, collection.name);
  } finally {
    for (const source of held) source.release();
  }
}

type Positions = ReadonlyMap<SegmentHandle, ReadonlySet<number>>;

/** Expands queries of one key, scans with them, and packs what counts, eight blocks at a time. */
async function* scanOpen(
  kernel: Kernel,
  keys: LoadedKeys,
  queries: readonly OpenQuery[],
  encoded: readonly Uint8Array[],
  pieces: DevicePieces,
  positions: Positions,
  signal: AbortSignal,
): AsyncGenerator<readonly Uint8Array[]> {
  // All of one key, so of one size.
  const fitting = Math.floor(EXPANDED_BYTES / expandedBytes(encoded[0]));
  const atOnce = Math.max(1, Math.min(EXPANDED_AT_ONCE, fitting));
  for (let first = 0; first < queries.length; first += atOnce) {
    signal.throwIfAborted();
    const some = queries.slice(first, first + atOnce);
    const expanding = some.map(({ keyId, device }, i) =>
      keys.expand(encoded[first + i], pieces.get(deviceName(keyId, device))),
    );
    const expanded = (await Promise.allSettled(expanding)).flatMap((each) =>
      each.status === 'fulfilled' ? [each.value] : [],
    );
    try {
      await Promise.all(expanding);
      const scanned = some.map((query, i) => scannedQuery(query, expanded[i].rows));
      yield* packed(kernel.scan([...positions.keys()], scanned, { signal }), positions, some, (i, results) =>
        keys.pack(expanded[i].number, results),
      );
    } finally {
      for (const { number } of expanded) keys.forget(number);
    }
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

function* concatenated(all: readonly Iterable<StoredBlock>[]): Generator<StoredBlock> {
  for (const each of all) yield* each;
}
