// The manifest: the client's own list of what a collection holds. It is sealed (so authenticated)
// under a key from the master seed and bound to the collection and its version; a store can keep
// it, or lose it, but not alter it. Sealing rather than only authenticating it hides which slots
// are deleted and which records were written again unchanged.
//
// Every manifest names the hashes of those before it, so that a history that forks shows
// (versions.ts).

import type { Edition } from '@hers/scheme';
import { HersError } from '@hers/service';
import { concat, hex, sha256, u32 } from '../bytes.ts';
import type { Fields, FieldType } from '../fields/field.ts';
import { type Sealer, seal } from '../keys/sealing.ts';
import { notUnderstood } from './parts.ts';

export interface ManifestBlock {
  /** Hexadecimal, as all ids here: they are keys of maps. */
  readonly id: string;
  /** SHA-256 of the encoded block; empty for a sum, which the store makes. */
  readonly hash: string;
  /**
   * Homomorphic enrolment: the tag that the block must have (`authenticate` of scheme/secret),
   * which adds up as blocks do. Not there in blocks of older programs.
   */
  readonly tag?: string;
  readonly epoch: number;
  readonly edition: Edition;
  /** Of records; its canaries are not counted. */
  readonly count: number;
  readonly additions: number;
  /**
   * Homomorphic enrolment: where the canaries of a sum are. Its id changes with every addition, and
   * they came with the first ciphertext, whose id and number of slots these are.
   */
  readonly canaries?: { readonly id: string; readonly slots: number };
  /** The sealed lists that say which record is in which slot, in the order of the slots. */
  readonly lists: readonly string[];
  /** The sealed columns of its fields, by field. */
  readonly columns?: Readonly<Record<string, string>>;
  /** The partition of its records, where the collection has partitions and they are in one. */
  readonly partition?: string;
  /** Slots whose records were deleted or replaced, ascending. */
  readonly dead: readonly number[];
}

export interface ManifestRecord {
  readonly handle: string;
  /** The content's keyed hash; see records.ts. */
  readonly version: string;
}

/** The compressor of an epoch: what its blocks hold are its outputs, not the vectors themselves. */
export interface ManifestCompressor {
  readonly epoch: number;
  /** How it was trained, for people. */
  readonly method: string;
  /** The dimension of what is indexed. */
  readonly dimension: number;
  /** SHA-256 of its file, which tells whether another one is the same. */
  readonly digest: string;
  /** Its file in pieces, kept as lists are, sealed under its epoch. */
  readonly lists: readonly string[];
}

export interface Manifest {
  readonly version: number;
  /**
   * The epoch new things are encrypted under; blocks of older ones remain while keys are rotated.
   */
  readonly epoch: number;
  readonly blocks: readonly ManifestBlock[];
  /** Records that are in the vault and in no block yet. */
  readonly pending: readonly ManifestRecord[];
  /** Seals made under this epoch, which must stay below 2^32. */
  readonly seals: number;
  /** Of the epochs that have one; at most one of each. */
  readonly compressors: readonly ManifestCompressor[];
  /** What is kept in columns of every record. A block without a column is still to get it. */
  readonly fields: Fields;
  /** The field that says in which partition a record is; a block holds records of one. */
  readonly partitionBy?: string;
  /**
   * Hashes of the manifests before this one, the newest first, as many as are kept. Undefined in
   * manifests of older programs.
   */
  readonly history?: readonly string[];
}

const FORMAT = 3;
/** Of older programs: without history, and without compressors (1) or with (2). */
const OLDER_FORMATS = [1, 2];
/**
 * How many hashes a manifest names: a client that has missed fewer versions than this still notices
 * a fork.
 */
export const HISTORY = 128;
/**
 * Length of a hash. Only clients with the key make manifests, so nobody else can look for
 * collisions.
 */
const HASH_BYTES = 16;

/** What tells a sealed manifest from every other. */
export async function manifestHash(sealed: Uint8Array): Promise<string> {
  return hex((await sha256(sealed)).subarray(0, HASH_BYTES));
}

/** The history of the manifest that follows one with this hash and history. */
export function historyAfter(hash: string, history: readonly string[] = []): string[] {
  return [hash, ...history].slice(0, HISTORY);
}

/**
 * Optional parts, by name. A program that does not know a part marked `must` may not use the
 * collection. It may ignore any other, and drops it when it writes the next manifest.
 */
interface Parts {
  readonly models?: { readonly must: true; readonly value: readonly ManifestCompressor[] };
  /** By block. */
  readonly tags?: { readonly must: true; readonly value: Readonly<Record<string, string>> };
  /** Of every block, in their order; without this part all are of the first. */
  readonly editions?: { readonly must: true; readonly value: readonly Edition[] };
  /** By block. */
  readonly canaries?: { readonly must: true; readonly value: Readonly<Record<string, readonly [string, number]>> };
  /** In the order in which they were named. */
  readonly fields?: { readonly must: true; readonly value: readonly (readonly [string, FieldType])[] };
  /** Of every block, in their order: columns by field. */
  readonly columns?: { readonly must: true; readonly value: readonly (readonly (readonly [string, string])[])[] };
  /** The field, and the value of every block, in their order. */
  readonly partitions?: {
    readonly must: true;
    readonly value: { readonly field: string; readonly blocks: readonly (string | null)[] };
  };
}
const KNOWN_PARTS = new Set(['models', 'tags', 'editions', 'canaries', 'fields', 'columns', 'partitions']);
const EDITIONS: readonly number[] = [1, 2];

