// The manifest: the client's own list of what a collection holds. It is sealed (so authenticated)
// under a key from the master seed and bound to the collection and its version; a store can keep
// it, or lose it, but not alter it. Sealing rather than only authenticating it hides which slots
// are deleted and which records were written again unchanged.
//
// Every manifest names the hashes of those before it, so that a history that forks shows
// (versions.ts).
//
// In a collection with partitions, what the manifest says about blocks and pending records is in
// sections of their own, one for each partition, so that a token can be limited to some (the
// container is that of @hers/service, partitions.ts). The rest is bound to the hashes of all of
// them, and the hash of a manifest does not depend on which sections somebody is shown.

import { decodeSections, encodeSections, HersError, otherFormat } from '@hers/service';
import { concat, fromHex, hex, sha256, u32 } from '../bytes.ts';
import { EXPECTED, type Fields, type FieldType, invalid } from '../fields/field.ts';
import { type Sealer, seal } from '../sealing/sealing.ts';

export interface ManifestBlock {
  /** Hexadecimal, as all ids here: they are keys of maps. */
  readonly id: string;
  /** SHA-256 of the encoded block. */
  readonly hash: string;
  readonly epoch: number;
  /** Of records; its canaries are not counted. */
  readonly count: number;
  /** The sealed list that says which record is in which slot. */
  readonly list: string;
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
  /** Where there are sections: the partition it is in, if it is in one. */
  readonly partition?: string | undefined;
}

