// Scans a collection as it was when the search began.

import { batchesOf, type Kernel, type SegmentHandle } from '@hers/scan';
import { decodeQuery, type Query } from '@hers/scheme';
import { checkBlocks, HersError, type SearchCallOptions, type Searched, type SearchRequest } from '@hers/service';
import { checkBytes, hex } from './base/bytes.ts';
import { storageError } from './base/storage-errors.ts';
import type { Source, StoredBlock } from './blocks/source.ts';
import type { Collection } from './collection.ts';
import type { ReadLists } from './evaluation/evaluator.ts';
import { openStrategy } from './open-search.ts';

/** The queries of one key, and the blocks they are compared with: positions in each file. */
export interface Scan<Q> {
  readonly queries: readonly Q[];
  /** Their numbers in the request. */
  readonly numbers: readonly number[];
  readonly blocks: ReadonlyMap<Source, ReadonlySet<number>>;
}

export type Positions = ReadonlyMap<SegmentHandle, ReadonlySet<number>>;

/** Encoded responses as they become ready, those that do so together in one piece. */
type Responses = AsyncGenerator<readonly Uint8Array[]>;

/** A query to compare with blocks; an open one is expanded first. */
type Comparable = Pick<Query, 'keyId' | 'width' | 'galleryScale' | 'parameters'>;

/** Reads and answers queries: as they come, or expanded (open-search.ts). */
export interface Strategy<Q extends Comparable> {
  decode(encoded: Uint8Array): Q;
  /** Called once, before anything is scanned. */
  begin?(): Promise<void>;
  answer(kernel: Kernel, scan: Scan<Q>, positions: Positions): Responses;
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

function checkPlan(block: StoredBlock, query: Comparable): void {
  if (
    block.parametersId !== query.parameters.id ||
    block.width !== query.width ||
    block.galleryScale !== query.galleryScale
  )
    throw otherPlan();
}

const otherPlan = () =>
  new HersError('BLOCK_MISMATCH', 'a query was made under another plan than the blocks of its key');

function scansOf<Q extends Comparable>(wanted: Iterable<StoredBlock>, queries: readonly Q[]): Scan<Q>[] {
  const byKey = Map.groupBy(queries.entries(), ([, { keyId }]) => hex(keyId));
  const scans = new Map<string, Scan<Q> & { readonly blocks: Map<Source, Set<number>> }>();
  // One plan for all blocks of a kind, and most follow another one of the same kind.
  let last: { readonly kind: string; readonly blocks: Map<Source, Set<number>> | undefined } | undefined;
  let positions: { readonly source: Source; readonly numbers: Set<number> } | undefined;
  for (const block of wanted) {
    if (last?.kind !== block.kind) {
      const asked = byKey.get(block.keyId);
      for (const [, query] of asked ?? []) checkPlan(block, query);
      if (asked && !scans.has(block.keyId)) {
        const [queries, numbers] = [asked.map(([, query]) => query), asked.map(([number]) => number)];
        scans.set(block.keyId, { queries, numbers, blocks: new Map() });
      }
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

/** The blocks that a search is about, if the collection has that version. */
function blocksOf(collection: Collection, request: Searched): Iterable<StoredBlock> {
  const { version } = collection;
  const blocks =
    request.version === version
      ? collection.blocks
      : request.version < version && collection.past.blocksAt(request.version, collection.blocks);
  if (!blocks)
    throw new HersError('STALE', `${collection.name} has version ${version}, not ${request.version}; read it again`);
  return wantedBlocks(blocks, request.blocks);
}

/** Answers queries by the blocks of their keys; with copies, unless the caller accepts views. */
export function searchCollection(
  collection: Collection,
  request: SearchRequest,
  signal: AbortSignal,
  options: SearchCallOptions = {},
): Responses {
  return searchCollections([{ ...request, collection }], request.queries, signal, options);
}

/**
 * The same in one scan of several collections: a query is read and prepared once for all. `read`
 * gives lists with evaluation keys that are not in the first of them.
 */
export async function* searchCollections(
  searched: readonly (Searched & { readonly collection: Collection })[],
  encoded: readonly Uint8Array[],
  signal: AbortSignal,
  options: SearchCallOptions = {},
  read?: ReadLists,
): Responses {
  const [{ collection, open }] = searched;
  yield* open
    ? scanWith(openStrategy(collection, open, encoded, signal, read), searched, encoded, signal, options)
    : scanWith(sealedStrategy(signal, options), searched, encoded, signal, options);
}

async function* scanWith<Q extends Comparable>(
  strategy: Strategy<Q>,
  searched: readonly (Searched & { readonly collection: Collection })[],
  encoded: readonly Uint8Array[],
  signal: AbortSignal,
  { partitions }: SearchCallOptions,
): Responses {
  if (partitions) for (const { blocks } of searched) checkBlocks(partitions, blocks);
  const [{ collection }] = searched;
  const wanted = searched.map((each) => blocksOf(each.collection, each));
  const scans = scansOf(concatenated(wanted), encoded.map(strategy.decode));
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
    await strategy.begin?.();
    for (const [index, scan] of scans.entries())
      yield* strategy.answer(kernel, scan, new Map(await Promise.all(loading[index])));
  } catch (error) {
    if (error instanceof HersError && error.code === 'DAMAGED') for (const source of held) source.distrust();
    throw signal.aborted ? signal.reason : storageError(error, collection.name);
  } finally {
    for (const source of held) source.release();
  }
}

function sealedStrategy(signal: AbortSignal, { views = false, keep }: SearchCallOptions): Strategy<Query> {
  return {
    decode(encoded) {
      const query = decodeQuery(encoded);
      if (query.parameters.evaluation !== undefined) throw otherPlan();
      return query;
    },
    async *answer(kernel, { queries, numbers }, positions) {
      if (keep && (await keepResponses(kernel, keep, queries, numbers, positions, signal))) return;
      const scanning = { signal, passing: views === 'passing' };
      for await (const batch of batchesOf(kernel, [...positions.keys()], queries, scanning)) {
        const responses: Uint8Array[] = [];
        // The kernel's response may be a view of memory that holds others too.
        for (const { handle, block, response } of batch)
          if (positions.get(handle)!.has(block)) responses.push(views ? response : new Uint8Array(response));
        if (responses.length > 0) yield responses;
        signal.throwIfAborted();
      }
    },
  };
}

/** Leaves the responses where the kernel makes them, if it can; returns whether it did. */
async function keepResponses(
  kernel: Kernel,
  keep: NonNullable<SearchCallOptions['keep']>,
  queries: readonly Query[],
  numbers: readonly number[],
  positions: Positions,
  signal: AbortSignal,
): Promise<boolean> {
  const kept = await kernel.keep?.([...positions.keys()], queries, { signal });
  if (!kept) return false;
  try {
    const { handle, device } = kept;
    await keep({ handle, device, queries: numbers, only: onlyThese(positions) });
  } finally {
    kept.forget();
  }
  return true;
}

/** Which responses count, in the order of the handles and their blocks, unless all do. */
function onlyThese(positions: Positions): Uint32Array | undefined {
  if ([...positions].every(([{ header }, wanted]) => wanted.size === header.blocks.length)) return undefined;
  const only: number[] = [];
  let first = 0;
  for (const [{ header }, wanted] of positions) {
    for (const position of wanted) only.push(first + position);
    first += header.blocks.length;
  }
  return Uint32Array.from(only);
}

function* concatenated(all: readonly Iterable<StoredBlock>[]): Generator<StoredBlock> {
  for (const each of all) yield* each;
}
