// Staging: records, lists and blocks are written to disk. Nothing refers to them until a commit
// does.

import { createHash } from 'node:crypto';
import { decodeBlock } from '@hers/scheme';
import {
  type CallOptions,
  groupsOf,
  HANDLE_BYTES,
  HersError,
  isOf,
  type Many,
  notHeld,
  type Partitions,
  type SealedRecord,
  type StageId,
} from '@hers/service';
import { checkBytes, sha256 } from './base/bytes.ts';
import { fault } from './base/faults.ts';
import { Holding } from './base/holding.ts';
import { MAX_BLOCK_BYTES, readKeptBlock } from './blocks/rebuild.ts';
import { newBlockRow } from './blocks/source.ts';
import type { Collection } from './collection.ts';
import { decodePlace, LIST, RECORD } from './files/entry.ts';
import { Batch, ROW_BYTES } from './files/vault.ts';
import { decodeShardChange, keepStage, type Stage } from './stages.ts';

export async function stageRecords(
  collection: Collection,
  records: Many<SealedRecord>,
  signal: AbortSignal,
  partitions?: Partitions,
): Promise<StageId> {
  const batch = new Batch(collection.vault);
  const hash = collection.folder.holdsShards ? createHash('sha256').update('records') : undefined;
  const length = Buffer.alloc(4);
  const add = ({ handle, sealed }: SealedRecord) => {
    signal.throwIfAborted();
    checkBytes(handle, 'a handle', HANDLE_BYTES);
    checkBytes(sealed, 'a sealed record');
    if (partitions && !isOf(partitions, sealed)) throw notHeld('a record of another partition');
    if (hash) {
      length.writeUInt32LE(sealed.length);
      hash.update(handle).update(length).update(sealed);
    }
    return batch.add(RECORD, handle, handle, sealed);
  };
  return collection.stages.writing(batch, async () => {
    for await (const group of groupsOf(records))
      for (const record of group) {
        const full = add(record);
        if (full !== undefined) await full;
      }
    signal.throwIfAborted();
    await batch.finish();
    return stage(collection, { kind: 'records', batch, partitions }, hash?.digest());
  });
}

export async function stageList(collection: Collection, sealed: Uint8Array, partitions?: Partitions): Promise<StageId> {
  checkBytes(sealed, 'a sealed list');
  if (partitions && !isOf(partitions, sealed)) throw notHeld('a list of another partition');
  const batch = new Batch(collection.vault);
  return collection.stages.writing(batch, async () => {
    const id = sha256(sealed);
    await batch.add(LIST, id.subarray(0, HANDLE_BYTES), sealed);
    await batch.finish();
    return stage(collection, { kind: 'list', batch, id, partitions }, named('list', id));
  });
}

export async function stageBlock(
  collection: Collection,
  pieces: Many<Uint8Array>,
  signal: AbortSignal,
  { hold, partitions }: CallOptions = {},
): Promise<StageId> {
  signal.throwIfAborted();
  const encoded = await gather(pieces, signal);
  using holding = new Holding(hold);
  holding.become(encoded.length);
  const block = decodeBlock(encoded);
  if (partitions && !isOf(partitions, block.blockId)) throw notHeld('a block of another partition');
  const file = await collection.writeBlock(encoded);
  const hash = sha256(encoded);
  if (signal.aborted) {
    await collection.folder.disk.remove(file).catch(() => {});
    throw signal.reason;
  }
  const row = newBlockRow(block, { hash, bytes: encoded.length }, file);
  return stage(collection, { kind: 'block', row, partitions }, named('block', hash));
}

/** Takes something up as staged; in a shard, under the hash of its content. */
export async function stage(collection: Collection, staged: Stage, hash?: Uint8Array): Promise<StageId> {
  const { stages, folder, tables } = collection;
  let id: StageId;
  if (folder.holdsShards && hash) {
    id = Buffer.from(hash).toString('base64url');
    await collection.syncNames();
    collection.checkUsable();
    const made = Date.now();
    let before: string | undefined;
    await folder.catalogue.together(
      () => {
        collection.checkUsable();
        keepStage(tables, id, staged, made);
      },
      () => [],
      () => {
        fault('stage.kept');
        // Staged again, it takes the place of what was staged before.
        if (stages.has(id) && staged.kind === 'block') before = stages.get(id, 'block').row.file;
        stages.add(staged, id, made);
      },
    );
    if (before !== undefined) await folder.disk.remove(before).catch(() => {});
  } else id = stages.add(staged);
  await expireStages(collection);
  return id;
}

/**
 * Stages in a newer copy of a shard what is staged in the one that it replaces, except changes that
 * it has already. What cannot be read is left out: it is staged again, or comes with another copy.
 */
export async function carryStages(from: Collection, to: Collection, signal: AbortSignal): Promise<void> {
  const { version } = to.tables.current();
  using reader = from.vault.reader();
  const contents = async ({ rows }: { readonly rows: Buffer }) => {
    const places = Array.from({ length: rows.length / ROW_BYTES }, (_, i) =>
      decodePlace(rows, i * ROW_BYTES + HANDLE_BYTES),
    );
    return (await reader.read(places, () => 'a staged record or list')).map(({ content }) => content);
  };
  for (const staged of from.stages.all())
    try {
      if (staged.kind === 'records') {
        const records = (await contents(staged.batch)).map((content) => ({
          handle: content.subarray(0, HANDLE_BYTES),
          sealed: content.subarray(HANDLE_BYTES),
        }));
        await stageRecords(to, records, signal);
      } else if (staged.kind === 'list') await stageList(to, (await contents(staged.batch))[0]);
      else if (staged.kind === 'block') {
        const { file: path, seed, hash } = staged.row;
        const kept = { path, inSegment: false, position: 0, name: path, seed, hash };
        await stageBlock(to, [(await readKeptBlock(from.folder.disk, kept)).encoded], signal);
      } else if (decodeShardChange(staged.encoded).expected >= version) await stage(to, staged, sha256(staged.encoded));
    } catch (error) {
      if (!(error instanceof HersError && error.code === 'DAMAGED')) throw error;
    }
}

/** Forgets what was staged too long ago. */
export async function expireStages({ stages, folder, tables }: Collection): Promise<void> {
  const forget = (ids: readonly StageId[]) => {
    if (folder.holdsShards) folder.catalogue.transaction(() => ids.forEach((id) => tables.dropStage(id)));
  };
  for (const old of stages.expire(Date.now(), forget)) await folder.disk.remove(old).catch(() => {});
}

/** Things of two kinds have two names, whatever they hold. */
function named(kind: string, hash: Uint8Array): Uint8Array {
  return sha256(Buffer.concat([Buffer.from(kind), hash]));
}

async function gather(pieces: Many<Uint8Array>, signal: AbortSignal): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    signal.throwIfAborted();
    checkBytes(piece, 'a piece of a block');
    bytes += piece.length;
    if (bytes > MAX_BLOCK_BYTES) throw new HersError('MALFORMED', 'this is too long to be a block');
    parts.push(piece);
  }
  return parts.length === 1 ? parts[0] : new Uint8Array(Buffer.concat(parts));
}
