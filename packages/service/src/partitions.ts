// Calls that are held to some partitions of a collection, and what tells a store which partition a
// thing is of. A store knows partitions by their handles, keyed hashes of their names:
//
//   record, list   the handle stands before the sealed bytes
//   block          its id begins with the handle
//   manifest       a head that names a section for each partition, the sections, and the rest:
//
//                  mark (8 bytes), number of sections u32; of each the handle (8), the SHA-256 of
//                  its bytes (32), its length u32 or, where it was left out, 0xffffffff;
//                  the sections one after the other; the manifest's own seal
//
// Who is held to some partitions sees their sections alone, and can replace no others. Lists of all
// partitions (pieces of a compressor) have the handle SHARED: everybody reads them. All of this is
// the client's to use; a store that holds nobody to anything need not look.

import { HersError } from '@hers/scheme';
import { bytesToHex } from '@noble/hashes/utils.js';

export const PARTITION_BYTES = 8;
/** Before lists that belong to the whole collection. */
export const SHARED: Uint8Array = new Uint8Array(PARTITION_BYTES);

/** The partitions that a call is held to: their handles, in hexadecimal digits. */
export type Partitions = ReadonlySet<string>;

/** Whether these bytes begin with the handle of one of the partitions. */
export function isOf(partitions: Partitions, bytes: Uint8Array): boolean {
  return bytes.length >= PARTITION_BYTES && partitions.has(bytesToHex(bytes.subarray(0, PARTITION_BYTES)));
}

export function isShared(bytes: Uint8Array): boolean {
  return bytes.length >= PARTITION_BYTES && SHARED.every((byte, i) => bytes[i] === byte);
}

/** The error for what is of another partition, or of the whole collection. */
export function notHeld(what: string): HersError {
  return new HersError('FORBIDDEN', `${what} is not for a token that is limited to partitions`);
}

/**
 * The blocks that a search names, if it is held to partitions. Blocks of others are not there for
 * it. It has to name some: which ones there are only the manifest says.
 */
export function checkBlocks(partitions: Partitions, blocks: readonly Uint8Array[] | undefined): void {
  if (!blocks) throw notHeld('a search of all blocks');
  const other = blocks.find((id) => !isOf(partitions, id));
  if (other) throw new HersError('NOT_FOUND', `there is no block ${bytesToHex(other)} in this collection`);
}

/** What a manifest says about one partition. */
export interface Section {
  readonly handle: Uint8Array;
  /** SHA-256 of its bytes. */
  readonly hash: Uint8Array;
  /** Undefined where it was left out. */
  readonly sealed?: Uint8Array | undefined;
}

export interface SectionedManifest {
  readonly sections: readonly Section[];
  /** What is not about one partition. */
  readonly rest: Uint8Array;
}

/** No seal begins like this but by a chance of 2^-64. */
const MARK = new TextEncoder().encode('HERSpart');
const HASH_BYTES = 32;
const ROW_BYTES = PARTITION_BYTES + HASH_BYTES + 4;
const HEAD_BYTES = MARK.length + 4;
const LEFT_OUT = 0xffff_ffff;
const MAX_SECTIONS = 2 ** 20;

export function encodeSections({ sections, rest }: SectionedManifest): Uint8Array {
  const bodies = sections.reduce((sum, { sealed }) => sum + (sealed?.length ?? 0), 0);
  const out = new Uint8Array(HEAD_BYTES + ROW_BYTES * sections.length + bodies + rest.length);
  const view = new DataView(out.buffer);
  out.set(MARK);
  view.setUint32(MARK.length, sections.length, true);
  let at = HEAD_BYTES;
  let bodyAt = HEAD_BYTES + ROW_BYTES * sections.length;
  for (const { handle, hash, sealed } of sections) {
    out.set(handle, at);
    out.set(hash, at + PARTITION_BYTES);
    view.setUint32(at + PARTITION_BYTES + HASH_BYTES, sealed?.length ?? LEFT_OUT, true);
    at += ROW_BYTES;
    if (!sealed) continue;
    out.set(sealed, bodyAt);
    bodyAt += sealed.length;
  }
  out.set(rest, bodyAt);
  return out;
}

