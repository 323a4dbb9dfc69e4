// A collection, as an application uses it.

import type { Compressor } from '@hers/compress/apply';
import { checkVector, type Plan } from '@hers/scheme';
import { HersError, type Many } from '@hers/service';
import { hex } from './bytes.ts';
import type { Changer } from './changes.ts';
import { addHomomorphically, type Outcome, removeRecords, type SealedRecords, VaultBatch } from './enrolment.ts';
import { checkRecord, gather, isRecord } from './gathering.ts';
import { type MaintenanceOptions, optimise, reindex, rotate } from './maintenance.ts';
import { liveCount } from './manifest.ts';
import { openModel } from './models.ts';
import { type Payload, type PlainRecord, payloadOf, type VectorRecord } from './records.ts';
import { ScoreCheck } from './score-check.ts';
import {
  fullScore,
  type Match,
  needsVault,
  orderOf,
  type SearchOptions,
  type SearchResult,
  scan,
  search,
  toFetch,
} from './search.ts';
import { Tally, type Written } from './tally.ts';
import { OutOfStep, readRecords, type View } from './view.ts';

export interface UpsertOptions {
  readonly signal?: AbortSignal;
  /** Called after every commit. */
  readonly onProgress?: (progress: { readonly acknowledged: number; readonly total?: number }) => void;
}

export interface StoredRecord {
  readonly id: string;
  readonly vector: Float32Array;
  readonly payload?: Payload;
}

export interface Verification {
  readonly score: number;
  /** Whether the score reaches the threshold; only when one was given. */
  readonly match?: boolean;
  readonly scoreOrigin: Match['scoreOrigin'];
}

export interface VerifyOptions {
  readonly threshold?: number;
  /** Fetch the record and compare the full vectors. Off by default: it shows the store which record of the block it is. */
  readonly rerank?: boolean;
  readonly signal?: AbortSignal;
}

/** What is compared in encrypted form: the vectors, or what a compressor makes of them. */
export interface Index {
  /** Error, security and bytes of what is indexed. */
  readonly plan: Plan;
  readonly compressor?: Compressor;
}

/** A batch that is ready to be written. */
interface Batch {
  write(): Promise<readonly Outcome[]>;
  /** Resolves when nothing is under way for it ahead of writing. */
  idle(): Promise<void>;
}

export class Collection {
  readonly name: string;
  readonly #changer: Changer;

  constructor(changer: Changer) {
    this.name = changer.name;
    this.#changer = changer;
  }

  /** What the planner says about the vectors given: their dimension, metric, bounds; and, where there is no compressor, about the index. */
  get plan() {
    return this.#changer.keyring.plan;
  }

  get enrolment() {
    return this.#changer.keyring.descriptor.enrolment;
  }

