// Reads sealed records and lists in the order in which they are requested, and blocks. The
// catalogue has the length of each, so no more is read at once than memory should hold.

import {
  type CallOptions,
  HANDLE_BYTES,
  HersError,
  isOf,
  isShared,
  LIST_ID_BYTES,
  type SealedRecord,
} from '@hers/service';
import { checkBytes, handleKey, hex, sameBytes, sha256 } from './base/bytes.ts';
import { Holding } from './base/holding.ts';
import { damaged } from './base/storage-errors.ts';
import { READING_COST, readStoredBlock } from './blocks/rebuild.ts';
import type { Collection } from './collection.ts';
import type { Place } from './files/entry.ts';
import type { Vault, VaultReader } from './files/vault.ts';

/**
 * Looked up and read together: this many entries, or fewer if they exceed this many bytes, but at
 * least one.
 */
const READ_ENTRIES = 512;
const READ_BYTES = 2 ** 19;

/** A block is returned in pieces of this size. */
const PIECE_BYTES = 2 ** 20;

/** What is read: its name in errors, the length of its ids, and how to find each. */
interface Kind {
  readonly what: string;
  readonly idBytes: number;
  find(id: Uint8Array): Place | undefined;
  /** Another process may have moved it. */
  refresh(): boolean;
}

interface Read {
  readonly id: Uint8Array;
  readonly content: Uint8Array;
  readonly place: Place;
}

export async function* readRecords(
  { records, vault, folder }: Collection,
  handles: readonly Uint8Array[],
  signal: AbortSignal,
  { hold, partitions }: CallOptions = {},
): AsyncGenerator<SealedRecord> {
  const kind: Kind = {
    what: 'record',
    idBytes: HANDLE_BYTES,
    find: (handle) => records.find(handle),
    refresh: folder.refresh,
  };
  const read = () => readAll(vault, kind, handles, signal, hold);
  if (partitions) await checkAll(kind, read(), (content) => isOf(partitions, content.subarray(HANDLE_BYTES)));
  for await (const { id, content, place } of read()) {
    const handle = new Uint8Array(content.subarray(0, HANDLE_BYTES));
    if (!sameBytes(handle, id)) throw misplaced(vault, place, `record ${hex(id)}`);
    const sealed = content.subarray(HANDLE_BYTES);
    // It may have been replaced since.
    if (partitions && !isOf(partitions, sealed)) throw someMissing(kind);
    yield { handle, sealed: ownBytes(sealed) };
  }
}

export async function* readLists(
  { tables, vault, folder }: Collection,
  ids: readonly Uint8Array[],
  signal: AbortSignal,
  { hold, partitions }: CallOptions = {},
): AsyncGenerator<Uint8Array> {
  const find = (id: Uint8Array) => tables.listPlace(id);
  const kind: Kind = { what: 'list', idBytes: LIST_ID_BYTES, find, refresh: folder.refresh };
  const read = () => readAll(vault, kind, ids, signal, hold);
  if (partitions) await checkAll(kind, read(), (content) => isOf(partitions, content) || isShared(content));
  for await (const { id, content, place } of read()) {
    if (!sameBytes(sha256(content), id)) throw misplaced(vault, place, `list ${hex(id)}`);
    yield ownBytes(content);
  }
}

export async function* readBlock(
  { blocks, folder }: Collection,
  blockId: Uint8Array,
  { hold, partitions }: CallOptions = {},
): AsyncGenerator<Uint8Array> {
  checkBytes(blockId, 'a block id');
  const block = !partitions || isOf(partitions, blockId) ? blocks.get(hex(blockId)) : undefined;
  if (!block) throw missing('block', blockId);
  using holding = new Holding(hold);
  holding.become(READING_COST * block.bytes);
  const { encoded } = await readStoredBlock(folder.disk, block);
  holding.become(encoded.length);
  for (let at = 0; at < encoded.length; at += PIECE_BYTES) yield encoded.subarray(at, at + PIECE_BYTES);
}

/**
 * For a call that is held to partitions: NOT_FOUND unless all are there, and of them. Before any is
 * given out, and without saying which: else the error would tell what others have, and how large.
 */
async function checkAll(kind: Kind, all: AsyncIterable<Read>, isHeld: (content: Uint8Array) => boolean): Promise<void> {
  let others = 0;
  try {
    for await (const { content } of all) if (!isHeld(content)) others++;
  } catch (error) {
    throw error instanceof HersError && error.code === 'NOT_FOUND' ? someMissing(kind) : error;
  }
  if (others > 0) throw someMissing(kind);
}

const someMissing = ({ what }: Kind) =>
  new HersError('NOT_FOUND', `a ${what} that was asked for is not in this collection`);

function missing(what: string, id: Uint8Array): HersError {
  return new HersError('NOT_FOUND', `there is no ${what} ${hex(id)} in this collection`);
}

/** Without the neighbours that were read with them: copied, unless read alone. */
function ownBytes(bytes: Uint8Array): Uint8Array {
  return bytes.length > bytes.buffer.byteLength / 2 ? bytes : new Uint8Array(bytes);
}

function misplaced(vault: Vault, { pack, offset }: Place, what: string): HersError {
  return damaged(vault.path(pack), `${what} is not in it at ${offset}, where the catalogue says`);
}

async function* readAll(
  vault: Vault,
  kind: Kind,
  ids: readonly Uint8Array[],
  signal: AbortSignal,
  hold?: (bytes: number) => void,
): AsyncGenerator<Read> {
  checkIds(kind, ids);
  using holding = new Holding(hold);
  using reader = vault.reader();
  for (let at = 0; at < ids.length; ) {
    signal.throwIfAborted();
    const some = await readSome(reader, kind, ids.slice(at, at + READ_ENTRIES), holding);
    at += some.length;
    yield* some;
  }
}

/** A caller that requests the same entry many times would receive many times what is stored. */
function checkIds({ what, idBytes }: Kind, ids: readonly Uint8Array[]): void {
  const seen = new Set<string>();
  for (const id of ids) {
    checkBytes(id, `the id of a ${what}`, idBytes);
    seen.add(handleKey(id));
  }
  if (seen.size < ids.length) throw new HersError('INVALID_ARGUMENT', `a ${what} is asked for twice; ask for it once`);
}

/**
 * The first of these entries, and as many of the next as fit. Looks them up again if a purge has
 * moved them in between.
 */
async function readSome(
  reader: VaultReader,
  kind: Kind,
  ids: readonly Uint8Array[],
  holding: Holding,
): Promise<Read[]> {
  for (;;) {
    const places = firstPlaces(kind, ids);
    // The bytes read together, and a copy of each on its way.
    holding.become(2 * places.reduce((sum, { length }) => sum + length, 0));
    try {
      const entries = await reader.read(places, (i) => `${kind.what} ${hex(ids[i])}`);
      return entries.map(({ content }, i) => ({ id: ids[i], content, place: places[i] }));
    } catch (error) {
      kind.refresh();
      const now = firstPlaces(kind, ids);
      const moved = places.some(({ pack, offset }, i) => now[i]?.pack !== pack || now[i].offset !== offset);
      if (!moved) throw error;
    }
  }
}

function firstPlaces({ what, find }: Kind, ids: readonly Uint8Array[]): Place[] {
  const places: Place[] = [];
  let bytes = 0;
  for (const id of ids) {
    const place = find(id);
    if (!place) throw missing(what, id);
    bytes += place.length;
    if (places.length > 0 && bytes > READ_BYTES) break;
    places.push(place);
  }
  return places;
}
