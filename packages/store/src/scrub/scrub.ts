// Compares every byte of a folder's files with the checksums that were written with it, to find
// silent data loss before the data is needed. Worker threads read the bytes (scrub-crew.ts); what
// needs the catalogue is done here.

import { type CallOptions, HANDLE_BYTES, HersError, LIST_ID_BYTES } from '@hers/service';
import { asBuffer, handleKey, hex } from '../base/bytes.ts';
import { damaged } from '../base/storage-errors.ts';
import { readSegmentHeader } from '../blocks/rebuild.ts';
import { isAt, type Source, type StoredBlock } from '../blocks/source.ts';
import type { Collection } from '../collection.ts';
import type { Disk } from '../files/disk.ts';
import { PACK_HEADER_BYTES } from '../files/entry.ts';
import { atOneMoment, entriesMissing, isFrozen, type Moment, recordPlaces } from '../snapshot.ts';
import { ScrubCrew } from './scrub-crew.ts';
import { type Sum, Tally, talliesOf } from './scrub-tally.ts';
import { type Done, type Entries, LIST_ROW, RECORD_ROW, STRETCH_BYTES, type Task } from './scrub-task.ts';

/** A file that was read to its end, or up to its damage. */
export interface Scrubbed {
  /** Its path within the folder. */
  readonly file: string;
  /** The collection it belongs to; the catalogue belongs to all. */
  readonly collection?: string;
  /** How long it is. */
  readonly bytes: number;
  /** What is wrong with it, if anything is. */
  readonly damage?: HersError;
}

/** How a folder is read through. */
export interface ScrubOptions extends Omit<CallOptions, 'partitions'> {
  /** Called with the number of bytes done, also in the middle of a file. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
  /** How many threads read. By default one per core, and none for a small folder. */
  readonly threads?: number;
}

export class Scrub {
  readonly #crew: ScrubCrew;
  readonly #onProgress: ScrubOptions['onProgress'];
  readonly #total: number;
  #done = 0;

  constructor(collections: readonly Collection[], catalogueBytes: number, options: ScrubOptions = {}) {
    const bytes = collections.reduce((sum, collection) => sum + bytesOf(collection), 0);
    this.#onProgress = options.onProgress;
    this.#total = catalogueBytes + bytes;
    this.#crew = new ScrubCrew(bytes, options.threads);
  }

  tell(bytes: number): void {
    this.#done += bytes;
    // Data written since the scrub began is read too, but does not change the total.
    this.#onProgress?.({ done: Math.min(this.#done, this.#total), total: this.#total });
  }

  collection(collection: Collection, signal: AbortSignal): AsyncGenerator<Scrubbed> {
    const tell = (bytes: number) => this.tell(bytes);
    return atOneMoment(collection, signal, (moment) =>
      new CollectionScrub(collection, moment, this.#crew, tell).files(),
    );
  }

  close(): Promise<void> {
    return this.#crew.close();
  }
}

function bytesOf({ tables, sources }: Collection): number {
  const packs = tables.packs().reduce((sum, { ends }) => sum + ends, 0);
  return [...sources].reduce((sum, { bytes }) => sum + bytes, packs);
}

// Verifies the files of a collection as of one moment.
//
// A segment is verified like this: its name is the hash of its header, and the header holds the ids
// of the blocks and the checksum of every part. The catalogue's rows must agree for each block. No
// block is reassembled. That would only verify the catalogue's own data in addition (the seed of a
// mask, the hash of a block), and its pages have their own checksums. Every operation that returns
// blocks does reassemble them and compare the hash: `getBlock`, `snapshot`, compaction.
//
// A pack is verified by the checksum of every entry, dead ones included, and by finding every entry
// where the catalogue says it is (scrub-tally.ts).

type Captured = Parameters<Parameters<typeof atOneMoment>[2]>[0];
type Pack = Moment['packs'][number];
/** Called with the number of bytes done. */
type Tell = (bytes: number) => void;

interface ScrubFile {
  readonly path: string;
  readonly bytes: number;
  verify(tell: Tell): Promise<void>;
}

class CollectionScrub {
  readonly #collection: Collection;
  readonly #disk: Disk;
  readonly #moment: Captured;
  readonly #crew: ScrubCrew;
  readonly #tell: Tell;
  /** Records and lists that the catalogue names, minus those found. */
  #missing: number;
  #tallies: Promise<Map<number, Sum>> | undefined;