  /**
   * Writes records: one, many, or a stream. A record whose id exists is replaced; one that is there already exactly so is left alone, so repeating an upsert is safe.
   * Returned is how many are new, replaced, unchanged: what there was before beside what there is after. Records are written in batches; each is acknowledged as a whole. When one fails, the error's `acknowledged` says how many records are safe.
   *
   * @example await faces.upsert({ id: 'ada', vector, payload: { name: 'Ada' } });
   */
  async upsert(records: VectorRecord | Many<VectorRecord>, options: UpsertOptions = {}): Promise<Written> {
    const input: Many<VectorRecord> = isRecord(records) ? [records] : records;
    const total = Array.isArray(input) ? input.length : undefined;
    const tally = new Tally();
    let acknowledged = 0;
    const write = async (count: number, batch: Promise<Batch>) => {
      tally.add(count, await (await batch).write());
      acknowledged += count;
      options.onProgress?.({ acknowledged, ...(total === undefined ? {} : { total }) });
    };
    // While one batch is written, the next is gathered, sealed and staged.
    let writing: Promise<void> = Promise.resolve();
    let batch: Promise<Batch> | undefined;
    try {
      // A list is checked as a whole before anything is written; a stream can only be checked as it comes.
      if (Array.isArray(input)) for (const record of input) checkRecord(this.#changer, record);
      for await (const { count, sealed } of gather(this.#changer, input)) {
        batch = this.#prepare(sealed, options.signal);
        batch.catch(() => {});
        await writing;
        options.signal?.throwIfAborted();
        writing = write(count, batch);
        writing.catch(() => {}); // heard of when it is waited for
      }
      await writing;
      return tally.written;
    } catch (error) {
      await Promise.allSettled([writing, batch?.then((ahead) => ahead.idle())]);
      if (error instanceof Error) Object.assign(error, { acknowledged });
      throw error;
    }
  }

  async #prepare(sealed: Promise<SealedRecords>, signal?: AbortSignal): Promise<Batch> {
    const records = await sealed;
    if (this.enrolment !== 'vault') return { write: () => this.#add(records.records, signal), idle: async () => {} };
    const batch = new VaultBatch(this.#changer, records, signal);
    batch.stage(await this.#changer.view());
    return batch;
  }

  async #add(records: readonly PlainRecord[], signal?: AbortSignal): Promise<Outcome[]> {
    const all: Outcome[] = [];
    for (let at = 0; at < records.length; ) {
      const { outcomes, taken } = await addHomomorphically(this.#changer, records.slice(at), signal);
      all.push(...outcomes);
      at += taken;
    }
    return all;
  }

  /**
   * The best matches for a vector. The store learns that there was a search, and nothing about its outcome.
   *
   * @example const { matches } = await faces.search(probe, { limit: 5 });
   */
  async search(vector: ArrayLike<number>, options: SearchOptions = {}): Promise<SearchResult> {
    return (await search(this.#changer, [vector], options))[0];
  }

  /** Many vectors at once: the store reads the gallery once for all of them. */
  async searchBatch(vectors: readonly ArrayLike<number>[], options: SearchOptions = {}): Promise<SearchResult[]> {
    return vectors.length === 0 ? [] : search(this.#changer, vectors, options);
  }

  /** Compares a vector with one record. The store learns which block the record is in. */
  async verify(id: string, vector: ArrayLike<number>, options: VerifyOptions = {}): Promise<Verification> {
    const changer = this.#changer;
    if (options.rerank && this.enrolment !== 'vault') throw needsVault('comparing full vectors');
    const probe = checkVector(this.plan, vector, 'query');
    const { n } = this.plan.parameters;
    const only = (now: View) => {
      const place = now.locate(id);
      if (place === undefined) throw notFound(id);
      return place === 'pending'
        ? { blocks: [], pending: [now.pending.get(hex(changer.keyring.records.handleOf(id)))!] }
        : { blocks: [place.block], pending: [] };
    };
    const signal = options.signal ? { signal: options.signal } : {};
    const scanning = scan(changer, [probe], { limit: n, ...signal }, only);
    const { view, found } = await (options.rerank ? toFetch(changer, scanning) : scanning);
    const location = view.locate(id)!;
    const isWaiting = location === 'pending';
    const candidate = found[0].candidates.find(({ slot }) => isWaiting || slot === location.slot);
    if (!candidate) throw new HersError('INTEGRITY', 'the store did not answer for this record');
    const { profile } = this.plan;
    let { score } = candidate;
    let scoreOrigin: Match['scoreOrigin'] = profile === 'exact' ? 'exact' : isWaiting ? 'recomputed' : 'noisy';
    if (options.rerank) {
      const handle = hex(changer.keyring.records.handleOf(id));
      const version = view.versionOf(id, handle)!;
      const space = isWaiting ? view.space : view.spaces.get(location.block.epoch)!;
      const wanted = { id, version, handle, space, ...(isWaiting ? {} : { slot: candidate.slot, decrypted: score }) };
      const fetched = await changer.candidates.fetch(view, [wanted], new ScoreCheck(probe), options.signal);
      const current = fetched.get(handle);
      if (!current) throw notFound(id);
      score = fullScore(this.plan, current.record.vector, probe);
      scoreOrigin = 'recomputed';
    }
    const { threshold } = options;
    if (threshold === undefined) return { score, scoreOrigin };
    return { score, scoreOrigin, match: orderOf(changer) === 'descending' ? score >= threshold : score <= threshold };
  }

  /**
   * Lets searches fetch again after the store was shown too many candidates without giving the records that prove its answer right, or gave a wrong score. For a person to call who
   * has found out why.
   */
  async resume(): Promise<void> {
    await this.#changer.candidates.resume();
  }

  /** Records by id, those that exist, in the order asked for. The store learns which ones. */
  async get(ids: string | readonly string[]): Promise<StoredRecord[]> {
    if (this.enrolment !== 'vault') throw needsVault('reading records');
    await this.#changer.refresh();
    return this.#changer.steady(async (view) => {
      const known = (typeof ids === 'string' ? [ids] : ids).filter((id) => view.locate(id) !== undefined);
      // The store gives each record once.
      const once = [...new Set(known)];
      const records = (await this.#fetch(view, once)).map(storedRecord);
      const found = new Map(once.map((id, i) => [id, records[i]]));
      return known.map((id) => found.get(id)!);
    });
  }

  /** Records from the vault, each in the version that the view names. */
  async #fetch(view: View, ids: readonly string[]): Promise<PlainRecord[]> {
    const { keyring, service, name } = this.#changer;
    const handles = ids.map((id) => hex(keyring.records.handleOf(id)));
    const out: PlainRecord[] = [];
    for await (const record of readRecords(service, name, keyring, handles, { newest: view.manifest.epoch })) {
      if (record.version !== view.versionOf(record.id, record.handle))
        throw new OutOfStep('the store gave an older copy of a record than its list names');
      out.push(record);
    }
    return out;
  }

  /** Deletes records; returns how many there were. More than 65 536 are deleted in several changes. They are never found again; `optimize` makes them disappear from the disk. */
  async delete(ids: string | readonly string[]): Promise<number> {
    return removeRecords(this.#changer, typeof ids === 'string' ? [ids] : ids);
  }

  async count(): Promise<number> {
    return liveCount((await this.#changer.refresh()).manifest);
  }

  /** All ids, as they are now. */
  async *list(): AsyncGenerator<string> {
    yield* (await this.#changer.refresh()).ids();
  }

  /** Indexes what waits for a block, and makes deletions final. */
  async optimize(options: MaintenanceOptions = {}): Promise<void> {
    await optimise(this.#changer, options);
  }

  /** Re-encrypts everything under the next epoch of the key; returns that epoch. Can be interrupted, and searched meanwhile. */
  async rotateKey(options: MaintenanceOptions = {}): Promise<number> {
    return rotate(this.#changer, options);
  }

  /** What is compared, as of the last change that was seen. */
  async index(): Promise<Index> {
    const { plan, model } = (await this.#changer.view()).space;
    return { plan, ...(model ? { compressor: model.compressor } : {}) };
  }

  /**
   * Indexes everything anew through a compressor (the bytes of its file), or with null as it is. Nothing is enrolled again: the full vectors are in the vault.
   * Can be interrupted, taken up by the same call, and searched meanwhile: what is compared through either compressor is then ranked together.
   *
   * @example await faces.reindex(await readFile('faces-32.onnx'));
   */
  async reindex(compressor: Uint8Array | null, options: MaintenanceOptions = {}): Promise<void> {
    const { request } = this.#changer.keyring.descriptor;
    await reindex(this.#changer, compressor ? await openModel(compressor, request) : undefined, options);
  }

  /** The collection as one stream of bytes, as encrypted as it is stored. */
  snapshot(options: { readonly signal?: AbortSignal } = {}): AsyncIterable<Uint8Array> {
    return this.#changer.service.snapshot(this.name, options);
  }

  async close(): Promise<void> {
    await this.#changer.candidates.close();
    await this.#changer.keyring.close();
  }
}

function notFound(id: string): HersError {
  return new HersError('NOT_FOUND', `there is no record ${JSON.stringify(id)}`);
}

function storedRecord(record: PlainRecord): StoredRecord {
  const payload = payloadOf(record);
  return { id: record.id, vector: record.vector, ...(payload === undefined ? {} : { payload }) };
}
