// Compaction moves blocks from files of their own into segments, which are scanned front to back.
// The rules:
//
// - Blocks of one kind (key and plan) and of one partition share segments of up to `segmentBlocks`
//   blocks: segments are scanned whole, and a search of a partition costs what that partition has.
//   A block that is not full is likely to be replaced soon, and is left alone, unless there are
//   many of them.
// - *busy*, after every commit: a segment is built as soon as there are enough loose blocks to fill
//   it. This way no block is written twice.
// - *quiet*, after a while without commits, or when the loose blocks take much memory: 16 or more
//   are merged with the segment that is not full.
// - *purge*: all loose blocks go into segments, and every segment that holds dropped blocks is
//   rewritten.
//
// A segment is on disk under its final name before the catalogue refers to it. Old files are
// removed after that.

import { randomBytes } from 'node:crypto';
import { segmentBlocks } from '@hers/scan';
import { parameterSetById } from '@hers/scheme';
import { PARTITION_BYTES, type Partitions } from '@hers/service';
import { fault } from './base/faults.ts';
import { storageError } from './base/storage-errors.ts';
import { keptBlock } from './blocks/rebuild.ts';
import { isFull, type Source, type StoredBlock } from './blocks/source.ts';
import type { Collection } from './collection.ts';
import { SEGMENTS, segmentPath } from './files/layout.ts';

export type CompactionMode = 'busy' | 'quiet' | 'purge';

const MANY = 16;
/** Searches hold loose blocks in memory. This is the most they should hold. */
const LOOSE_BYTES = 2 ** 27;

/**
 * Groups of blocks, each of which should become a segment. `partitions` are the handles that ids of
 * blocks can begin with.
 */
export function planCompaction(
  blocks: Iterable<StoredBlock>,
  mode: CompactionMode,
  partitions: Partitions = new Set(),
): StoredBlock[][] {
  const all = [...blocks];
  const looseBytes = all.reduce((sum, { source, bytes }) => sum + (source.inSegment ? 0 : bytes), 0);
  const kinds = Map.groupBy(all, ({ name, kind }) => {
    const handle = partitions.size > 0 ? name.slice(0, 2 * PARTITION_BYTES) : '';
    return partitions.has(handle) ? `${kind} ${handle}` : kind;
  });
  return [...kinds.values()].flatMap((alike) => planKind(alike, mode, looseBytes >= LOOSE_BYTES));
}

/** `much`: the loose blocks of all kinds take much memory. */
function planKind(blocks: readonly StoredBlock[], mode: CompactionMode, much: boolean): StoredBlock[][] {
  const { parametersId, width } = blocks[0];
  const room = segmentBlocks(parameterSetById(parametersId), width);
  const loose = blocks.filter(({ source }) => !source.inSegment);
  const full = loose.filter(isFull);
  const partial = loose.length - full.length;
  const waiting = partial >= MANY ? loose : full;
  const whole = waiting.length - (waiting.length % room);
  if (mode === 'busy' && !(much && whole === 0)) return groups(waiting.slice(0, whole), room);

  const kept = blocks.filter(({ source }) => source.inSegment);
  const segments = Map.groupBy(kept, ({ source }) => source);
  // It holds blocks that were dropped, or, made from a snapshot, those of several partitions.
  const unclean = [...segments].filter(([{ total }, own]) => own.length < total);
  const roomy = [...segments].filter(([, own]) => own.length < room);
  if (mode !== 'purge') {
    if (waiting.length === 0 || (waiting.length < MANY && !much)) return [];
    // The fullest segment with room: this way there is rarely more than one that is not full.
    const [open] = roomy.sort(([, a], [, b]) => b.length - a.length);
    return groups([...(open?.[1] ?? []), ...waiting], room);
  }
  const joined = new Map(unclean);
  if (roomy.length + Math.sign(waiting.length) > 1) for (const [source, own] of roomy) joined.set(source, own);
  const parts = [...joined.values()].flat();
  return parts.length + waiting.length > 1 || unclean.length > 0 ? groups([...parts, ...waiting], room) : [];
}

function groups(blocks: readonly StoredBlock[], size: number): StoredBlock[][] {
  const out: StoredBlock[][] = [];
  for (let at = 0; at < blocks.length; at += size) out.push(blocks.slice(at, at + size));
  return out;
}

export async function compact(collection: Collection, mode: CompactionMode, signal: AbortSignal): Promise<void> {
  for (const group of planCompaction(collection.blocks.values(), mode, collection.partitions())) {
    signal.throwIfAborted();
    // Blocks that were dropped in the meantime do not go into it.
    const blocks = group.filter((block) => collection.blocks.get(block.name) === block);
    if (blocks.length > 0) await buildGroup(collection, blocks, signal);
  }
}

async function buildGroup(collection: Collection, blocks: readonly StoredBlock[], signal: AbortSignal): Promise<void> {
  const { disk, assembler } = collection.folder;
  const temporary = `${SEGMENTS}/${collection.number}-${randomBytes(8).toString('hex')}.building`;
  const total = blocks.reduce((sum, block) => sum + block.bytes, 0);
  let path = temporary;
  try {
    const { name, bytes } = await withFiles([...new Set(blocks.map(({ source }) => source))], () =>
      assembler.assemble(disk, temporary, blocks.map(keptBlock), total, signal),
    );
    disk.note({ kind: 'adopt', path: temporary });
    fault('segment.built');
    await disk.rename(temporary, (path = segmentPath(collection.number, name)));
    await disk.syncFolder(SEGMENTS);
    fault('segment.renamed');
    collection.checkUsable();
    repoint(collection, blocks, { path, inSegment: true, bytes, total: blocks.length });
  } catch (error) {
    await disk.remove(path).catch(() => {});
    throw storageError(error, path);
  }
  await collection.retireEmpty();
  fault('segment.removed');
}

/** Runs `work` while none of the files can be removed. */
function withFiles<T>(sources: readonly Source[], work: () => Promise<T>): Promise<T> {
  return sources.reduceRight<() => Promise<T>>((inner, source) => () => source.reading(inner), work)();
}

/**
 * Points the catalogue, and then memory, to the new places. Blocks that were dropped in the
 * meantime stay dropped.
 */
function repoint(
  collection: Collection,
  blocks: readonly StoredBlock[],
  file: { path: string; inSegment: boolean; bytes: number; total: number },
): void {
  const { tables, folder } = collection;
  const moved = blocks
    .map((block, position) => ({ block, position }))
    .filter(({ block }) => collection.blocks.get(block.name) === block);
  const leaving = new Set(moved.map(({ block }) => block));
  const old = new Set(moved.map(({ block }) => block.source));
  folder.catalogue.transaction(() => {
    tables.addSegment(file.path, file.total, file.bytes);
    for (const { block, position } of moved) tables.moveBlock(block.id, file.path, position);
    for (const { inSegment, live, path } of old)
      if (inSegment && [...live].every((block) => leaving.has(block))) tables.dropSegment(path);
    fault('segment.within');
  });
  fault('segment.committed');
  const source = collection.addSource(file);
  for (const { block, position } of moved) {
    block.source.live.delete(block);
    block.source = source;
    block.position = position;
    source.live.add(block);
  }
}
