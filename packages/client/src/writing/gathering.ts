// Turns records from an application into batches that can be written: checked, copied, named, and
// sealed by the crew while earlier batches are written.

import { checkVector } from '@hers/scheme';
import { HersError, type Many, type OptionNames, refuseUnknown } from '@hers/service';
import { valuesOf } from '../fields/field.ts';
import type { Manifest } from '../formats/manifest.ts';
import { checkId, checkPayload, type PlainRecord, type VectorRecord } from '../formats/records.ts';
import type { CollectionSession } from '../session/session.ts';
import type { Space } from '../session/space.ts';
import { partitionOf } from '../session/view.ts';
import { Packing, type PlainBatch, recordsOf, type SealedBatch } from './batch.ts';
import type { SealedRecords } from './enrolment.ts';

/** How many blocks' worth of records one commit of an upsert holds. */
const BLOCKS_PER_COMMIT = 8;
/**
 * A part of a batch ends when its payloads reach this size: the crew works on parts, and large
 * payloads must not pile up.
 */
export const PART_BYTES: number = 2 ** 23;

export interface Gathered {
  readonly count: number;
  /** Settles when the crew is done with them. */
  readonly sealed: Promise<SealedRecords>;
}

const FIELDS: OptionNames<VectorRecord> = { id: true, vector: true, payload: true };

export function isRecord(value: unknown): value is VectorRecord {
  return typeof value === 'object' && value !== null && 'id' in value && 'vector' in value;
}

/**
 * Refuses a record that cannot be written, or has a value that does not fit its field; returns its
 * vector, and its payload as JSON.
 */
export function checkRecord(
  session: CollectionSession,
  record: VectorRecord,
  manifest: Pick<Manifest, 'fields' | 'partitionBy'>,
): { vector: Float32Array; payload: string } {
  const { keyring } = session;
  const { fields } = manifest;
  if (!isRecord(record))
    throw new HersError('INVALID_ARGUMENT', 'a record is an object with an id, a vector, and perhaps a payload');
  refuseUnknown(record, FIELDS, 'a record', 'field');
  const { id } = record;
  checkId(id);
  const payload = checkPayload(record.payload, id);
  const hasFields = payload !== '' && Object.keys(fields).length > 0;
  const values = hasFields ? valuesOf(JSON.parse(payload), fields, id) : undefined;
  session.checkPartition(partitionOf(manifest, values));
  return {
    vector: checkVector(keyring.plan, record.vector, 'gallery', () => `the vector of ${JSON.stringify(id)}`),
    payload,
  };
}

export async function* gather(
  session: CollectionSession,
  records: Many<VectorRecord>,
  manifest: Pick<Manifest, 'fields' | 'partitionBy'>,
): AsyncGenerator<Gathered> {
  const { dimension, capacity } = session.keyring.plan;
  let batch = new Gathering(session);
  let packing = new Packing(capacity, dimension);
  /** Adds one; returns a batch that is full. */
  const add = (record: VectorRecord) => {
    const { vector, payload } = checkRecord(session, record, manifest);
    packing.add(record.id, vector, payload);
    if (packing.count < capacity && packing.payloadBytes < PART_BYTES) return undefined;
    batch.add(packing);
    // As many again, probably: growing there step by step takes twice the memory.
    packing = new Packing(capacity, dimension, packing.count);
    if (batch.parts < BLOCKS_PER_COMMIT) return undefined;
    const full = batch.gathered();
    batch = new Gathering(session);
    return full;
  };
  // Without a promise for each record where they are there already.
  if (Symbol.asyncIterator in records)
    for await (const record of records) {
      const full = add(record);
      if (full) yield full;
    }
  else
    for (const record of records) {
      const full = add(record);
      if (full) yield full;
    }
  if (packing.count > 0) batch.add(packing);
  if (batch.parts > 0) yield batch.gathered();
}

/** What one packing became. */
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
