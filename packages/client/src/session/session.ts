// A collection while it is open: everything that reads or writes it goes through its session, which
// knows the current view and alone decides when to read it again. A change is staged first, then
// committed; a client that loses a race reads again, adapts and retries.

import { peekBlock } from '@hers/scheme';
import { makeDeviceEvaluation, makeEvaluationKeys } from '@hers/scheme/secret/open';
import { freeBytes, HersError, Renewable, type SealedRecord, type Service, SHARED, type StageId } from '@hers/service';
import { concat, fromHex, hex, sha256 } from '../bytes.ts';
import { columnOf } from '../fields/column.ts';
import type { FieldValues } from '../fields/field.ts';
import { packed, sealsOf } from '../formats/batch.ts';
import { type Compression, sealCompressor } from '../formats/compressors.ts';
import { type BlockColumns, type List, sealColumn, sealList } from '../formats/lists.ts';
import {
  evaluationListsOf,
  type Manifest,
  type ManifestBlock,
  manifestHash,
  sealManifest,
  sealSections,
} from '../formats/manifest.ts';
import { PendingRecord, type PlainRecord, valuesIn } from '../formats/records.ts';
import type { Keyring } from '../keys/keyring.ts';
import type { Space } from '../keys/space.ts';
import { type Draft, evaluationOf, OWN_DEVICE, ownedDevices } from './draft.ts';
import { CollectionReader, mayBeOvertaken, pauseAfter, type Source } from './reader.ts';
import { type Place, seenAfter, type VersionMemory } from './versions.ts';
import { partitionOf, View } from './view.ts';

/** A change that has to be rebased more often than this has another problem. */
const MAX_ATTEMPTS = 100;
/**
 * A store that answers STALE and shows no newer manifest may lag for a moment, or want to see
 * requests twice.
 */
const MAX_CONTRADICTIONS = 3;
/** How often a server may restart in the middle of one change. */
const MAX_LOST = 5;

export class CollectionSession {
  readonly service: Service;
  readonly place: Place;
  readonly keyring: Keyring;
  readonly memory: VersionMemory;
  readonly reader: CollectionReader;
  #view: Promise<View> | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  /** Made, and not yet committed. */
  readonly #evaluationKeys = new Map<Space, readonly Uint8Array[]>();

  constructor({ service, place, keyring, memory, cache, partitions }: Source) {
    this.service = service;
    this.place = place;
    this.keyring = keyring;
    this.memory = memory;
    this.reader = new CollectionReader({ service, place, keyring, memory, cache, partitions });
  }

  get name(): string {
    return this.place.name;
  }

  /** The view as it was last read, or read now. */
  view(): Promise<View> {
    this.#view ??= this.refresh();
    return this.#view;
  }

  refresh(): Promise<View> {
    const known = this.#view;
    let before: View | undefined;
    const reading = (async () => {
      before = await known?.catch(() => undefined);
      return this.reader.view(before);
    })();
    this.#view = reading;
    reading.catch((error) => {
      if (this.#view !== reading) return;
      // A failed read is not kept. The view before it can be used again, unless the store was
      // caught cheating.
      const isCaught = error instanceof HersError && error.code === 'INTEGRITY';
      this.#view = before && !isCaught ? Promise.resolve(before) : undefined;
    });
    return reading;
  }

  /**
   * Finds the view for a retry after an error that another writer may have caused. Only a newer
   * manifest, authenticated, proves it; a store that shows none is asked a few times.
   */
  #overtaking(): (view: View, error: unknown) => Promise<View> {
    let attempts = 0;
    let contradictions = 0;
    return async (view, error) => {
      if (!mayBeOvertaken(error) || ++attempts === MAX_ATTEMPTS) throw error;
      const now = await this.refresh(); // NOT_FOUND again when it is the collection that is gone
      if (now.manifest.version > view.manifest.version) return now;
      if ((error as HersError).code !== 'STALE') throw error;
      if (++contradictions > MAX_CONTRADICTIONS) throw contradiction();
      await pauseAfter(contradictions);
      return now;
    };
  }

  /**
   * Answers from one view; if another writer came in between, again from a newer one. This is the
   * only place that retries a read. Nothing that `answer` asks of the store may depend on what it
   * decrypted.
   */
  async read<T>(answer: (view: View) => Promise<T>): Promise<T> {
    const again = this.#overtaking();
    let view = await this.view();
    // Others that share this memory may have seen more. Reading again then catches a store that
    // answers from an older state.
    const seen = await this.memory.read(this.place);
    const { version } = view.manifest;
    const isSame = seen?.id === hex(this.keyring.id) && !seen.deleted;
    const isOther = seen?.version === version && seen.hash !== undefined && seen.hash !== view.hash;
    if (seen && (!isSame || seen.version > version || isOther)) view = await this.refresh();
    for (;;) {
      try {
        return await answer(view);
      } catch (error) {
        view = await again(view, error);
      }
    }
  }

