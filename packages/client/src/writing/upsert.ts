// Writing records of any number: while one batch is written, the next is gathered, sealed and
// staged.

import { checkVector } from '@hers/scheme';
import { groupsOf, HersError, type Many, type OptionNames, refuseUnknown } from '@hers/service';
import { type FieldValues, invalid, valuesOf } from '../fields/field.ts';
import { Packing, type PlainBatch, recordsOf, type SealedBatch } from '../formats/batch.ts';
import type { Manifest } from '../formats/manifest.ts';
import { checkId, checkPayload, type PlainRecord, payloadText, type VectorRecord } from '../formats/records.ts';
import type { Space } from '../keys/space.ts';
import type { CollectionSession } from '../session/session.ts';
import { partitionOf } from '../session/view.ts';
import { type Outcome, type SealedRecords, VaultBatch } from './enrolment.ts';
import { optimize } from './maintenance.ts';

/** How records are written. */
export interface UpsertOptions {
  /** Ends the upsert when it aborts; what is acknowledged stays. */
  readonly signal?: AbortSignal;
  /**
   * Called after every commit, with the number of records that are safe, and of all valid ones, if
   * they were given as an array.
   */
  readonly onProgress?: (progress: { readonly acknowledged: number; readonly total?: number }) => void;
  /**
   * Called for every record that cannot be written, which is left out; by default, the first one
   * ends the upsert. `number` is its place among those given, counted from 0. A stream is asked for
   * the next record afterwards.
   */
  readonly onInvalid?: (invalid: {
    readonly record: VectorRecord;
    readonly number: number;
    readonly error: HersError;
  }) => void;
  /**
   * `always`: records that do not fill a block are put into one at the end, as `optimize` does, so
   * that every search is encrypted. `never`, the default: they stay pending until there are enough,
   * and searches compare them in the client, in the clear.
   */
  readonly optimize?: 'never' | 'always';
}

/** What an upsert throws: any error, and how many records are safe all the same. */
export interface UpsertError extends Error {
  /** Valid records that were written and acknowledged before the error, from the first on. */
  readonly acknowledged: number;
}

export async function upsert(
  session: CollectionSession,
  records: VectorRecord | Many<VectorRecord>,
  options: UpsertOptions,
): Promise<UpsertResult> {
  refuseUnknown(options, { signal: true, onProgress: true, onInvalid: true, optimize: true }, 'an upsert');
  const { signal, onProgress, onInvalid, optimize: when = 'never' } = options;
  if (when !== 'never' && when !== 'always') throw invalid("optimize is 'never' or 'always'");
  const given: Many<VectorRecord> = isRecord(records) ? [records] : records;
  const tally = new Tally();
  let acknowledged = 0;
  let total: number | undefined;
  const write = async (count: number, batch: Promise<VaultBatch>) => {
    tally.add(count, await (await batch).write());
    acknowledged += count;
    onProgress?.({ acknowledged, ...(total === undefined ? {} : { total }) });
  };
  let writing: Promise<void> = Promise.resolve();
  let batch: Promise<VaultBatch> | undefined;
  try {
    const check = checkFor(session, (await session.view()).manifest, tally, onInvalid);
    // An array is checked as a whole before anything is written; a stream can only be checked as it
    // comes. Payloads are made into JSON again, rather than kept: all of them may be large.
    const valid = Array.isArray(given) ? [...given].filter((record) => check(record) !== undefined) : undefined;
    total = valid?.length;
    for await (const { count, sealed } of gather(session, valid ?? given, valid ? payloadText : check)) {
      batch = prepare(session, sealed, signal);
      batch.catch(() => {});
      await writing;
      signal?.throwIfAborted();
      writing = write(count, batch);
      writing.catch(() => {}); // reported when it is awaited
    }
    await writing;
    if (when === 'always') await optimize(session, signal ? { signal } : {});
    return tally.result;
  } catch (error) {
    await Promise.allSettled([writing, batch?.then((ahead) => ahead.idle())]);
    throw error instanceof Error ? (Object.assign(error, { acknowledged }) satisfies UpsertError) : error;
  }
}

async function prepare(
  session: CollectionSession,
  sealed: Promise<SealedRecords>,
  signal: AbortSignal | undefined,
): Promise<VaultBatch> {
  const ahead = new VaultBatch(session, await sealed, signal);
  ahead.stage(await session.view());
  return ahead;
}

