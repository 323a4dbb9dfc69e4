// Where in the files of an intact gallery all of its data is: entries of packs, blocks, lists and
// the records in them. Read with the key before anything is damaged, so that the campaign knows
// afterwards what may be lost.

import { createDecipheriv, createHash, createHmac } from 'node:crypto';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { MasterSeed } from '@hers/client';
import { panelRuns, type SegmentHeader } from '@hers/scan';
import { type KnownCollection, openSalvage, type Salvage } from '@hers/store/salvage';
import type { Gallery } from './galleries.ts';
import { idOf, type Truth } from './truth.ts';

export interface Place {
  readonly path: string;
  readonly from: number;
  readonly to: number;
}

export interface Listed {
  readonly places: readonly Place[];
  readonly ids: readonly string[];
}

export interface BlockContent {
  /** All of its bytes, wherever they are. */
  readonly places: readonly Place[];
  /** The header of the segment that holds it. */
  readonly head?: Place;
  readonly list: Listed;
}

export interface CollectionContent {
  readonly name: string;
  /** Every copy of the current entry, by id. */
  readonly records: ReadonlyMap<string, readonly Place[]>;
  readonly blocks: readonly BlockContent[];
}

const RECORD = 1;
const HANDLE_BYTES = 16;
const LIST_HEAD_BYTES = 8;
const VERSION_BYTES = 16;

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/** As the client seals: nonce, ciphertext, tag. */
function unseal(key: Uint8Array, about: Uint8Array, sealed: Uint8Array): Buffer {
  const cipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12));
  cipher.setAAD(about);
  cipher.setAuthTag(sealed.subarray(-16));
  return Buffer.concat([cipher.update(sealed.subarray(12, -16)), cipher.final()]);
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

type BlockRow = [id: string, hash: string, epoch: number, count: number, list: string];

/** As client/src/formats/manifest.ts writes it. */
function blocksOf(key: MasterSeed, { id, version, manifest }: KnownCollection): BlockRow[] {
  const about = Buffer.concat([Buffer.from('manifest'), id, u32(version), u32(0)]);
  return JSON.parse(unseal(key.deriveKey('manifest', id), about, manifest).toString()).blocks;
}

/** The records in a list, as client/src/formats/lists.ts writes it. */
function idsIn(plain: Buffer): string[] {
  const ids: string[] = [];
  let at = LIST_HEAD_BYTES;
  for (let left = plain.readUInt32LE(4); left > 0; left--) {
    const start = at + 2 + VERSION_BYTES;
    at = start + plain.readUInt16LE(at);
    ids.push(plain.toString('utf8', start, at));
  }
  return ids;
}

interface Entries {
  /** By handle and by hash, in hexadecimal. */
  readonly records: Map<string, Place[]>;
  readonly lists: Map<string, { readonly places: Place[]; readonly sealed: Uint8Array }>;
}

async function entriesOf(salvage: Salvage): Promise<Entries> {
  const records: Entries['records'] = new Map();
  const lists: Entries['lists'] = new Map();
  for await (const { pack, found } of salvage.scan()) {
    for (const { entry, offset, length } of found) {
      const place = { path: salvage.packs[pack].path, from: offset, to: offset + length };
      if (entry.kind === RECORD) {
        const handle = hex(entry.content.subarray(0, HANDLE_BYTES));
        const places = records.get(handle);
        if (places) places.push(place);
        else records.set(handle, [place]);
      } else {
        const hash = createHash('sha256').update(entry.content).digest('hex');
        const list = lists.get(hash) ?? { places: [], sealed: new Uint8Array(entry.content) };
        lists.set(hash, list);
        list.places.push(place);
      }
    }
  }
  return { records, lists };
}

/** The bytes of one block of a segment; see the layout in scan's segment.ts. */
function inSegment(path: string, header: SegmentHeader, index: number): Place[] {
  const { parameters, rows, blocks, dataAt, partBytes, partChecksums } = header;
  const places: Place[] = [];
  for (let part = 0; part < partChecksums.length; part++)
    for (const { at, bytes } of panelRuns(parameters, rows, blocks.length, index)) {
      const from = dataAt + part * partBytes + at;
      places.push({ path, from, to: from + bytes });
    }
  return places;
}

/** The layout of a gallery; `scratch` is a folder that may be created for it. */
export async function contentsOf(gallery: Gallery, key: MasterSeed, scratch: string): Promise<CollectionContent[]> {
  cpSync(gallery.folder, scratch, { recursive: true });
  const salvage = await openSalvage(scratch, { signal: new AbortController().signal });
  try {
    const entries = await entriesOf(salvage);
    const newest = new Map<string, KnownCollection>();
    for (const known of salvage.collections())
      if (known.version >= (newest.get(known.name)?.version ?? 0)) newest.set(known.name, known);
    const blockPlaces = Map.groupBy(await salvage.blockPlaces(), ({ id }) => id);
    return [...gallery.truths].map(([name, truth]) => {
      const known = newest.get(name)!;
      const blocks = blocksOf(key, known).map(([id, , epoch, , list]): BlockContent => {
        const { path, header, position } = blockPlaces.get(id)![0];
        const size = readFileSync(join(scratch, path)).length;
        const places = header ? inSegment(path, header, position) : [{ path, from: 0, to: size }];
        const about = Buffer.concat([Buffer.from('list'), known.id]);
        const { places: listed, sealed } = entries.lists.get(list)!;
        const listKey = key.deriveKey('seals', Buffer.concat([known.id, u32(epoch)]));
        return {
          places,
          ...(header ? { head: { path, from: 0, to: header.dataAt } } : {}),
          list: { places: listed, ids: idsIn(unseal(listKey, about, sealed)) },
        };
      });
      return { name, records: recordsOf(truth, known, key, salvage, entries), blocks };
    });
  } finally {
    await salvage.close();
    rmSync(scratch, { recursive: true });
  }
}

function recordsOf(
  truth: Truth,
  known: KnownCollection,
  key: MasterSeed,
  salvage: Salvage,
  { records }: Entries,
): Map<string, Place[]> {
  const found = new Map<string, Place[]>();
  const handles = key.deriveKey('handles', known.id);
  const named = salvage.recordPlaces(known)!;
  for (const person of truth.certain()) {
    const id = idOf(person);
    const handle = createHmac('sha256', handles).update(id).digest().subarray(0, HANDLE_BYTES);
    const { pack, offset } = named.get(handle.toString('latin1'))!;
    const path = `vault/${known.number}-${pack}.pack`;
    found.set(
      id,
      records.get(hex(handle))!.filter((place) => place.path === path && place.from === offset),
    );
  }
  return found;
}
