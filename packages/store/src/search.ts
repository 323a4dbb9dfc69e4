// Scans a collection as it was when the search began.

import type { SegmentHandle } from '@hers/scan';
import { decodeQuery, type Query } from '@hers/scheme';
import { HersError, type SearchRequest } from '@hers/service';
import type { Source } from './blocks/source.ts';
import type { StoredBlock } from './blocks/stored-block.ts';
import { checkBytes, hex } from './bytes.ts';
import type { Collection } from './collection.ts';
import { storageError } from './storage-errors.ts';

/** The queries of one key, and the blocks they are compared with: positions in each file. */
interface Scan {
  readonly queries: readonly Query[];
  readonly blocks: ReadonlyMap<Source, ReadonlySet<number>>;
}

function wantedBlocks({ blocks }: Collection, ids: readonly Uint8Array[] | undefined): Iterable<StoredBlock> {
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

function checkPlan(block: StoredBlock, query: Query): void {
  if (
    block.parametersId !== query.parameters.id ||
    block.width !== query.width ||
    block.galleryScale !== query.galleryScale
  )
    throw new HersError('BLOCK_MISMATCH', 'a query was made under another plan than the blocks of its key');
}

function scansOf(collection: Collection, request: SearchRequest): Scan[] {
  const byKey = new Map<string, Query[]>();
  for (const encoded of request.queries) {
    const query = decodeQuery(encoded);
    const keyId = hex(query.keyId);
    const queries = byKey.get(keyId);
    if (queries) queries.push(query);
    else byKey.set(keyId, [query]);
  }
  const scans = new Map<string, { queries: Query[]; blocks: Map<Source, Set<number>> }>();
  for (const block of wantedBlocks(collection, request.blocks)) {
    const queries = byKey.get(block.keyId);
    if (!queries) continue;
    for (const query of queries) checkPlan(block, query);
    let scan = scans.get(block.keyId);
    if (!scan) scans.set(block.keyId, (scan = { queries, blocks: new Map() }));
    const positions = scan.blocks.get(block.source);
    if (positions) positions.add(block.position);
    else scan.blocks.set(block.source, new Set([block.position]));
  }
  return [...scans.values()];
}

/** Encoded responses as they become ready; copies, unless the caller accepts views. */
export async function* searchCollection(
  collection: Collection,
  request: SearchRequest,
  signal: AbortSignal,
  views = false,
): AsyncGenerator<Uint8Array> {
  const { version } = collection;
  if (request.version !== version)
    throw new HersError('STALE', `${collection.name} has version ${version}, not ${request.version}; read it again`);
  const scans = scansOf(collection, request);
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
    for (const [index, { queries }] of scans.entries()) {
      const positions = new Map<SegmentHandle, ReadonlySet<number>>(await Promise.all(loading[index]));
      for await (const { handle, block, response } of kernel.scan([...positions.keys()], queries, { signal })) {
        // The kernel's response may be a view of memory that holds others too.
        if (positions.get(handle)!.has(block)) yield views ? response : new Uint8Array(response);
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