  constructor(collection: Collection, moment: Captured, crew: ScrubCrew, tell: Tell) {
    this.#collection = collection;
    this.#disk = collection.folder.disk;
    this.#moment = moment;
    this.#crew = crew;
    this.#tell = tell;
    this.#missing = moment.header.records + moment.header.lists;
  }

  /**
   * Verifies the files, several at a time, and continues after damage, to report all of it. Results
   * come in the order of the catalogue.
   */
  async *files(): AsyncGenerator<Scrubbed> {
    const { number, name } = this.#collection;
    const packs = this.#moment.packs.map((pack) => this.#pack(pack));
    const sources = [...Map.groupBy(this.#moment.blocks, ({ source }) => source)].map((each) => this.#source(...each));
    const scrubbed = inOrder([...packs, ...sources], this.#crew.size + 1, (file) => this.#verify(file));
    let whole = true;
    for (const _ of packs) {
      const { value } = await scrubbed.next();
      whole &&= !value.damage;
      yield value;
    }
    if (whole && this.#missing !== 0)
      yield { file: 'vault', collection: name, bytes: 0, damage: entriesMissing(number, this.#missing) };
    yield* scrubbed;
  }

  async #verify({ path, bytes, verify }: ScrubFile): Promise<Scrubbed> {
    let left = bytes;
    const tell = (read: number) => {
      const more = Math.min(left, read); // nothing counts twice, though some may be read twice
      left -= more;
      this.#tell(more);
    };
    const damage = await verify(tell).then(() => undefined, damageIn);
    tell(left);
    return { file: path, collection: this.#collection.name, bytes, ...(damage ? { damage } : {}) };
  }

  // — packs —

  #pack(pack: Pack): ScrubFile {
    const verify = async (tell: Tell) => {
      if (!(this.#isAllLive(pack) && (await this.#addsUp(pack, tell)))) await this.#lookUp(pack, tell);
    };
    return { path: this.#collection.vault.path(pack.pack), bytes: pack.ends, verify };
  }

  /** Whether the B-tree names everything in the pack: no entry is dead or fresh. */
  #isAllLive({ ends, live }: Pack): boolean {
    const isMerged = !isFrozen(this.#collection) || this.#collection.records.fresh === 0;
    return isMerged && live === ends - PACK_HEADER_BYTES;
  }

  /**
   * Verifies a pack, and returns whether its records are exactly those that the catalogue names
   * there.
   */
  async #addsUp(pack: Pack, tell: Tell): Promise<boolean> {
    this.#tallies ??= talliesOf(this.#collection, this.#moment.signal);
    this.#tallies.catch(() => {}); // awaited below
    const tally = new Tally();
    let lists = 0;
    for await (const entries of this.#entries(pack, true, tell)) {
      tally.addAll(entries.sum);
      lists += this.#namedLists(pack.pack, entries.lists);
    }
    if (!tally.equals((await this.#tallies).get(pack.pack))) return false;
    this.#missing -= tally.records + lists;
    return true;
  }

  /** Verifies a pack, and looks up each of its records in the catalogue. */
  async #lookUp(pack: Pack, tell: Tell): Promise<void> {
    for await (const { records, lists } of this.#entries(pack, false, tell))
      this.#missing -= this.#namedRecords(pack.pack, records) + this.#namedLists(pack.pack, lists);
  }

  /** The content of a pack, a stretch at a time. The next stretch is read while one is checked. */
  async *#entries({ pack, ends }: Pack, adds: boolean, tell: Tell): AsyncGenerator<Entries> {
    const path = this.#collection.vault.path(pack);
    const file = { kind: 'entries', path, place: this.#disk.path(path), collectionId: this.#collection.id } as const;
    const read = (from: number) => {
      const done = this.#crew.run({ ...file, pack, adds, from, end: ends }, this.#moment.signal);
      done.catch(() => {}); // awaited below
      return done;
    };
    let next: Promise<Done> | undefined = read(0);
    for (let at = 0; next; ) {
      const { bytes, entries }: Done = await next;
      at += bytes;
      next = at < ends ? read(at) : undefined;
      yield entries!;
      tell(bytes);
    }
  }

  /** How many of these records the catalogue names at their place. */
  #namedRecords(pack: number, rows: Uint8Array): number {
    const buffer = asBuffer(rows);
    const handles = Array.from({ length: rows.length / RECORD_ROW }, (_, i) =>
      buffer.subarray(i * RECORD_ROW, i * RECORD_ROW + HANDLE_BYTES),
    );
    const places = recordPlaces(this.#collection, handles);
    return handles.filter((handle, i) => {
      const place = places.get(handleKey(handle));
      return place?.pack === pack && place.offset === buffer.readUInt32LE(i * RECORD_ROW + HANDLE_BYTES);
    }).length;
  }

  #namedLists(pack: number, rows: Uint8Array): number {
    const buffer = asBuffer(rows);
    let named = 0;
    for (let at = 0; at < rows.length; at += LIST_ROW) {
      const place = this.#moment.lists.get(hex(rows.subarray(at, at + LIST_ID_BYTES)));
      if (place?.pack === pack && place.offset === buffer.readUInt32LE(at + LIST_ID_BYTES)) named++;
    }
    return named;
  }

  // — blocks —

  #source({ path, bytes, inSegment }: Source, blocks: readonly StoredBlock[]): ScrubFile {
    const verify = async (tell: Tell) => {
      const tasks = inSegment ? await this.#segmentTasks(path, blocks) : [this.#blockTask(path, bytes, blocks[0])];
      const { signal } = this.#moment;
      const done = inOrder(tasks, Math.max(1, this.#crew.size), (task) => this.#crew.run(task, signal));
      for await (const { bytes } of done) tell(bytes);
    };
    return { path, bytes, verify };
  }

  #blockTask(path: string, bytes: number, { hash }: StoredBlock): Task {
    return { kind: 'block', path, place: this.#disk.path(path), bytes, hash };
  }

  /** Verifies the header of a segment, and returns the remaining work. */
  async #segmentTasks(path: string, blocks: readonly StoredBlock[]): Promise<Task[]> {
    using file = this.#disk.openToRead(path);
    const header = await readSegmentHeader(file);
    for (const block of blocks)
      if (!isInSegment(header, block)) throw damaged(path, `block ${block.name} in it is not what was written`);
    const { dataAt, partBytes, partChecksums } = header;
    const together = Math.max(1, Math.floor(STRETCH_BYTES / partBytes));
    const place = this.#disk.path(path);
    return Array.from({ length: Math.ceil(partChecksums.length / together) }, (_, i) => {
      const first = i * together;
      const sums = partChecksums.slice(first, first + together);
      return { kind: 'parts', path, place, first, at: dataAt + first * partBytes, partBytes, sums };
    });
  }
}

function isInSegment(header: Awaited<ReturnType<typeof readSegmentHeader>>, block: StoredBlock): boolean {
  const entry = header.blocks[block.position];
  return isAt(header, block) && entry.first === block.first && entry.count === block.count;
}

/**
 * An unreadable file is a finding. Any other error, such as an abort or a lack of memory, ends the
 * scrub.
 */
function damageIn(error: unknown): HersError {
  if (error instanceof HersError && (error.code === 'DAMAGED' || error.code === 'STORAGE')) return error;
  throw error;
}

/** The results of `work`, in order, with `together` running at a time. */
async function* inOrder<T, R>(items: readonly T[], together: number, work: (item: T) => Promise<R>): AsyncGenerator<R> {
  const running: Promise<R>[] = [];
  for (let next = 0; next < items.length || running.length > 0; ) {
    while (running.length < together && next < items.length) {
      const made = work(items[next++]);
      made.catch(() => {}); // awaited later, or not at all
      running.push(made);
    }
    yield await running.shift()!;
  }
}

/** The files of a collection, each with what its length shows. */
export function lengthsOf({ name, folder, sources, vault, tables }: Collection): Scrubbed[] {
  // Beyond the end of a pack are entries being written, or left by a crash.
  const packs = tables.packs().map(({ pack, ends }) => ({ path: vault.path(pack), bytes: ends, mayBeLonger: true }));
  const blocks = [...sources].map(({ path, bytes }) => ({ path, bytes, mayBeLonger: false }));
  return [...packs, ...blocks].map(({ path, bytes, mayBeLonger }) => {
    const size = folder.disk.sizeSync(path);
    const fits = size === bytes || (mayBeLonger && size !== undefined && size > bytes);
    if (fits) return { file: path, collection: name, bytes };
    const what = size === undefined ? 'it is missing' : `it has ${size} bytes and should have ${bytes}`;
    return { file: path, collection: name, bytes, damage: damaged(path, what) };
  });
}
