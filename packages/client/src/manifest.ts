// The manifest: the client's own list of what a collection holds. It is sealed (so authenticated) under a key from the master seed and bound to the collection and its version;
// a store can keep it, or lose it, but not alter it. Sealing rather than only authenticating it hides which slots are deleted and which records were written again unchanged.

import { HersError } from '@hers/service';
import { concat, u32 } from './bytes.ts';
import { type Sealer, seal } from './sealing.ts';

export interface ManifestBlock {
  /** Hexadecimal, as all ids here: they are keys of maps. */
  readonly id: string;
  /** SHA-256 of the encoded block; empty for a sum, which the store makes. */
  readonly hash: string;
  readonly epoch: number;
  readonly count: number;
  readonly additions: number;
  /** The sealed lists that say which record is in which slot, in the order of the slots. */
  readonly lists: readonly string[];
  /** Slots whose records were deleted or replaced, ascending. */
  readonly dead: readonly number[];
}

export interface PendingRecord {
  readonly handle: string;
  /** The content's keyed hash; see records.ts. */
  readonly version: string;
}

/** The compressor of an epoch: what its blocks hold are its outputs, not the vectors themselves. */
export interface ManifestModel {
  readonly epoch: number;
  /** What it was learnt by, for people. */
  readonly method: string;
  /** The dimension of what is indexed. */
  readonly dimension: number;
  /** SHA-256 of the model, which tells whether another one is the same. */
  readonly digest: string;
  /** The model in pieces, kept as lists are, sealed under its epoch. */
  readonly lists: readonly string[];
}

export interface Manifest {
  readonly version: number;
  /** The epoch new things are encrypted under; blocks of older ones remain while keys are rotated. */
  readonly epoch: number;
  readonly blocks: readonly ManifestBlock[];
  /** Records that are in the vault and in no block yet. */
  readonly pending: readonly PendingRecord[];
  /** Seals made under this epoch, which must stay below 2^32. */
  readonly seals: number;
  /** Of the epochs that have one; at most one of each. */
  readonly models: readonly ManifestModel[];
}

/** With compressors; a client that does not know them must not write. */
const FORMAT = 2;
/** Without any. */
const PLAIN_FORMAT = 1;

function about(collectionId: Uint8Array, version: number): Uint8Array {
  return concat(
    new TextEncoder().encode('manifest'),
    collectionId,
    u32(version % 2 ** 32),
    u32(Math.floor(version / 2 ** 32)),
  );
}

export async function sealManifest(sealer: Sealer, collectionId: Uint8Array, manifest: Manifest): Promise<Uint8Array> {
  const { version, epoch, blocks, pending, seals, models } = manifest;
  const text = JSON.stringify({
    format: models.length > 0 ? FORMAT : PLAIN_FORMAT,
    version,
    epoch,
    seals,
    blocks: blocks.map((b) => [b.id, b.hash, b.epoch, b.count, b.additions, b.lists, b.dead]),
    pending: pending.map((p) => [p.handle, p.version]),
    ...(models.length > 0 ? { models } : {}),
  });
  return seal(sealer, new TextEncoder().encode(text), about(collectionId, version));
}

type Row = [string, string, number, number, number, string[], number[]];

/** Opens the manifest that a store says is of this version. INTEGRITY when it is not. */
export async function openManifest(
  sealer: Sealer,
  collectionId: Uint8Array,
  version: number,
  sealed: Uint8Array,
): Promise<Manifest> {
  let plain: Uint8Array;
  try {
    plain = await sealer.open(sealed, about(collectionId, version));
  } catch {
    throw new HersError(
      'INTEGRITY',
      'the manifest of this collection does not open: it was altered, or the collection was made with another key',
    );
  }
  const content = JSON.parse(new TextDecoder().decode(plain));
  if (content.format !== FORMAT && content.format !== PLAIN_FORMAT)
    throw new HersError('UNSUPPORTED_VERSION', 'this collection was written by a newer version; use that');
  return {
    version: content.version,
    epoch: content.epoch,
    seals: content.seals,
    blocks: content.blocks.map(([id, hash, epoch, count, additions, lists, dead]: Row) => ({
      id,
      hash,
      epoch,
      count,
      additions,
      lists,
      dead,
    })),
    models: content.models ?? [],
    pending: content.pending.map(([handle, recordVersion]: [string, string]) => ({ handle, version: recordVersion })),
  };
}

export function emptyManifest(version: number): Manifest {
  return { version, epoch: 0, seals: 0, blocks: [], pending: [], models: [] };
}

/** Records that can be found: in blocks and not dead, or pending. */
export function liveCount({ blocks, pending }: Manifest): number {
  return blocks.reduce((sum, block) => sum + block.count - block.dead.length, pending.length);
}