  /**
   * One change at a time: `make` fills a draft for the view it is given. It is called again with a
   * newer view when another writer was first; and when what was staged is gone, because the server
   * restarted between staging and commit: then `lost` is true, and nothing staged before is valid.
   */
  write<T>(
    make: (view: View, lost: boolean) => Promise<{ draft: Draft; result: T } | { draft?: undefined; result: T }>,
  ): Promise<T> {
    const turn = this.#turn.then(async () => {
      let view = await this.view();
      const again = this.#overtaking();
      let lost = false;
      let losses = 0;
      for (;;) {
        let made: Awaited<ReturnType<typeof make>> | undefined;
        try {
          made = await make(view, lost);
          if (made.draft) await this.#commit(made.draft);
          // That there is nothing to do must hold for the current version, not for the last one
          // read.
          else if (await this.#isOld(view)) {
            view = await this.view();
            continue;
          }
          return made.result;
        } catch (error) {
          lost = made?.draft !== undefined && error instanceof HersError && error.code === 'NOT_FOUND';
          if (lost && ++losses > MAX_LOST) throw error;
          view = lost ? await this.refresh() : await again(view, error);
          // The answer to the commit was lost, and others have committed on top of it meanwhile.
          if (made?.draft && isIn(view, made.draft)) return made.result;
          if (lost) await pauseAfter(losses);
        }
      }
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** By the hash: a history that a person has accepted may be older, or just as new. */
  async #isOld({ hash }: View): Promise<boolean> {
    return (await this.refresh()).hash !== hash;
  }