/** How many blocks' worth of records one commit of an upsert holds. */
const BLOCKS_PER_COMMIT = 8;
/**
 * A part of a batch ends when its payloads reach this size: the crew works on parts, and large
 * payloads must not pile up.
 */
export const PART_BYTES: number = 2 ** 23;

interface Gathered {
  readonly count: number;
  /** Settles when the crew is done with them. */
  readonly sealed: Promise<SealedRecords>;
}

const FIELDS: OptionNames<VectorRecord> = { id: true, vector: true, payload: true };

function isRecord(value: unknown): value is VectorRecord {
  return typeof value === 'object' && value !== null && 'id' in value && 'vector' in value;
}

/**
 * Returns a check of one record after another: whether each can be written, and its values fit
 * their fields. The check returns the payload as JSON, or undefined for a record to leave out.
 */
function checkFor(
  session: CollectionSession,
  manifest: Pick<Manifest, 'fields' | 'partitionBy'>,
  tally: Tally,
  onInvalid: UpsertOptions['onInvalid'],
): (record: VectorRecord) => string | undefined {
  const { fields } = manifest;
  const hasFields = Object.keys(fields).length > 0;
  let next = 0;
  return (record) => {
    const number = next++;
    let payload: string;
    let values: FieldValues | undefined;
    try {
      if (!isRecord(record)) throw invalid('a record is an object with an id, a vector, and perhaps a payload');
      refuseUnknown(record, FIELDS, 'a record', 'field');
      const { id } = record;
      checkId(id);
      payload = checkPayload(record.payload, id);
      if (hasFields && payload !== '') values = valuesOf(JSON.parse(payload), fields, id);
      const name = onInvalid ? 'its vector' : () => `the vector of ${JSON.stringify(id)}`;
      checkVector(session.keyring.plan, record.vector, 'gallery', name);
    } catch (error) {
      if (!(error instanceof HersError)) throw error;
      if (!onInvalid) throw new HersError(error.code, `record ${number}: ${error.message}`);
      tally.invalid++;
      onInvalid({ record, number, error });
      return undefined;
    }
    session.checkPartition(partitionOf(manifest, values));
    return payload;
  };
}

/** Packs and seals records. `payloadOf` returns a payload as JSON; undefined leaves one out. */
async function* gather(
  session: CollectionSession,
  records: Many<VectorRecord>,
  payloadOf: (record: VectorRecord) => string | undefined,
): AsyncGenerator<Gathered> {
  const { dimension, capacity } = session.keyring.plan;
  let batch = new Gathering(session);
  let packing = new Packing(capacity, dimension);
  for await (const group of groupsOf(records))
    for (const record of group) {
      const payload = payloadOf(record);
      if (payload === undefined) continue;
      packing.add(record.id, record.vector, payload);
      if (packing.count < capacity && packing.payloadBytes < PART_BYTES) continue;
      batch.add(packing);
      // As many again, probably: growing there step by step takes twice the memory.
      packing = new Packing(capacity, dimension, packing.count);
      if (batch.parts < BLOCKS_PER_COMMIT) continue;
      yield batch.gathered();
      batch = new Gathering(session);
    }
  if (packing.count > 0) batch.add(packing);
  if (batch.parts > 0) yield batch.gathered();
}

interface Part {
  readonly plain: PlainBatch;
  readonly records: readonly PlainRecord[];
  readonly sealed: SealedBatch;
}

/** A batch in the making; its parts are sealed as they come. */
class Gathering {
  readonly #session: CollectionSession;
  readonly #space: Promise<Space>;
  readonly #parts: Promise<Part>[] = [];
  #count = 0;

  constructor(session: CollectionSession) {
    this.#session = session;
    this.#space = session.view().then(({ space }) => space);
    this.#space.catch(() => {}); // reported with the parts
  }

  get parts(): number {
    return this.#parts.length;
  }

  add(packing: Packing): void {
    this.#count += packing.count;
    const part = this.#seal(packing);
    part.catch(() => {});
    this.#parts.push(part);
  }

  async #seal(packing: Packing): Promise<Part> {
    const { keyring } = this.#session;
    const plain = packing.take();
    const space = await this.#space;
    const projections = space.sealsProjections ? await space.project(plain.vectors) : undefined;
    const batch = projections ? { ...plain, projections } : plain;
    const sealed = await keyring.seal(space.epoch, batch);
    return { plain, records: recordsOf(packing.names, batch, sealed, space.epoch), sealed };
  }

  gathered(): Gathered {
    const sealed = Promise.all([this.#space, Promise.all(this.#parts)]).then(([{ epoch }, parts]) => ({
      epoch,
      records: parts.flatMap(({ records }) => records),
      seals: parts.map(({ sealed }) => sealed),
      plains: parts.map(({ plain }) => plain),
    }));
    sealed.catch(() => {});
    return { count: this.#count, sealed };
  }
}

