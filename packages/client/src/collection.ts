// A collection, as an application uses it.

import type { Compressor } from '@hers/compress';
import type { Plan } from '@hers/scheme';
import { HersError, type Many, refuseUnknown } from '@hers/service';
import { hex } from './bytes.ts';
import { type Fields, type FieldValue, invalid } from './fields/field.ts';
import type { Filter } from './filter/filter.ts';
import { openCompressor } from './formats/compressors.ts';
import { type PlainRecord, payloadOf, type StoredRecord, type VectorRecord } from './formats/records.ts';
import type { Question, QuestionOptions } from './inbox/keeper.ts';
import type { AddDeviceOptions, DeviceInfo } from './inbox/registry.ts';
import { Candidates } from './search/candidates.ts';
import {
  type Choice,
  Choices,
  chosenCount,
  chosenRecords,
  fieldsOf,
  inPartitions,
  isChosen,
  type Partition,
  partitionsOf,
} from './search/choice.ts';
import { prepare, type Searching } from './search/scan.ts';
import {
  type Group,
  type SearchOptions,
  type SearchResult,
  search,
  type Verification,
  type VerifyOptions,
  verify,
} from './search/search.ts';
import type { CollectionSession } from './session/session.ts';
import type { View } from './session/view.ts';
import { namedRecords, removeRecords } from './writing/enrolment.ts';
import { addFields, completeFields, dropFields, type PayloadUpdate, updatePayloads } from './writing/fields.ts';
import {
  type ExpireOptions,
  type ExpiryReceipt,
  expire,
  type MaintenanceOptions,
  optimize,
  reindex,
  rotate,
} from './writing/maintenance.ts';
import { type UpsertOptions, type UpsertResult, upsert } from './writing/upsert.ts';

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

/** The session of a collection, for what is beside it in this package. */
export let sessionOf: (collection: Collection) => CollectionSession;

/** The other way round. */
export let collectionOf: (session: CollectionSession) => Collection;

/**
 * A named gallery of one dimension, metric and key: `Database` makes and opens it.
 *
 * Methods share these parameters and errors, besides those that they name.
 *
 * @param vector - The probe: as many numbers as the collection has dimensions.
 * @param options - Its type lists them. A signal ends the call, and `onProgress` hears of it.
 * @throws {HersError} INVALID_ARGUMENT: for an option that does not exist or does not fit, a filter
 *   by an unknown field, and other arguments that cannot be; the message says what can.
 * @throws {HersError} INVALID_VECTOR: for a vector of another dimension, that is not finite, or
 *   longer than the bound.
 * @throws {HersError} FORBIDDEN: where the client is limited to partitions, for others and for what
 *   is about all of them; where the token does not allow the call.
 * @throws {HersError} NOT_FOUND: the collection was deleted.
 * @throws {HersError} INTEGRITY: the store contradicts what was seen, or gives something else than
 *   was written.
 * @throws {HersError} DAMAGED, UNSUPPORTED_VERSION: what is stored was altered, or is in another
 *   format.
 * @throws {HersError} STALE: other clients changed the collection again and again; the same call
 *   may succeed later.
 * @throws {HersError} STORAGE, CLOSED: a folder cannot be read or written, or was closed.
 * @throws {HersError} UNAUTHENTICATED: a server wants another token.
 * @throws {HersError} OVERLOADED, TIMED_OUT, TOO_LARGE, UNAVAILABLE, INTERNAL: a server cannot
 *   answer now, or at all.
 * @throws {HersError} WIPED: the database was closed, and its key is gone.
 * @throws {AbortError} or another reason of the signal, where a call takes one and it aborts.
 */
export class Collection {
  static {
    sessionOf = (collection) => collection.#session;
    collectionOf = (session) => new Collection(session);
  }

  /** The name that it was opened by. */
  readonly name: string;
  readonly #session: CollectionSession;
  readonly #searching: Searching;

  private constructor(session: CollectionSession) {
    this.name = session.name;
    this.#session = session;
    this.#searching = { session, candidates: new Candidates(session), choices: new Choices() };
  }

  /** The plan of the full vectors; without a compressor, of the index as well. */
  get plan(): Plan {
    return this.#session.keyring.plan;
  }