  async #commit(draft: Draft): Promise<void> {
    draft.dropUnused(this.reader.partitions === undefined);
    const { manifest, sealed } = await this.#sealed(draft);
    const { records, removed, newBlocks, dropped, lists, droppedLists } = draft;
    const hash = await manifestHash(sealed);
    draft.hash = hash;
    // Others that share this memory may have committed, or seen or accepted another history: then
    // the view that this change is based on is not current.
    const seen = await this.memory.read(this.place);
    if (seen && seen.version >= manifest.version)
      throw new HersError('STALE', 'another client has changed this collection');
    seenAfter(seen, this.reader.asShown(manifest, hash), this.name);
    // Before the commit: another client may have added a field since these records were checked,
    // and one with a value that does not fit would keep everybody from opening the collection.
    const pending = new Map(
      [...draft.pending].map(([handle, record]) => [
        handle,
        PendingRecord.of(record, draft.fields, draft.space.projectionOf(record) ?? record.projection),
      ]),
    );
    await this.service.commit(this.name, {
      expected: manifest.version - 1,
      manifest: sealed,
      records,
      removed,
      blocks: newBlocks,
      dropped,
      lists,
      droppedLists,
    });
    for (const each of draft.spaces.values()) this.#evaluationKeys.delete(each);
    const { entries, scoreSums, columns, spaces, space } = draft;
    const view = new View({ manifest, hash, entries, scoreSums, columns, pending, spaces, space });
    this.#view = Promise.resolve(view.follows(draft.view));
    await this.reader.remember(manifest, hash).catch((error) => {
      if (error instanceof HersError) throw error;
      throw new HersError(
        'STORAGE',
        `the change was made, but what was seen of it cannot be written down (${(error as Error).message}); the folder of that file must be writable`,
      );
    });
  }

  async #sealed(draft: Draft): Promise<{ readonly manifest: Manifest; readonly sealed: Uint8Array }> {
    const { keyring, reader } = this;
    const [sealer, drafted, before] = [await keyring.manifestSealer(), draft.manifest(), draft.view.manifest];
    const manifest = drafted.sections
      ? { ...drafted, sections: await sealSections(sealer, keyring.id, drafted, before, reader.access) }
      : drafted;
    return { manifest, sealed: await sealManifest(sealer, keyring.id, manifest) };
  }

  /** FORBIDDEN where this client is limited to some partitions. */
  checkWhole(what: string): void {
    if (!this.reader.partitions) return;
    throw new HersError(
      'FORBIDDEN',
      `${what} is about the whole collection, and this client is limited to partitions: use a token that is not`,
    );
  }

  /** FORBIDDEN unless this client may write to a partition. */
  checkPartition(name: string | undefined): void {
    const { only, handleOf } = this.reader.access;
    if (!only || only.has(hex(handleOf(name)))) return;
    throw new HersError(
      'FORBIDDEN',
      `this client is limited to partitions, and ${name === undefined ? 'a record without a partition' : JSON.stringify(name)} is not in one of them`,
    );
  }

  /** Sealed records as a store takes them: with the handles of their partitions, if it has any. */
  held(manifest: Manifest, records: readonly PlainRecord[], seals: Renewable<SealedRecord>): Renewable<SealedRecord> {
    return manifest.sections ? new Renewable(() => this.#inPartitions(manifest, records, seals)) : seals;
  }

  *#inPartitions(
    manifest: Manifest,
    records: readonly PlainRecord[],
    seals: Iterable<SealedRecord>,
  ): Generator<SealedRecord> {
    const handles = new Map<string | undefined, Uint8Array>();
    let at = 0;
    for (const { handle, sealed } of seals) {
      const partition = partitionOf(manifest, valuesIn(records[at++], manifest.fields));
      let prefix = handles.get(partition);
      if (!prefix) handles.set(partition, (prefix = this.keyring.partitionHandle(partition)));
      yield { handle, sealed: concat(prefix, sealed) };
    }
  }

  /** Stages a sealed list of a partition, or of all where it is null; returns its name. */
  async #stageSealed(draft: Draft, sealed: Uint8Array, partition: string | undefined | null): Promise<string> {
    const handle = partition === null ? SHARED : this.keyring.partitionHandle(partition);
    draft.countSeals(1);
    return this.#stageBytes(draft, handle, sealed);
  }

  /** Stages a list that is for the store as it is; returns its name. */
  async #stageBytes(draft: Draft, handle: Uint8Array, bytes: Uint8Array): Promise<string> {
    const list = draft.view.manifest.sections ? concat(handle, bytes) : bytes;
    draft.lists.push(await this.service.stageList(this.name, list));
    return hex(await sha256(list));
  }

  /**
   * Seals records under the epoch of a space, with projections where those are sealed, and stages
   * them.
   */
  async stageRecords(
    manifest: Manifest,
    space: Space,
    records: readonly PlainRecord[],
    signal?: AbortSignal,
  ): Promise<StageId> {
    const { keyring } = this;
    const { dimension, parameters } = keyring.plan;
    const projections = space.sealsProjections ? await space.projectRecords(records) : undefined;
    const batches = [...packed(records, dimension, parameters.n, projections)].map((batch) =>
      keyring.seal(space.epoch, batch),
    );
    const seals = this.held(manifest, records, sealsOf(await Promise.all(batches)));
    return this.service.stageRecords(this.name, seals, signal ? { signal } : {});
  }

  /** Stages a list of a block of this partition and epoch, and returns its name in the manifest. */
  async stageList(
    draft: Draft,
    list: List,
    sums?: Uint8Array,
    partition?: string,
    epoch: number = draft.epoch,
  ): Promise<string> {
    const sealed = await sealList(await this.keyring.sealer(epoch), this.keyring.id, list, sums);
    return this.#stageSealed(draft, sealed, partition);
  }

  /** Stages the columns of these fields for a block, one value of each for every slot. */
  async stageColumns(
    draft: Draft,
    { epoch, partition }: Pick<ManifestBlock, 'epoch' | 'partition'>,
    fields: readonly string[],
    values: readonly FieldValues[],
  ): Promise<{ readonly columns: BlockColumns; readonly names: Readonly<Record<string, string>> }> {
    const stage = async (field: string) => {
      const each = values.map((of) => of.get(field));
      const column = columnOf(draft.fields[field], each, this.reader.interned);
      const sealed = await sealColumn(await this.keyring.sealer(epoch), this.keyring.id, field, column);
      return { field, column, name: await this.#stageSealed(draft, sealed, partition) };
    };
    const staged = await Promise.all(fields.map(stage));
    return {
      columns: new Map(staged.map(({ field, column }) => [field, column])),
      names: Object.fromEntries(staged.map(({ field, name }) => [field, name])),
    };
  }

  /** Sets the compressor of the draft's epoch, in which nothing is indexed yet, or none. */
  async setCompressor(draft: Draft, compression: Compression | undefined): Promise<void> {
    const { epoch } = draft;
    for (const kept of draft.compressors)
      if (kept.epoch === epoch) for (const list of kept.lists) draft.droppedLists.push(fromHex(list));
    draft.compressors = draft.compressors.filter((kept) => kept.epoch !== epoch);
    draft.space = this.keyring.space(epoch, compression);
    draft.spaces.set(draft.space.epoch, draft.space);
    if (!compression) return;
    const lists: string[] = [];
    for (const sealed of await sealCompressor(await this.keyring.sealer(epoch), this.keyring.id, compression))
      lists.push(await this.#stageSealed(draft, sealed, null));
    const { method, outputDimension: dimension } = compression.compressor;
    draft.compressors = [...draft.compressors, { epoch, method, dimension, digest: compression.digest, lists }];
  }

  /**
   * Stages the evaluation keys of a space, where its blocks are searched with open queries and the
   * draft has none of its key. They are made once: a change that is retried brings the same ones.
   */
  evaluate(draft: Draft, space: Space = draft.space): Promise<void> {
    let evaluating = draft.evaluating.get(space.epoch);
    if (!evaluating) draft.evaluating.set(space.epoch, (evaluating = this.#evaluate(draft, space)));
    return evaluating;
  }

  async #evaluate(draft: Draft, space: Space): Promise<void> {
    if (space.plan.profile !== 'open') return;
    const { epoch } = space;
    if (evaluationOf(draft, space)) return;
    const before = draft.evaluation.find((each) => each.epoch === epoch);
    this.checkWhole('making evaluation keys');
    for (const list of before ? evaluationListsOf(before) : []) draft.droppedLists.push(fromHex(list));
    let made = this.#evaluationKeys.get(space);
    if (!made) this.#evaluationKeys.set(space, (made = makeEvaluationKeys(space.key(), { devices: [OWN_DEVICE] })));
    const lists: string[] = [];
    for (const piece of made) lists.push(await this.#stageBytes(draft, SHARED, piece));
    draft.evaluation = [
      ...draft.evaluation.filter((each) => each !== before),
      { epoch, keyId: hex(space.key().keyId), generation: 0, lists },
    ];
    // Where they were lost, those of devices were as well.
    for (const secret of ownedDevices(draft.devices, space)) await this.evaluateDevice(draft, space, secret);
  }

  /** Stages the evaluation keys of a device with a key of its own, beside those of its space. */
  async evaluateDevice(draft: Draft, space: Space, secret: number): Promise<void> {
    const found = evaluationOf(draft, space)!;
    const list = await this.#stageBytes(draft, SHARED, makeDeviceEvaluation(space.key(), secret, found.generation));
    draft.evaluation = draft.evaluation.map((each) =>
      each === found ? { ...each, devices: { ...each.devices, [secret]: list } } : each,
    );
  }

  /**
   * Encrypts vectors of the draft's space into a new block of the draft. There are as many `values`
   * as records, if the collection has fields; in one with partitions, all have the same one.
   */
  async addBlock(
    draft: Draft,
    list: List,
    vectors: Float32Array,
    values: readonly FieldValues[],
    signal?: AbortSignal,
  ): Promise<void> {
    const { manifest } = draft.view;
    const partition = partitionOf(manifest, values[0]);
    const handle = manifest.sections && this.keyring.partitionHandle(partition);
    const crew = await draft.space.crew();
    const evaluating = this.evaluate(draft);
    evaluating.catch(() => {}); // reported below
    const { block: encoded, hash, sums } = await crew.encrypt(vectors, handle);
    await evaluating;
    signal?.throwIfAborted();
    const fields = Object.keys(draft.fields);
    const place = { epoch: draft.epoch, ...(partition === undefined ? {} : { partition }) };
    const [stage, name, { columns, names }] = await Promise.all([
      this.service.stageBlock(this.name, [encoded], signal ? { signal } : {}),
      this.stageList(draft, list, sums, partition),
      this.stageColumns(draft, place, fields, values),
    ]);
    const id = hex(peekBlock(encoded).blockId);
    freeBytes(encoded);
    draft.newBlocks.push(stage);
    draft.entries.set(id, list);
    if (sums) draft.scoreSums.set(id, sums);
    draft.columns.set(id, columns);
    const named = fields.length > 0 ? { columns: names } : {};
    draft.blocks.push({ id, hash, ...place, count: list.count, list: name, ...named, dead: [] });
  }
}

/** Whether a draft became this view, or one before it. */
function isIn({ hash, manifest }: View, draft: Draft): boolean {
  return draft.hash !== undefined && (hash === draft.hash || manifest.history.includes(draft.hash));
}

export function contradiction(): HersError {
  return new HersError('INTEGRITY', 'the store says that the collection has changed, and shows no newer manifest');
}
