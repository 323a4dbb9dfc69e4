// A collection, as an application uses it.

import type { Compressor } from '@hers/compress/apply';
import type { Plan } from '@hers/scheme';
import { HersError, type Many, refuseUnknown } from '@hers/service';
import { hex } from './bytes.ts';
import { openCompressor } from './formats/compressors.ts';
import { type Enrolment, needsVault } from './formats/descriptor.ts';
import { liveCount } from './formats/manifest.ts';
import { type Payload, type PlainRecord, payloadOf, type VectorRecord } from './formats/records.ts';
import { search } from './search/search.ts';
import type { SearchOptions, SearchResult } from './search/search-options.ts';
import { type Verification, type VerifyOptions, verify } from './search/verify.ts';
import { InconsistentRead } from './session/reader.ts';
import type { CollectionSession } from './session/session.ts';
import type { View } from './session/view.ts';
import { removeRecords } from './writing/enrolment.ts';
import { type MaintenanceOptions, optimize, reindex, rotate } from './writing/maintenance.ts';
import type { UpsertResult } from './writing/tally.ts';
import { type UpsertOptions, upsert } from './writing/upsert.ts';

export interface StoredRecord {
  readonly id: string;
  /** The full vector as it was written, also if a compressor shortens what is indexed. */
  readonly vector: Float32Array;
  /** The payload it was written with, if any. */
  readonly payload?: Payload;
}

/** What is compared in encrypted form: the vectors, or what a compressor makes of them. */
export interface CollectionIndex {
  /** Error, security and bytes of what is indexed. */
  readonly plan: Plan;
  /** What makes the indexed vectors from the full ones, if there is one. */
  readonly compressor?: Compressor;
}

export class Collection {
  readonly name: string;
  readonly #session: CollectionSession;

  constructor(session: CollectionSession) {
    this.name = session.name;
    this.#session = session;
  }

  /**
   * The plan of the full vectors: dimension, metric, bounds; and, without a compressor, of the
   * index.
   */
  get plan(): Plan {
    return this.#session.keyring.plan;
  }

  /** Whether records are kept in the vault, or only their encrypted vectors. */
  get enrolment(): Enrolment {
    return this.#session.keyring.descriptor.enrolment;
  }