  /**
   * Writes records: one, many, or a stream. A record with an existing id replaces it; an identical
   * one is skipped, so repeating an upsert is safe. Records are written in batches; each is
   * acknowledged as a whole. When one fails, the `acknowledged` of the error ({@link UpsertError})
   * says how many records are safe. An invalid record ends it, unless `onInvalid` is given.
   *
   * @param records - One record, an array, or a stream of any length. An array is checked as a
   *   whole before anything is written; it and its records must not change until the upsert ends.
   * @returns How many are new, replaced and unchanged.
   * @example
   * await faces.upsert({ id: 'ada', vector, payload: { name: 'Ada' } });
   */
  async upsert(records: VectorRecord | Many<VectorRecord>, options: UpsertOptions = {}): Promise<UpsertResult> {
    return upsert(this.#session, records, options);
  }

  /**
   * Gets ready for searches: reads the manifest and the lists, derives keys and starts workers,
   * which else the first search would wait for. A page calls it when it shows a form.
   *
   * @example
   * await faces.prepare();
   */
  prepare(): Promise<void> {
    return prepare(this.#session);
  }

  /**
   * Finds the best matches for a vector. The store learns that there was a search, and nothing
   * about its outcome.
   *
   * @example
   * const { matches } = await faces.search(probe, { limit: 5 });
   */
  async search(vector: ArrayLike<number>, options: SearchOptions = {}): Promise<SearchResult> {
    return (await search(this.#searching, [vector], options))[0];
  }

  /**
   * Searches for many vectors at once: the store reads the gallery once for all of them.
   *
   * @param vectors - The probes.
   * @returns One result for each vector, in their order.
   * @example
   * const [first, second] = await faces.searchBatch([probe, other], { limit: 1 });
   */
  async searchBatch(vectors: readonly ArrayLike<number>[], options: SearchOptions = {}): Promise<SearchResult[]> {
    return search(this.#searching, vectors, options);
  }

  /**
   * Compares a vector with one record, and the store learns which block the record is in; or with a
   * group of records, `{ field, value }`, and the store learns nothing.
   *
   * @param of - The id of a record, or the group that the probe claims to be of.
   * @throws {HersError} NOT_FOUND: where there is no such record, or none in the group.
   * @example
   * await faces.verify({ field: 'person', value: 'ada' }, probe, { threshold: 0.6 });
   */
  async verify(of: string | Group, vector: ArrayLike<number>, options: VerifyOptions = {}): Promise<Verification> {
    return verify(this.#searching, of, vector, options);
  }

  /**
   * Lets searches fetch again after the store was shown too many candidates without giving the
   * records that prove its answer right, or gave a wrong score; under `open`, lets them ask again
   * after an answer that was not computed from the blocks. Call it after a person has found out
   * why.
   */
  async resume(): Promise<void> {
    await this.#searching.candidates.resume();
  }

  /**
   * Returns the records with these ids that exist, in this order. The store learns which ones they
   * are, by their handles: under `open`, do not ask for a record because of its score.
   *
   * @param ids - One id, or several.
   * @example
   * const [ada] = await faces.get('ada');
   */
  async get(ids: string | readonly string[]): Promise<StoredRecord[]> {
    const asked = idsOf(ids);
    await this.#session.refresh();
    return this.#session.read(async (view) => {
      const choice = this.#searching.choices.of(view, undefined, Date.now());
      const known = asked.filter((id) => isChosen(view, choice, id));
      // The store gives each record once.
      const wanted = [...new Set(known)].map((id) => ({ id, version: view.versionOf(id)! }));
      const found = new Map<string, StoredRecord>();
      for await (const [record] of namedRecords(this.#session, view, wanted))
        found.set(record.id, storedRecord(record));
      return known.map((id) => found.get(id)!);
    });
  }

  /**
   * Deletes records, by their ids or by a filter; returns how many there were. The store learns
   * their handles. More than 65 536 are deleted in several changes. They are never found again;
   * `optimize` makes them disappear from the disk.
   *
   * @param which - One id, several, or a filter; `{ filter: {} }` means all records.
   * @example
   * await faces.delete('ada');
   * await faces.delete({ filter: { must: { field: 'country', match: 'NL' } } });
   */
  async delete(which: string | readonly string[] | { readonly filter: Filter }): Promise<number> {
    if (typeof which === 'string' || Array.isArray(which)) return removeRecords(this.#session, idsOf(which));
    const options = which as { readonly filter: Filter };
    refuseUnknown(options, { filter: true }, 'delete');
    if (options.filter === undefined)
      throw invalid('give ids to delete, or a filter; an empty filter, {}, means all records');
    const { choices } = this.#searching;
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
   *
   * @throws {ExpiryError} with a receipt of the records that were deleted until then.
   * @example
   * const { count } = await faces.expire({ isDryRun: true });
   */
  async expire(options: ExpireOptions = {}): Promise<ExpiryReceipt> {
    return expire(this.#session, options);
  }

  /**
   * Counts the records that there are now, in some partitions or in all, or those that pass a
   * filter.
   *
   * @example
   * await faces.count({ filter: { must: { field: 'country', match: 'NL' } } });
   */
  async count(options: CountOptions = {}): Promise<number> {
    refuseUnknown(options, { filter: true, partitions: true }, 'count');
    const view = await this.#session.refresh();
    const part = inPartitions(this.#session, view, options.partitions);
    return chosenCount(view, this.#searching.choices.of(view, options.filter, Date.now()), part);
  }

  /**
   * Lists the partitions that have records now, with the handles by which a store knows them; none
   * in a collection that was made without `partitionBy`.
   *
   * @example
   * for (const { name, records } of await faces.partitions()) console.log(name, records);
   */
  async partitions(): Promise<Partition[]> {
    const view = await this.#session.refresh();
    return view.manifest.partitionBy === undefined ? [] : partitionsOf(view, (name) => this.#handleOf(name));
  }

  /**
   * Returns the handle of a partition, whether it has records or not: 32 hexadecimal digits. A
   * store knows it by that alone, and a token can be limited to it.
   *
   * @param name - The value that its records have in the field of `partitionBy`.
   * @example
   * const tokens = new TokenStore('./tokens.json');
   * const partitions = [faces.partitionHandle('site-1')];
   * await tokens.create({ scope: 'write', collection: 'faces', partitions });
   */
  partitionHandle(name: string): string {
    if (typeof name !== 'string') throw invalid('a partition has a name');
    return this.#handleOf(name.normalize('NFC'));
  }

  #handleOf(name: string | undefined): string {
    return hex(this.#session.keyring.partitionHandle(name));
  }

  /**
   * Yields the ids of all records, or of those that pass a filter, as they are now. `after` and
   * `limit` cut pages out of it: the next begins after the last id of the one before.
   *
   * @throws {HersError} NOT_FOUND: where there is no record `after`; begin again.
   * @example
   * for await (const id of faces.list({ limit: 100 })) console.log(id);
   */
  async *list(options: ListOptions = {}): AsyncGenerator<string> {
    for await (const { id } of this.listFields([], options)) yield id;
  }

  /**
   * Yields with each id what the lists hold of these fields, for which nothing is fetched.
   *
   * @internal
   */
  async *listFields(
    fields: readonly string[],
    options: ListOptions = {},
  ): AsyncGenerator<{ readonly id: string; readonly fields: Readonly<Record<string, FieldValue>> }> {
    refuseUnknown(options, { filter: true, partitions: true, limit: true, after: true }, 'list');
    const { filter, partitions, limit = Number.POSITIVE_INFINITY, after } = options;
    if (!(limit >= 1)) throw invalid('limit is at least 1');
    const view = await this.#session.refresh();
    const part = inPartitions(this.#session, view, partitions);
    const place = after === undefined ? undefined : view.locate(after);
    const isThere =
      place === 'pending' ? part.pending.some(({ id }) => id === after) : place && part.blocks.includes(place.block);
    if (after !== undefined && !isThere)
      throw new HersError('NOT_FOUND', `there is no record ${JSON.stringify(after)} to go on after; begin again`);
    const choice = this.#searching.choices.of(view, filter, Date.now());
    let left = limit;
    for (const record of chosenRecords(view, choice, after, part)) {
      if (left-- <= 0) return;
      yield { id: record.id, fields: fieldsOf(view, record, fields) };
    }
  }

  /**
   * Adds a device, which may ask and, if `enrol` says so, enrol, and holds no secret of the gallery
   * (docs/devices.md). Returns its bundle, which is secret: a text for `openDevice`. Devices need a
   * collection of the profile open, and in Node optional packages.
   *
   * @param name - What the keeper calls it; the store does not learn it.
   * @throws {HersError} ALREADY_EXISTS, NOT_FOUND: where there is one of this name; where there is
   *   none to renew.
   * @example
   * const bundle = await faces.addDevice('door-3', { address: 'https://gallery.example' });
   */
  async addDevice(name: string, options: AddDeviceOptions = {}): Promise<string> {
    return (await keeperPart()).addDevice(this.#session, name, options);
  }

  /**
   * Lists all devices that there ever were.
   *
   * @example
   * for (const { name, number } of await faces.devices()) console.log(name, number);
   */
  async devices(): Promise<DeviceInfo[]> {
    return (await keeperPart()).listDevices(this.#session);
  }

  /**
   * Revokes a device: the store refuses what it posts when this resolves, and what waits in the
   * inbox is not answered.
   *
   * @param name - As the keeper calls it.
   * @throws {HersError} NOT_FOUND: where there is no device of this name.
   * @example
   * await faces.revokeDevice('door-3');
   */
  async revokeDevice(name: string): Promise<void> {
    await (await keeperPart()).revokeDevice(this.#session, name);
  }

  /**
   * Yields what devices ask, with the matches, as it comes: each question once. Records that
   * devices enrol are indexed meanwhile. Nothing that the store sees depends on an answer.
   *
   * @throws {HersError} INTEGRITY: where the store cheats; nothing is searched from then on, until
   *   somebody has looked and calls {@link Collection.resume}.
   * @example
   * for await (const { device, matches } of faces.questions({ threshold: 0.6 }))
   *   console.log(device, matches[0]?.id);
   */
  async *questions(options: QuestionOptions = {}): AsyncGenerator<Question> {
    yield* (await keeperPart()).questions(this.#searching, options);
  }

  /** Returns the fields that records can be filtered by, as of the last change that was seen. */
  async fields(): Promise<Fields> {
    return { ...(await this.#session.view()).manifest.fields };
  }

  /**
   * Adds fields, and fills them from the payloads of the records that there are. Can be
   * interrupted, taken up by the same call, and searched meanwhile. Blocks are not encrypted again.
   *
   * @param fields - Names and types of the new fields.
   * @example
   * await faces.addFields({ country: 'keyword' });
   */
  async addFields(fields: Fields, options: MaintenanceOptions = {}): Promise<void> {
    await addFields(this.#session, fields, options);
  }

  /**
   * Drops fields. The payloads of the records stay as they are.
   *
   * @param names - One name, or several.
   * @example
   * await faces.dropFields('country');
   */
  async dropFields(names: string | readonly string[]): Promise<void> {
    await dropFields(this.#session, idsOf(names));
  }

  /**
   * Changes payloads, and with them fields, without encrypting vectors again; returns how many
   * changed. The store learns which records they are.
   *
   * @param updates - Ids with their new payloads; without a payload the old one goes.
   * @throws {HersError} NOT_FOUND: where there is no record of an id.
   * @example
   * await faces.updatePayload({ id: 'ada', payload: { country: 'NL' } });
   */
  async updatePayload(
    updates: PayloadUpdate | readonly PayloadUpdate[],
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<number> {
    refuseUnknown(options, { signal: true }, 'an update');
    return updatePayloads(this.#session, Array.isArray(updates) ? updates : [updates], options.signal);
  }

  /**
   * Indexes pending records, makes deletions final, and completes fields.
   *
   * @example
   * await faces.optimize({ onProgress: ({ done, total }) => console.log(done, total) });
   */
  async optimize(options: MaintenanceOptions = {}): Promise<void> {
    await optimize(this.#session, options);
    await completeFields(this.#session, options);
  }

  /**
   * Re-encrypts everything under the next epoch of the key; returns that epoch. Can be interrupted,
   * and searched meanwhile.
   *
   * @example
   * const epoch = await faces.rotateKey();
   */
  async rotateKey(options: MaintenanceOptions = {}): Promise<number> {
    return rotate(this.#session, options);
  }

  /** Returns how records are compared, as of the last change that was seen. */
  async index(): Promise<CollectionIndex> {
    const { plan, compression } = (await this.#session.view()).space;
    return { plan, ...(compression ? { compressor: compression.compressor } : {}) };
  }

  /**
   * Indexes everything again through a compressor, or with null as it is. Nothing is enrolled
   * again: the full vectors are in the vault. Can be interrupted, taken up by the same call, and
   * searched meanwhile: what is compared through either compressor is then ranked together.
   *
   * @param compressor - The bytes of its file, or null for none.
   * @throws {HersError} UNSUPPORTED_PLAN: where no parameters do for its dimension.
   * @example
   * await faces.reindex(await readFile('faces-32.onnx'));
   */
  async reindex(compressor: Uint8Array | null, options: MaintenanceOptions = {}): Promise<void> {
    // What was forgotten must not take a compressor away.
    if (compressor !== null && !(compressor instanceof Uint8Array))
      throw invalid('a compressor is the bytes of its file, or null for none');
    const { request } = this.#session.keyring.descriptor;
    await reindex(this.#session, compressor ? await openCompressor(compressor, request) : undefined, options);
  }

  /**
   * Streams the collection as one sequence of bytes, as encrypted as it is stored.
   *
   * @example
   * await writeFile('faces.hers', faces.snapshot());
   */
  snapshot(options: { readonly signal?: AbortSignal } = {}): AsyncIterable<Uint8Array> {
    refuseUnknown(options, { signal: true }, 'a snapshot');
    this.#session.checkWhole('a snapshot');
    return this.#session.service.snapshot(this.name, options);
  }

  /** Ends its workers and overwrites its keys. */
  async close(): Promise<void> {
    await this.#searching.candidates.close();
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
  if (!Array.isArray(all) || all.some((id) => typeof id !== 'string')) throw invalid('give an id, or an array of ids');
  return all;
}

/** What looks after devices. In an installed package, it needs packages that are optional. */
async function keeperPart(): Promise<typeof import('#keeper')> {
  try {
    return await import('#keeper');
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw invalid('devices need packages that are not installed: npm install hpke @noble/curves @noble/post-quantum');
  }
}
