// A collection, as an application uses it.

import type { Compressor } from '@hers/compress/apply';
import type { Plan } from '@hers/scheme';
import { HersError, type Many, refuseUnknown } from '@hers/service';
import { hex } from './bytes.ts';
import type { Fields } from './fields/field.ts';
import type { Filter } from './filter/filter.ts';
import { openCompressor } from './formats/compressors.ts';
import { type Enrolment, needsVault } from './formats/descriptor.ts';
import { type Payload, type PlainRecord, payloadOf, type VectorRecord } from './formats/records.ts';
import { type Choice, chosenCount, chosenIds, isChosen } from './search/choice.ts';
import { inPartitions, type Partition, partitionsOf } from './search/partitions.ts';
import { search } from './search/search.ts';
import type { SearchOptions, SearchResult } from './search/search-options.ts';
import { type Group, type Verification, type VerifyOptions, verify } from './search/verify.ts';
import { InconsistentRead } from './session/reader.ts';
import type { CollectionSession } from './session/session.ts';
import type { View } from './session/view.ts';
import { removeRecords } from './writing/enrolment.ts';
import { type ExpireOptions, type ExpiryReceipt, expire } from './writing/expiry.ts';
import { addFields, completeFields, dropFields, type PayloadUpdate, updatePayloads } from './writing/fields.ts';
import { type MaintenanceOptions, optimize, reindex, rotate } from './writing/maintenance.ts';
import type { UpsertResult } from './writing/tally.ts';
import { type UpsertOptions, upsert } from './writing/upsert.ts';

/** A record as it was enrolled. */
export interface StoredRecord {
  /** The id that the caller gave. */
  readonly id: string;
  /** The full vector as it was written, also if a compressor shortens what is indexed. */
  readonly vector: Float32Array;
  /** The payload it was written with, if any. */
  readonly payload?: Payload;
}

/** Which ids `list` yields. */
export interface ListOptions {
  /** Only records that pass. */
  readonly filter?: Filter;
  /** In a collection with partitions: only records of these. */
  readonly partitions?: readonly string[];
  /** At most so many. */
  readonly limit?: number;
  /** Go on after the record with this id. */
  readonly after?: string;
}

/** What is counted. */
export interface CountOptions {
  /** Only records that pass. */
  readonly filter?: Filter;
  /** In a collection with partitions: only records of these. */
  readonly partitions?: readonly string[];
}

/** What is compared in encrypted form: the vectors, or what a compressor makes of them. */
export interface CollectionIndex {
  /** Error, security and bytes of what is indexed. */
  readonly plan: Plan;
  /** What makes the indexed vectors from the full ones, if there is one. */
  readonly compressor?: Compressor;
}

/**
 * A named gallery of one dimension, metric and key: `Database` makes and opens it.
 *
 * Every method fails with a {@link HersError}: INVALID_ARGUMENT or INVALID_VECTOR for what was
 * given, WRONG_KEY for another key, INTEGRITY where the store contradicts what was seen, DAMAGED
 * for bytes that are not what was written, STORAGE or UNAVAILABLE where the store fails.
 */
export class Collection {
  /** The name that it was opened by. */
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