/** Views of the bytes; undefined if it has no sections. MALFORMED if it breaks off. */
export function decodeSections(manifest: Uint8Array): SectionedManifest | undefined {
  if (!hasSections(manifest)) return undefined;
  const view = new DataView(manifest.buffer, manifest.byteOffset, manifest.length);
  const count = view.getUint32(MARK.length, true);
  const malformed = () => new HersError('MALFORMED', 'this manifest does not hold the sections that it names');
  let bodyAt = HEAD_BYTES + ROW_BYTES * count;
  if (count > MAX_SECTIONS || bodyAt > manifest.length) throw malformed();
  const known = new Set<string>();
  const sections: Section[] = [];
  for (let at = HEAD_BYTES; sections.length < count; at += ROW_BYTES) {
    const handle = manifest.subarray(at, at + PARTITION_BYTES);
    const hash = manifest.subarray(at + PARTITION_BYTES, at + PARTITION_BYTES + HASH_BYTES);
    const length = view.getUint32(at + PARTITION_BYTES + HASH_BYTES, true);
    known.add(bytesToHex(handle));
    if (length === LEFT_OUT) {
      sections.push({ handle, hash });
      continue;
    }
    if (length > manifest.length - bodyAt) throw malformed();
    sections.push({ handle, hash, sealed: manifest.subarray(bodyAt, bodyAt + length) });
    bodyAt += length;
  }
  if (known.size < count) throw new HersError('MALFORMED', 'this manifest has two sections of one partition');
  return { sections, rest: manifest.subarray(bodyAt) };
}

/** A manifest with the sections of these partitions alone. FORBIDDEN if it has no sections. */
export function sectionsOf(manifest: Uint8Array, partitions: Partitions): Uint8Array {
  const { sections, rest } = required(manifest);
  const shown = sections.map(({ handle, hash, sealed }) =>
    isOf(partitions, handle) ? { handle, hash, sealed } : { handle, hash },
  );
  return encodeSections({ sections: shown, rest });
}

/**
 * The manifest `next` of somebody who is held to these partitions, with the sections of all others
 * as they are in the `current` one. Undefined if it names other ones: others have changed
 * meanwhile, or it would change them.
 */
export function withOtherSections(
  current: Uint8Array,
  next: Uint8Array,
  partitions: Partitions,
): Uint8Array | undefined {
  const before = required(current).sections;
  // Counted first: whoever may write could name a million.
  if (countOf(next) > before.length + partitions.size) return undefined;
  const kept = new Map<string, Section>();
  for (const section of before) {
    const handle = bytesToHex(section.handle);
    if (!partitions.has(handle)) kept.set(handle, section);
  }
  const { sections, rest } = required(next);
  const joined: Section[] = [];
  let others = 0;
  for (const section of sections) {
    const handle = bytesToHex(section.handle);
    if (partitions.has(handle)) {
      if (!section.sealed)
        throw new HersError('MALFORMED', 'this manifest names a section of its own partition, and does not hold it');
      joined.push(section);
      continue;
    }
    const other = kept.get(handle);
    if (!other?.hash.every((byte, i) => byte === section.hash[i])) return undefined;
    joined.push(other);
    others++;
  }
  return others === kept.size ? encodeSections({ sections: joined, rest }) : undefined;
}

function hasSections(manifest: Uint8Array): boolean {
  return manifest.length >= HEAD_BYTES && MARK.every((byte, i) => manifest[i] === byte);
}

/** How many sections a manifest names. */
function countOf(manifest: Uint8Array): number {
  if (!hasSections(manifest)) return 0;
  return new DataView(manifest.buffer, manifest.byteOffset, manifest.length).getUint32(MARK.length, true);
}

/**
 * MALFORMED if a manifest leaves sections out: whoever is held to no partitions would lose those of
 * the others.
 */
export function checkWhole(manifest: Uint8Array): void {
  const view = new DataView(manifest.buffer, manifest.byteOffset, manifest.length);
  const end = Math.min(manifest.length, HEAD_BYTES + ROW_BYTES * countOf(manifest));
  for (let at = HEAD_BYTES + ROW_BYTES - 4; at + 4 <= end; at += ROW_BYTES)
    if (view.getUint32(at, true) === LEFT_OUT)
      throw new HersError(
        'MALFORMED',
        'this manifest leaves out sections of other partitions, and this caller is limited to none; open the collection again',
      );
}

function required(manifest: Uint8Array): SectionedManifest {
  const decoded = decodeSections(manifest);
  if (decoded) return decoded;
  throw new HersError(
    'FORBIDDEN',
    'this token is limited to partitions, and the collection has none: make it with partitionBy',
  );
}