/** What became of the records that were given. */
export interface UpsertResult {
  /** Records that are new or have new content: those inserted and those replaced. */
  readonly written: number;
  /** Records whose id was not there. */
  readonly inserted: number;
  /** Records whose id was there with another content. */
  readonly replaced: number;
  /** Records that were there already, exactly so. */
  readonly unchanged: number;
  /** Records given in vain, because their id came again later: the last of each id counts. */
  readonly repeated: number;
  /** Records that could not be written, and were reported to `onInvalid`. */
  readonly invalid: number;
}

const FIRST_SIZE = 2 ** 10;
/** Of the table that is filled before it doubles. */
const LOAD = 0.7;
/** What has become of a record; zero is a free place. */
const INSERTED = 1;
const UNCHANGED = 2;
const REPLACED = 3;

/**
 * A table over typed arrays, because an upsert may have more records than a `Map` entries. Handles
 * and versions are keyed hashes, of which the first 64 bits are enough to count by.
 */
export class Tally {
  #handles = new Uint32Array(2 * FIRST_SIZE);
  #before = new Uint32Array(2 * FIRST_SIZE);
  #states = new Uint8Array(FIRST_SIZE);
  #size = 0;
  #given = 0;
  invalid = 0;

  /** A commit: how many records it was given, and what it did to each. */
  add(given: number, outcomes: readonly Outcome[]): void {
    this.#given += given;
    for (const { handle, before, after } of outcomes) {
      const [high, low] = [wordOf(handle, 0), wordOf(handle, 1)];
      const at = this.#find(high, low);
      if (this.#states[at] === 0) {
        this.#size++;
        this.#handles[2 * at] = high;
        this.#handles[2 * at + 1] = low;
        if (before === undefined) this.#states[at] = INSERTED;
        else {
          this.#before[2 * at] = wordOf(before, 0);
          this.#before[2 * at + 1] = wordOf(before, 1);
        }
      }
      if (this.#states[at] !== INSERTED) this.#states[at] = this.#isBefore(at, after) ? UNCHANGED : REPLACED;
      if (this.#size > LOAD * this.#states.length) this.#double();
    }
  }

  #isBefore(at: number, version: string): boolean {
    return this.#before[2 * at] === wordOf(version, 0) && this.#before[2 * at + 1] === wordOf(version, 1);
  }

  /** Where it is, or would be. */
  #find(high: number, low: number): number {
    const mask = this.#states.length - 1;
    let at = high & mask;
    while (this.#states[at] !== 0 && (this.#handles[2 * at] !== high || this.#handles[2 * at + 1] !== low))
      at = (at + 1) & mask;
    return at;
  }

  #double(): void {
    const [handles, before, states] = [this.#handles, this.#before, this.#states];
    this.#handles = new Uint32Array(2 * handles.length);
    this.#before = new Uint32Array(2 * before.length);
    this.#states = new Uint8Array(2 * states.length);
    for (let from = 0; from < states.length; from++) {
      const state = states[from];
      if (state === 0) continue;
      const at = this.#find(handles[2 * from], handles[2 * from + 1]);
      for (const word of [0, 1]) {
        this.#handles[2 * at + word] = handles[2 * from + word];
        this.#before[2 * at + word] = before[2 * from + word];
      }
      this.#states[at] = state;
    }
  }

  get result(): UpsertResult {
    const counts = [0, 0, 0, 0];
    for (const state of this.#states) counts[state]++;
    const [inserted, unchanged, replaced] = [counts[INSERTED], counts[UNCHANGED], counts[REPLACED]];
    const repeated = this.#given - this.#size;
    return { written: inserted + replaced, inserted, replaced, unchanged, repeated, invalid: this.invalid };
  }
}

/** Eight hexadecimal digits of many, lower case. A text of its own for each would take longer. */
function wordOf(digits: string, word: number): number {
  let value = 0;
  for (let i = 8 * word; i < 8 * word + 8; i++) {
    const code = digits.charCodeAt(i);
    value = (value << 4) | (code < 0x3a ? code - 0x30 : code - 0x57);
  }
  return value >>> 0;
}