  /**
   * Compares a vector with one record, and the store learns which block the record is in; or with a
   * group of records, `{ field, value }`, and the store learns nothing.
   *
   * @example await faces.verify({ field: 'person', value: 'ada' }, probe, { threshold: 0.6 });
   */
  async verify(of: string | Group, vector: ArrayLike<number>, options: VerifyOptions = {}): Promise<Verification> {
    return verify(this.#session, of, vector, options);
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
      const choice = this.#session.choices.of(view, undefined, Date.now());
      const known = asked.filter((id) => isChosen(view, choice, id));
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
   * Deletes records, by their ids or by a filter; returns how many there were. More than 65 536 are
   * deleted in several changes. They are never found again; `optimize` makes them disappear from
   * the disk.
   *
   * @example await faces.delete({ filter: { must: { field: 'country', match: 'NL' } } });
   */
  async delete(which: string | readonly string[] | { readonly filter: Filter }): Promise<number> {
    if (typeof which === 'string' || Array.isArray(which)) return removeRecords(this.#session, idsOf(which));
    const options = which as { readonly filter: Filter };
    refuseUnknown(options, { filter: true }, 'delete');
    if (options.filter === undefined)
      throw new HersError(
        'INVALID_ARGUMENT',
        'give ids to delete, or a filter; an empty filter, {}, means all records',
      );
    const { choices } = this.#session;
    const ids = await Array.fromAsync(this.list(options));
    // Another writer may have changed one of them since.
    let known: { readonly view: View; readonly choice: Choice | undefined } | undefined;
    return removeRecords(this.#session, ids, (id, view) => {
      if (known?.view !== view) known = { view, choice: choices.of(view, options.filter, Date.now()) };
      return isChosen(view, known.choice, id);
    });
  }

  /**
   * Deletes the records whose `expires` has passed; until then they are only never found. Returns a
   * receipt of what was deleted. `isDryRun` deletes nothing.
   */
  async expire(options: ExpireOptions = {}): Promise<ExpiryReceipt> {
    return expire(this.#session, options);
  }

  /** How many records there are now, in some partitions or in all, or how many pass a filter. */
  async count(options: CountOptions = {}): Promise<number> {
    refuseUnknown(options, { filter: true, partitions: true }, 'count');
    const view = await this.#session.refresh();
    const part = inPartitions(this.#session, view, options.partitions);
    return chosenCount(view, this.#session.choices.of(view, options.filter, Date.now()), part);
  }

  /**
   * The partitions that have records now, with the handles by which a store knows them; none in a
   * collection that was made without `partitionBy`.
   */
  async partitions(): Promise<Partition[]> {
    const view = await this.#session.refresh();
    return view.manifest.partitionBy === undefined ? [] : partitionsOf(view, (name) => this.#handleOf(name));
  }

  /**
   * The handle of a partition, whether it has records or not: a store knows it by that alone, and a
   * token can be limited to it.
   */
  partitionHandle(name: string): string {
    if (typeof name !== 'string') throw new HersError('INVALID_ARGUMENT', 'a partition has a name');
    return this.#handleOf(name.normalize('NFC'));
  }

  #handleOf(name: string | undefined): string {
    return hex(this.#session.keyring.partitionHandle(name));
  }

  /**
   * The ids of all records, or of those that pass a filter, as they are now. `after` and `limit`
   * cut pages out of it: the next begins after the last id of the one before.
   *
   * @example for await (const id of faces.list({ filter, limit: 100, after: last })) …
   */
  async *list(options: ListOptions = {}): AsyncGenerator<string> {
    refuseUnknown(options, { filter: true, partitions: true, limit: true, after: true }, 'list');
    const { filter, partitions, limit = Number.POSITIVE_INFINITY, after } = options;
    if (!(limit >= 1)) throw new HersError('INVALID_ARGUMENT', 'limit is at least 1');
    const view = await this.#session.refresh();
    const part = inPartitions(this.#session, view, partitions);
    const place = after === undefined ? undefined : view.locate(after);
    const isThere =
      place === 'pending' ? part.pending.some(({ id }) => id === after) : place && part.blocks.includes(place.block);
    if (after !== undefined && !isThere)
      throw new HersError('NOT_FOUND', `there is no record ${JSON.stringify(after)} to go on after; begin again`);
    const choice = this.#session.choices.of(view, filter, Date.now());
    let left = limit;
    for (const id of chosenIds(view, choice, after, part)) {
      if (left-- <= 0) return;
      yield id;
    }
  }

  /** The fields that records can be filtered by, as of the last change that was seen. */
  async fields(): Promise<Fields> {
    return { ...(await this.#session.view()).manifest.fields };
  }

  /**
   * Adds fields, and fills them from the payloads of the records that there are. Can be
   * interrupted, taken up by the same call, and searched meanwhile. Blocks are not encrypted again.
   *
   * @example await faces.addFields({ country: 'keyword' });
   */
  async addFields(fields: Fields, options: MaintenanceOptions = {}): Promise<void> {
    await addFields(this.#session, fields, options);
  }

  /** Drops fields. The payloads of the records stay as they are. */
  async dropFields(names: string | readonly string[]): Promise<void> {
    await dropFields(this.#session, idsOf(names));
  }

  /**
   * Changes payloads, and with them fields, without encrypting vectors again; returns how many
   * changed. The store learns which records they are.
   *
   * @example await faces.updatePayload({ id: 'ada', payload: { country: 'NL' } });
   */
  async updatePayload(
    updates: PayloadUpdate | readonly PayloadUpdate[],
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<number> {
    refuseUnknown(options, { signal: true }, 'an update');
    return updatePayloads(this.#session, Array.isArray(updates) ? updates : [updates], options.signal);
  }

  /** Indexes pending records, makes deletions final, and completes fields. */
  async optimize(options: MaintenanceOptions = {}): Promise<void> {
    await optimize(this.#session, options);
    await completeFields(this.#session, options);
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
    this.#session.checkWhole('a snapshot');
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