  /**
   * Writes records: one, many, or a stream. A record with an existing id replaces it; an identical
   * one is skipped, so repeating an upsert is safe. The result says how many are new, replaced and
   * unchanged. Records are written in batches; each is acknowledged as a whole. When one fails, the
   * `acknowledged` of the error ({@link UpsertError}) says how many records are safe.
   *
   * @example await faces.upsert({ id: 'ada', vector, payload: { name: 'Ada' } });
   */
  async upsert(records: VectorRecord | Many<VectorRecord>, options: UpsertOptions = {}): Promise<UpsertResult> {
    return upsert(this.#session, records, options);
  }

  /**
   * The best matches for a vector. The store learns that there was a search, and nothing about its
   * outcome.
   *
   * @example const { matches } = await faces.search(probe, { limit: 5 });
   */
  async search(vector: ArrayLike<number>, options: SearchOptions = {}): Promise<SearchResult> {
    return (await search(this.#session, [vector], options))[0];
  }

  /** Many vectors at once: the store reads the gallery once for all of them. */
  async searchBatch(vectors: readonly ArrayLike<number>[], options: SearchOptions = {}): Promise<SearchResult[]> {
    return search(this.#session, vectors, options);
  }

  /** Compares a vector with one record. The store learns which block the record is in. */
  async verify(id: string, vector: ArrayLike<number>, options: VerifyOptions = {}): Promise<Verification> {
    return verify(this.#session, id, vector, options);
  }

  /**
   * Lets searches fetch again after the store was shown too many candidates without giving the
   * records that prove its answer right, or gave a wrong score. Call it after a person has found
   * out why.
   */
  async resume(): Promise<void> {
    await this.#session.candidates.resume();
  }

  /** The records with these ids that exist, in this order. The store learns which ones they are. */
  async get(ids: string | readonly string[]): Promise<StoredRecord[]> {
    if (this.enrolment !== 'vault') throw needsVault('reading records');
    const asked = idsOf(ids);
    await this.#session.refresh();
    return this.#session.read(async (view) => {
      const known = asked.filter((id) => view.locate(id) !== undefined);
      // The store gives each record once.
      const once = [...new Set(known)];
      const records = (await this.#fetch(view, once)).map(storedRecord);
      const found = new Map(once.map((id, i) => [id, records[i]]));
      return known.map((id) => found.get(id)!);
    });
  }

  /** Records from the vault, each in the version that the view names. */
  async #fetch(view: View, ids: readonly string[]): Promise<PlainRecord[]> {
    const { keyring, reader } = this.#session;
    const handles = ids.map((id) => hex(keyring.records.handleOf(id)));
    const out: PlainRecord[] = [];
    for await (const record of reader.records(handles, { newest: view.manifest.epoch })) {
      if (record.version !== view.versionOf(record.id))
        throw new InconsistentRead('the store gave an older copy of a record than its list names');
      out.push(record);
    }
    return out;
  }

  /**
   * Deletes records; returns how many there were. More than 65 536 are deleted in several changes.
   * They are never found again; `optimize` makes them disappear from the disk.
   */
  async delete(ids: string | readonly string[]): Promise<number> {
    return removeRecords(this.#session, idsOf(ids));
  }

  /** How many records there are now. */
  async count(): Promise<number> {
    return liveCount((await this.#session.refresh()).manifest);
  }

  /** All ids, as they are now. */
  async *list(): AsyncGenerator<string> {
    yield* (await this.#session.refresh()).ids();
  }

  /** Indexes pending records, and makes deletions final. */
  async optimize(options: MaintenanceOptions = {}): Promise<void> {
    await optimize(this.#session, options);
  }

  /**
   * Re-encrypts everything under the next epoch of the key; returns that epoch. Can be interrupted,
   * and searched meanwhile.
   */
  async rotateKey(options: MaintenanceOptions = {}): Promise<number> {
    return rotate(this.#session, options);
  }

  /** What is compared, as of the last change that was seen. */
  async index(): Promise<CollectionIndex> {
    const { plan, compression } = (await this.#session.view()).space;
    return { plan, ...(compression ? { compressor: compression.compressor } : {}) };
  }

  /**
   * Indexes everything again through a compressor (the bytes of its file), or with null as it is.
   * Nothing is enrolled again: the full vectors are in the vault. Can be interrupted, taken up by
   * the same call, and searched meanwhile: what is compared through either compressor is then
   * ranked together.
   *
   * @example await faces.reindex(await readFile('faces-32.onnx'));
   */
  async reindex(compressor: Uint8Array | null, options: MaintenanceOptions = {}): Promise<void> {
    // What was forgotten must not take a compressor away.
    if (compressor !== null && !(compressor instanceof Uint8Array))
      throw new HersError('INVALID_ARGUMENT', 'a compressor is the bytes of its file, or null for none');
    const { request } = this.#session.keyring.descriptor;
    await reindex(this.#session, compressor ? await openCompressor(compressor, request) : undefined, options);
  }

  /** The collection as one stream of bytes, as encrypted as it is stored. */
  snapshot(options: { readonly signal?: AbortSignal } = {}): AsyncIterable<Uint8Array> {
    refuseUnknown(options, { signal: true }, 'a snapshot');
    return this.#session.service.snapshot(this.name, options);
  }

  /** Ends its workers and overwrites its keys. */
  async close(): Promise<void> {
    await this.#session.candidates.close();
    await this.#session.keyring.close();
  }
}

function storedRecord(record: PlainRecord): StoredRecord {
  const payload = payloadOf(record);
  return { id: record.id, vector: record.vector, ...(payload === undefined ? {} : { payload }) };
}

/** INVALID_ARGUMENT unless it is an id, or an array of them. */
function idsOf(ids: string | readonly string[]): readonly string[] {
  const all = typeof ids === 'string' ? [ids] : ids;
  if (!Array.isArray(all) || all.some((id) => typeof id !== 'string'))
    throw new HersError('INVALID_ARGUMENT', 'give an id, or an array of ids');
  return all;
}