/** What a manifest says about the blocks and pending records of one partition, or of none. */
export interface ManifestSection {
  /** Of the partition. */
  readonly handle: string;
  /** SHA-256 of its bytes. */
  readonly hash: string;
  /** Undefined where a limited token does not show it. */
  readonly sealed?: Uint8Array | undefined;
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

/** A device that may ask and, if it says so, enrol (docs/devices.md). */
export interface ManifestDevice {
  /** By which the store knows it; never given twice. */
  readonly number: number;
  readonly name: string;
  /** It signs with the counterpart of this key, which is hexadecimal. */
  readonly key: string;
  /** When it was added and revoked: milliseconds since 1970. */
  readonly added: number;
  readonly revoked?: number;
  /** How many records it may enrol, and into which partition; without this it may enrol none. */
  readonly enrol?: { readonly most: number; readonly partition?: string };
  /**
   * Of a device with a key of its own: the number of the secret that it encrypts under, which no
   * bundle had before, and the collection's key that it was made for.
   */
  readonly own?: { readonly secret: number; readonly keyId: string };
}

/** Evaluation keys of an epoch, under `open`: for the store, kept as lists are, but not sealed. */
export interface ManifestEvaluation {
  readonly epoch: number;
  /** Of the key that they belong to; another compressor means another key. */
  readonly keyId: string;
  readonly generation: number;
  /** A list for each piece but those of devices. */
  readonly lists: readonly string[];
  /** The lists of devices with keys of their own, by the numbers of their secrets. */
  readonly devices?: Readonly<Record<string, string>>;
}

export function evaluationListsOf({ lists, devices = {} }: ManifestEvaluation): string[] {
  return [...lists, ...Object.values(devices)];
}

export interface Manifest {
  readonly version: number;
  /** New things are encrypted under it; blocks of older ones remain while keys are rotated. */
  readonly epoch: number;
  readonly blocks: readonly ManifestBlock[];
  /** Records that are in the vault and in no block yet. */
  readonly pending: readonly ManifestRecord[];
  /** Seals made under this epoch, which must stay below 2^32. */
  readonly seals: number;
  /** Of the epochs that have one; at most one of each. */
  readonly compressors: readonly ManifestCompressor[];
  /** Of the epochs that have blocks with open queries; at most one of each. */
  readonly evaluation: readonly ManifestEvaluation[];
  /** What is kept in columns of every record. A block without a column is still to get it. */
  readonly fields: Fields;
  /** All that there ever were, in the order of their numbers. */
  readonly devices?: readonly ManifestDevice[];
  /** The field that says in which partition a record is; a block holds records of one. */
  readonly partitionBy?: string;
  /** Of all partitions, also those that are not opened; undefined where there are no partitions. */
  readonly sections?: readonly ManifestSection[];
  /** Hashes of the manifests before this one, the newest first, as many as are kept. */
  readonly history: readonly string[];
}

const FORMAT = 1;
/** Hashes that a manifest names: a client that has missed fewer versions still notices a fork. */
export const HISTORY = 128;
/** Of a hash. Only clients with the key make manifests, so nobody else looks for collisions. */
const HASH_BYTES = 16;

export async function manifestHash(sealed: Uint8Array): Promise<string> {
  const { sections, rest } = decodeSections(sealed) ?? { rest: sealed };
  const named = sections ? concat(headOf(sections), rest) : sealed;
  return hex((await sha256(named)).subarray(0, HASH_BYTES));
}

/** The names and hashes of all sections. */
function headOf(sections: readonly { readonly handle: Uint8Array; readonly hash: Uint8Array }[]): Uint8Array {
  const named = sections.map(({ handle, hash }) => ({ handle, hash }));
  return encodeSections({ sections: named, rest: new Uint8Array(0) });
}

export function historyAfter(hash: string, history: readonly string[]): string[] {
  return [hash, ...history].slice(0, HISTORY);
}

/**
 * Optional parts, by name. A program that does not know a part marked `must` may not use the
 * collection. It may ignore any other, and drops it when it writes the next manifest.
 */
interface Parts {
  readonly compressors?: { readonly must: true; readonly value: readonly ManifestCompressor[] };
  readonly evaluation?: { readonly must: true; readonly value: readonly ManifestEvaluation[] };
  readonly devices?: { readonly must: true; readonly value: readonly ManifestDevice[] };
  /** In the order in which they were named. */
  readonly fields?: { readonly must: true; readonly value: readonly (readonly [string, FieldType])[] };
  /** Of every block, in their order: columns by field. */
  readonly columns?: { readonly must: true; readonly value: readonly (readonly (readonly [string, string])[])[] };
  readonly partitionBy?: { readonly must: true; readonly value: string };
}

function associatedData(collectionId: Uint8Array, version: number): Uint8Array {
  return concat(
    new TextEncoder().encode('manifest'),
    collectionId,
    u32(version % 2 ** 32),
    u32(Math.floor(version / 2 ** 32)),
  );
}

/**
 * Which partitions to open, by handle; all by default. The handle of a partition, or of the records
 * that are in none.
 */
export interface PartitionAccess {
  readonly only?: ReadonlySet<string> | undefined;
  readonly handleOf: (partition: string | undefined) => Uint8Array;
}

interface Group {
  readonly partition: string | undefined;
  readonly blocks: ManifestBlock[];
  readonly pending: ManifestRecord[];
}

/** Blocks and pending records by the handle of their partition. */
function groupsOf({ blocks, pending }: Manifest, { handleOf }: PartitionAccess): Map<string, Group> {
  const names = new Map<string | undefined, Group>();
  const groupOf = (partition: string | undefined) => {
    let group = names.get(partition);
    if (!group) names.set(partition, (group = { partition, blocks: [], pending: [] }));
    return group;
  };
  for (const block of blocks) groupOf(block.partition).blocks.push(block);
  for (const record of pending) groupOf(record.partition).pending.push(record);
  return new Map([...names.values()].map((group) => [hex(handleOf(group.partition)), group]));
}

function areSame(one: Group, other: Group): boolean {
  return (
    one.blocks.length === other.blocks.length &&
    one.pending.length === other.pending.length &&
    one.blocks.every((block, i) => block === other.blocks[i]) &&
    one.pending.every(
      ({ handle, version }, i) => handle === other.pending[i].handle && version === other.pending[i].version,
    )
  );
}

const sectionData = (collectionId: Uint8Array, handle: Uint8Array) =>
  concat(new TextEncoder().encode('section'), collectionId, handle);

/**
 * The sections of a manifest. Those that are as they were before, and those that were not opened,
 * stay as they are sealed.
 */
export async function sealSections(
  sealer: Sealer,
  collectionId: Uint8Array,
  manifest: Manifest,
  before: Manifest,
  access: PartitionAccess,
): Promise<ManifestSection[]> {
  const { only } = access;
  const groups = groupsOf(manifest, access);
  const earlier = groupsOf(before, access);
  const sealed = async (handle: string, group: Group): Promise<ManifestSection> => {
    const { blocks, pending } = group;
    const nothing = { compressors: [], evaluation: [], devices: [], fields: {}, history: [] };
    const content = contentOf({ ...manifest, ...nothing, blocks, pending });
    const text = JSON.stringify({ ...content, partition: group.partition ?? null });
    const bytes = await seal(sealer, new TextEncoder().encode(text), sectionData(collectionId, fromHex(handle)));
    return { handle, hash: hex(await sha256(bytes)), sealed: bytes };
  };
  const sections: ManifestSection[] = [];
  for (const section of before.sections ?? []) {
    const { handle } = section;
    const group = groups.get(handle);
    groups.delete(handle);
    if (only && !only.has(handle)) sections.push(section);
    else if (group) {
      const known = earlier.get(handle); // Undefined where somebody has sealed a section of nothing.
      sections.push(known && areSame(group, known) ? section : await sealed(handle, group));
    }
  }
  for (const [handle, group] of groups) sections.push(await sealed(handle, group));
  return sections;
}

/** With the sections that it has, sealed already. */
export async function sealManifest(sealer: Sealer, collectionId: Uint8Array, manifest: Manifest): Promise<Uint8Array> {
  const { version } = manifest;
  if (!manifest.sections) {
    const text = JSON.stringify(contentOf(manifest));
    return seal(sealer, new TextEncoder().encode(text), associatedData(collectionId, version));
  }
  const sections = manifest.sections.map(({ handle, hash, sealed }) => ({
    handle: fromHex(handle),
    hash: fromHex(hash),
    sealed,
  }));
  const text = JSON.stringify(contentOf({ ...manifest, blocks: [], pending: [] }));
  const about = concat(associatedData(collectionId, version), headOf(sections));
  const rest = await seal(sealer, new TextEncoder().encode(text), about);
  return encodeSections({ sections, rest });
}

function contentOf(manifest: Manifest) {
  const { version, epoch, seals, blocks, pending, history } = manifest;
  const { compressors, evaluation, devices = [], partitionBy } = manifest;
  const fields = Object.entries(manifest.fields);
  const columns = blocks.map((block) => Object.entries(block.columns ?? {}));
  const parts: Parts = {
    ...(compressors.length > 0 ? { compressors: { must: true, value: compressors } } : {}),
    ...(evaluation.length > 0 ? { evaluation: { must: true, value: evaluation } } : {}),
    ...(devices.length > 0 ? { devices: { must: true, value: devices } } : {}),
    ...(fields.length > 0 ? { fields: { must: true, value: fields } } : {}),
    ...(columns.some((each) => each.length > 0) ? { columns: { must: true, value: columns } } : {}),
    ...(partitionBy === undefined ? {} : { partitionBy: { must: true, value: partitionBy } }),
  };
  return {
    format: FORMAT,
    version,
    epoch,
    seals,
    history: history.join(''),
    blocks: blocks.map((b) => [b.id, b.hash, b.epoch, b.count, b.list, b.dead]),
    pending: pending.map((p) => [p.handle, p.version]),
    parts,
  };
}

type Row = [string, string, number, number, string, number[]];

/**
 * Opens the manifest that a store says is of this version, with the sections of some partitions, or
 * of all. INTEGRITY when it is not, a section is missing, or one names what is of another
 * partition: a client whose token is limited has the key, and can seal anything as its own section.
 */
export async function openManifest(
  sealer: Sealer,
  collectionId: Uint8Array,
  version: number,
  sealed: Uint8Array,
  { only, handleOf }: PartitionAccess,
): Promise<Manifest> {
  const { sections, rest } = decodeSections(sealed) ?? { rest: sealed };
  const about = associatedData(collectionId, version);
  const plain = await opened(
    sealer,
    rest,
    sections ? concat(about, headOf(sections)) : about,
    'the manifest of this collection does not open: it was altered, or the collection was made with another key',
  );
  const manifest = manifestIn(contentIn(plain));
  if ((manifest.partitionBy === undefined) !== (sections === undefined)) throw new HersError('INTEGRITY', SHAPELESS);
  if (!sections) {
    if (only) throw invalid(`this collection ${NOT_LIMITED}`);
    return manifest;
  }
  const named = sections.map(({ handle, hash, sealed: bytes }) => ({
    handle: hex(handle),
    hash: hex(hash),
    sealed: bytes,
  }));
  const blocks: ManifestBlock[] = [];
  const pending = new Map<string, ManifestRecord>();
  for (const { handle, hash, sealed: bytes } of named) {
    if (only && !only.has(handle)) continue;
    if (!bytes) throw new HersError('INTEGRITY', HIDDEN);
    if (hex(await sha256(bytes)) !== hash)
      throw new HersError('INTEGRITY', 'the store gave another section of the manifest than it names');
    const about = sectionData(collectionId, fromHex(handle));
    const error = 'a section of the manifest does not open: whoever wrote it had another key';
    const content = contentIn(await opened(sealer, bytes, about, error));
    const section = manifestIn(content);
    const partition = typeof content.partition === 'string' ? content.partition : undefined;
    if (
      hex(handleOf(partition)) !== handle ||
      section.partitionBy !== manifest.partitionBy ||
      section.blocks.some(({ id }) => !id.startsWith(handle))
    )
      throw new HersError('INTEGRITY', MISPLACED);
    for (const block of section.blocks) blocks.push(partition === undefined ? block : { ...block, partition });
    for (const record of section.pending) {
      if (pending.has(record.handle)) throw new HersError('INTEGRITY', MISPLACED);
      pending.set(record.handle, { ...record, partition });
    }
  }
  return { ...manifest, blocks, pending: [...pending.values()], sections: named };
}

async function opened(sealer: Sealer, sealed: Uint8Array, about: Uint8Array, error: string): Promise<Uint8Array> {
  try {
    return await sealer.open(sealed, about);
  } catch (cause) {
    if (cause instanceof HersError && cause.code !== 'INTEGRITY') throw cause; // A wiped key opens nothing.
    throw new HersError('INTEGRITY', error);
  }
}

const NOT_LIMITED = 'has no partitions that a token can be limited to: they are named when it is made (partitionBy)';
const MISPLACED =
  'a section of the manifest names what is of another partition: a client with the key of this collection has forged it';
const SHAPELESS =
  'the manifest, or a section of it, does not have the form that clients give it: a client with the key of this collection has forged it';
const HIDDEN =
  'the store does not show all partitions of this collection. With a token that is limited to some, say to which (the option partitions); otherwise the store hides records';

// biome-ignore lint/suspicious/noExplicitAny: JSON that anybody with the key may have sealed.
type Content = any;

/** INTEGRITY unless a client, of whatever version, can have written it. */
function contentIn(plain: Uint8Array): Content {
  let content: Content;
  try {
    content = JSON.parse(new TextDecoder().decode(plain));
  } catch {
    throw new HersError('INTEGRITY', SHAPELESS);
  }
  if (Number.isInteger(content?.format) && content.format !== FORMAT) throw otherFormat('this collection');
  const { parts = {} } = content ?? {};
  if (isRecord(parts))
    for (const [name, part] of Object.entries(parts))
      if (!KNOWN_PARTS.has(name) && isRecord(part) && part.must) throw otherFormat('this collection');
  if (!isRecord(content) || !isContent(content)) throw new HersError('INTEGRITY', SHAPELESS);
  return content;
}

type Is = (value: unknown) => boolean;

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isText: Is = (value) => typeof value === 'string';
const isHex: Is = (value) => typeof value === 'string' && /^(?:[0-9a-f]{2})*$/.test(value);
const isCount: Is = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isListOf =
  (is: Is): Is =>
  (value) =>
    Array.isArray(value) && value.every((each) => is(each));
const isRow =
  (...columns: readonly Is[]): Is =>
  (value) =>
    Array.isArray(value) && value.length === columns.length && columns.every((is, i) => is(value[i]));
const isTableOf =
  (is: Is): Is =>
  (value) =>
    isRecord(value) && Object.values(value).every((each) => is(each));
const isShape =
  (shape: Readonly<Record<string, Is>>): Is =>
  (value) =>
    isRecord(value) && Object.entries(shape).every(([name, is]) => is(value[name]));

const isCompressors = isListOf(
  isShape({ epoch: isCount, method: isText, dimension: isCount, digest: isHex, lists: isListOf(isHex) }),
);
const isDevices: Is = (value) =>
  Array.isArray(value) &&
  value.every(
    (each, i) =>
      isShape({ number: isCount, name: isText, key: isHex, added: isCount })(each) &&
      each.number === i + 1 &&
      (each.revoked === undefined || isCount(each.revoked)) &&
      (each.own === undefined || isShape({ secret: isCount, keyId: isHex })(each.own)) &&
      (each.enrol === undefined ||
        (isShape({ most: isCount })(each.enrol) &&
          (each.enrol.partition === undefined || isText(each.enrol.partition)))),
  );
const isBlockRow = isRow(isHex, isHex, isCount, isCount, isHex, isListOf(isCount));
/** What the parts hold that are known. */
const IS_PART: Readonly<Record<keyof Parts, Is>> = {
  compressors: isCompressors,
  evaluation: isListOf(
    isShape({
      epoch: isCount,
      keyId: isHex,
      generation: isCount,
      lists: isListOf(isHex),
      devices: (value) => value === undefined || isTableOf(isHex)(value),
    }),
  ),
  devices: isDevices,
  fields: isListOf(isRow(isText, isText)),
  columns: isListOf(isListOf(isRow(isText, isHex))),
  partitionBy: isText,
};

const KNOWN_PARTS: ReadonlySet<string> = new Set(Object.keys(IS_PART));

function isContent(content: Content): boolean {
  const { format, version, epoch, seals, blocks, pending, history, parts } = content;
  // Ascending, and all of them slots of the block.
  const areDead = ([, , , count, , dead]: Row) =>
    dead.every((slot, i) => slot < count && (i === 0 || dead[i - 1] < slot));
  return (
    format === FORMAT &&
    [version, epoch, seals].every(isCount) &&
    isListOf(isBlockRow)(blocks) &&
    blocks.every(areDead) &&
    isListOf(isRow(isHex, isHex))(pending) &&
    isHex(history) &&
    isRecord(parts) &&
    Object.entries(parts).every(
      ([name, part]) => isRecord(part) && (!KNOWN_PARTS.has(name) || IS_PART[name as keyof Parts](part.value)),
    )
  );
}

function manifestIn(content: Content): Manifest {
  const parts: Parts = content.parts;
  const columns = parts.columns?.value ?? [];
  if (parts.fields?.value.some(([, type]) => !Object.hasOwn(EXPECTED, type))) throw otherFormat('this collection');
  return {
    version: content.version,
    epoch: content.epoch,
    seals: content.seals,
    blocks: content.blocks.map(([id, hash, epoch, count, list, dead]: Row, i: number) => {
      const named = columns[i]?.length > 0 ? { columns: Object.fromEntries(columns[i]) } : {};
      return { id, hash, epoch, count, list, ...named, dead };
    }),
    compressors: parts.compressors?.value ?? [],
    evaluation: parts.evaluation?.value ?? [],
    pending: content.pending.map(([handle, recordVersion]: [string, string]) => ({ handle, version: recordVersion })),
    ...(parts.devices ? { devices: parts.devices.value } : {}),
    fields: Object.assign(Object.create(null), Object.fromEntries(parts.fields?.value ?? [])),
    ...(parts.partitionBy ? { partitionBy: parts.partitionBy.value } : {}),
    history: content.history.match(new RegExp(`.{${2 * HASH_BYTES}}`, 'g')) ?? [],
  };
}

export function emptyManifest(version: number, fields: Fields = {}, partitionBy?: string): Manifest {
  const partitions = partitionBy === undefined ? {} : { partitionBy, sections: [] };
  const nothing = { blocks: [], pending: [], compressors: [], evaluation: [] };
  return { version, epoch: 0, seals: 0, ...nothing, fields, ...partitions, history: [] };
}

/** Records that can be found: in blocks and not dead, or pending. */
export function liveCount({
  blocks,
  pending,
}: Pick<Manifest, 'blocks'> & { readonly pending: ArrayLike<unknown> }): number {
  return blocks.reduce((sum, block) => sum + block.count - block.dead.length, pending.length);
}