function associatedData(collectionId: Uint8Array, version: number): Uint8Array {
  return concat(
    new TextEncoder().encode('manifest'),
    collectionId,
    u32(version % 2 ** 32),
    u32(Math.floor(version / 2 ** 32)),
  );
}

export async function sealManifest(sealer: Sealer, collectionId: Uint8Array, manifest: Manifest): Promise<Uint8Array> {
  const { version, epoch, blocks, pending, seals, compressors, partitionBy, history = [] } = manifest;
  const fields = Object.entries(manifest.fields);
  const columns = blocks.map((block) => Object.entries(block.columns ?? {}));
  const tagged = blocks.flatMap(({ id, tag }) => (tag === undefined ? [] : [[id, tag] as const]));
  const moved = blocks.flatMap(({ id, canaries: at }) => (at ? [[id, [at.id, at.slots]] as const] : []));
  const editions = blocks.map(({ edition }) => edition);
  const parts: Parts = {
    ...(compressors.length > 0 ? { models: { must: true, value: compressors } } : {}),
    ...(tagged.length > 0 ? { tags: { must: true, value: Object.fromEntries(tagged) } } : {}),
    ...(editions.some((edition) => edition > 1) ? { editions: { must: true, value: editions } } : {}),
    ...(moved.length > 0 ? { canaries: { must: true, value: Object.fromEntries(moved) } } : {}),
    ...(fields.length > 0 ? { fields: { must: true, value: fields } } : {}),
    ...(columns.some((each) => each.length > 0) ? { columns: { must: true, value: columns } } : {}),
    ...(partitionBy === undefined
      ? {}
      : { partitions: { must: true, value: { field: partitionBy, blocks: blocks.map((b) => b.partition ?? null) } } }),
  };
  const text = JSON.stringify({
    format: FORMAT,
    version,
    epoch,
    seals,
    history: history.join(''),
    blocks: blocks.map((b) => [b.id, b.hash, b.epoch, b.count, b.additions, b.lists, b.dead]),
    pending: pending.map((p) => [p.handle, p.version]),
    parts,
  });
  return seal(sealer, new TextEncoder().encode(text), associatedData(collectionId, version));
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
    plain = await sealer.open(sealed, associatedData(collectionId, version));
  } catch {
    throw new HersError(
      'INTEGRITY',
      'the manifest of this collection does not open: it was altered, or the collection was made with another key',
    );
  }
  const content = JSON.parse(new TextDecoder().decode(plain));
  const isOlder = OLDER_FORMATS.includes(content.format);
  if (content.format !== FORMAT && !isOlder)
    throw new HersError('UNSUPPORTED_VERSION', 'this collection was written by a newer version; use that');
  const parts: Parts = content.parts ?? {};
  for (const [name, { must }] of Object.entries(parts)) if (must && !KNOWN_PARTS.has(name)) throw notUnderstood(name);
  const tags = parts.tags?.value ?? {};
  const canaries = parts.canaries?.value ?? {};
  const columns = parts.columns?.value ?? [];
  const partitions = parts.partitions?.value;
  const editions = parts.editions?.value ?? content.blocks.map(() => 1);
  if (editions.length !== content.blocks.length)
    throw new HersError('INTEGRITY', 'the manifest does not say of every block of which edition it is');
  const newer = editions.find((edition: number) => !EDITIONS.includes(edition));
  if (newer !== undefined)
    throw new HersError(
      'UNSUPPORTED_VERSION',
      `this collection holds blocks of edition ${newer}, which a newer version has written; use that`,
    );
  return {
    version: content.version,
    epoch: content.epoch,
    seals: content.seals,
    blocks: content.blocks.map(([id, hash, epoch, count, additions, lists, dead]: Row, i: number) => ({
      id,
      hash,
      ...(Object.hasOwn(tags, id) ? { tag: tags[id] } : {}),
      epoch,
      edition: editions[i],
      count,
      additions,
      ...(Object.hasOwn(canaries, id) ? { canaries: { id: canaries[id][0], slots: canaries[id][1] } } : {}),
      lists,
      ...(columns[i]?.length > 0 ? { columns: Object.fromEntries(columns[i]) } : {}),
      ...(typeof partitions?.blocks[i] === 'string' ? { partition: partitions.blocks[i] } : {}),
      dead,
    })),
    compressors: (isOlder ? content.models : parts.models?.value) ?? [],
    pending: content.pending.map(([handle, recordVersion]: [string, string]) => ({ handle, version: recordVersion })),
    fields: Object.assign(Object.create(null), Object.fromEntries(parts.fields?.value ?? [])),
    ...(partitions ? { partitionBy: partitions.field } : {}),
    ...(isOlder ? {} : { history: content.history.match(new RegExp(`.{${2 * HASH_BYTES}}`, 'g')) ?? [] }),
  };
}

export function emptyManifest(version: number, fields: Fields = {}, partitionBy?: string): Manifest {
  const partitions = partitionBy === undefined ? {} : { partitionBy };
  return { version, epoch: 0, seals: 0, blocks: [], pending: [], compressors: [], fields, ...partitions, history: [] };
}

/** Records that can be found: in blocks and not dead, or pending. */
export function liveCount({
  blocks,
  pending,
}: {
  readonly blocks: readonly ManifestBlock[];
  readonly pending: { readonly length: number };
}): number {
  return blocks.reduce((sum, block) => sum + block.count - block.dead.length, pending.length);
}
