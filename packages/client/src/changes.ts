// Changing a collection: everything a change brings is staged first, then one commit. Who loses a race reads again, adapts and repeats.

import { authenticate } from '@hers/scheme/secret';
import { type Change, HersError, type Service, type StageId } from '@hers/service';
import { packed, sealsOf } from './batch.ts';
import { fromHex, hex, sha256 } from './bytes.ts';
import { Candidates } from './candidates.ts';
import type { Keyring } from './keyring.ts';
import { type ListEntry, sealList } from './lists.ts';
import {
  historyAfter,
  type Manifest,
  type ManifestBlock,
  type ManifestModel,
  manifestHash,
  sealManifest,
} from './manifest.ts';
import { sealModel } from './models.ts';
import { type PlainRecord, WaitingRecord } from './records.ts';
import type { Model, Space } from './space.ts';
import { type Place, seenAfter, type VersionMemory } from './versions.ts';
import { mayBeOvertaken, pauseAfter, readView, remember, type Source, shownOf, type View } from './view.ts';

/** Rebasing again and again means that something else is wrong. */
const MAX_ATTEMPTS = 100;
/** A store that says it has moved on, and shows nothing newer, may be a little behind itself; or it wants to hear everything again. */
const MAX_CONTRADICTIONS = 3;
/** Servers that restart in the middle of every change are not worth waiting for. */
const MAX_LOST = 5;
/** Seals under one epoch; random nonces of 96 bits stay apart up to 2^32 of them. */
const MAX_SEALS = 2 ** 31;

/** A change in the making, on top of one view. */
export class Draft {
  readonly view: View;
  readonly epoch: number;
  blocks: ManifestBlock[];
  /** Those with a payload come from this change; only what is needed of them is kept afterwards. */
  readonly pending: Map<string, PlainRecord | WaitingRecord>;
  readonly entries: Map<string, readonly ListEntry[]>;
  readonly scoreSums: Map<string, Uint8Array>;
  readonly spaces: Map<number, Space>;
  models: readonly ManifestModel[];
  /** Ids that left the place the view has them in. */
  readonly gone = new Set<string>();
  readonly records: StageId[] = [];
  readonly removed: Uint8Array[] = [];
  readonly newBlocks: StageId[] = [];
  readonly sums: NonNullable<Change['sums']>[number][] = [];
  readonly dropped: Uint8Array[] = [];
  readonly lists: StageId[] = [];
  readonly droppedLists: Uint8Array[] = [];
  /** Of the manifest that this draft was sealed as, once it was. */
  hash: string | undefined;
  readonly #dead = new Map<string, Set<number>>();
  #seals = 0;

  constructor(view: View, epoch = view.manifest.epoch) {
    this.view = view;
    this.epoch = epoch;
    this.blocks = [...view.manifest.blocks];
    this.pending = new Map(view.pending);
    this.entries = new Map(view.entries);
    this.scoreSums = new Map(view.scoreSums);
    this.spaces = new Map(view.spaces);
    this.models = view.manifest.models;
  }

  /** The space of the draft's epoch. */
  get space(): Space {
    return this.spaces.get(this.epoch)!;
  }

  /** Leaves out the compressors, and the spaces, of epochs that have no blocks any more. */
  dropUnused(): void {
    const used = new Set([this.epoch, ...this.blocks.map((block) => block.epoch)]);
    for (const { epoch, lists } of this.models)
      if (!used.has(epoch)) for (const list of lists) this.droppedLists.push(fromHex(list));
    this.models = this.models.filter(({ epoch }) => used.has(epoch));
    for (const epoch of this.spaces.keys()) if (!used.has(epoch)) this.spaces.delete(epoch);
  }

  /** Takes a record out of where it is; it may come back elsewhere in the same change. */
  displace(id: string, handle: string): void {
    const place = this.view.locate(id);
    if (place === undefined) return;
    this.gone.add(id);
    if (this.pending.delete(handle) || place === 'pending') return;
    let dead = this.#dead.get(place.block.id);
    if (!dead) this.#dead.set(place.block.id, (dead = new Set(place.block.dead)));
    dead.add(place.slot);
  }

  /** A block that grew has a new id; its dead slots stay where they are. */
  movedBlock(from: string, to: string): void {
    const dead = this.#dead.get(from);
    if (dead) this.#dead.set(to, dead);
  }

  dropBlock(block: ManifestBlock): void {
    this.blocks = this.blocks.filter((b) => b.id !== block.id);
    this.entries.delete(block.id);
    this.scoreSums.delete(block.id);
    this.dropped.push(fromHex(block.id));
    for (const list of block.lists) this.droppedLists.push(fromHex(list));
  }

  countSeals(count: number): void {
    this.#seals += count;
  }

  manifest(): Manifest {
    const { manifest } = this.view;
    const seals = (this.epoch === manifest.epoch ? manifest.seals : 0) + this.#seals;
    if (seals > MAX_SEALS)
      throw new HersError(
        'INVALID_ARGUMENT',
        'this key has sealed as much as it safely can; rotate the key of the collection',
      );
    const pending = [...this.pending.values()].map(({ handle, version }) => ({ handle, version }));
    const blocks = this.blocks.map((block) => {
      const dead = this.#dead.get(block.id);
      return dead ? { ...block, dead: [...dead].sort((a, b) => a - b) } : block;
    });
    const history = historyAfter(this.view.hash, manifest.history);
    return { version: manifest.version + 1, epoch: this.epoch, seals, blocks, pending, models: this.models, history };
  }
}

export class Changer {
  readonly service: Service;
  readonly place: Place;
  readonly keyring: Keyring;
  readonly memory: VersionMemory;
  readonly candidates: Candidates;
  #view: Promise<View> | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor({ service, place, keyring, memory }: Source) {
    this.service = service;
    this.place = place;
    this.keyring = keyring;
    this.memory = memory;
    this.candidates = new Candidates(this);
  }

  get name(): string {
    return this.place.name;
  }

  /** The view as it was last read, or read now. */
  view(): Promise<View> {
    this.#view ??= this.refresh();
    return this.#view;
  }

  /** Reads what is current. */
  refresh(): Promise<View> {
    const known = this.#view;
    let before: View | undefined;
    const reading = (async () => {
      before = await known?.catch(() => undefined);
      return readView(this, before);
    })();
    this.#view = reading;
    reading.catch((error) => {
      if (this.#view !== reading) return;
      // A failed reading is not kept. What was known before is good for the next, unless the store was caught: then nobody goes on as if it had not been.
      const isCaught = error instanceof HersError && error.code === 'INTEGRITY';
      this.#view = before && !isCaught ? Promise.resolve(before) : undefined;
    });
    return reading;
  }

  /**
   * The view to try again with after an error that another writer may have caused. Believed is only a newer manifest, opened and authenticated; a store that shows none is asked
   * again a few times, and then the error stands.
   */
  overtaking(): (view: View, error: unknown) => Promise<View> {
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

  /** Reads what must fit one view; where another writer came in between, it is read again. Nothing that `read` asks for may depend on what it decrypted. */
  async steady<T>(read: (view: View) => Promise<T>): Promise<T> {
    const again = this.overtaking();
    let view = await this.view();
    // Others that share this memory may have seen more; a store that answers for what it was before is then caught by reading again.
    const seen = await this.memory.read(this.place);
    const { version } = view.manifest;
    const isSame = seen?.id === hex(this.keyring.id) && !seen.deleted;
    const isOther = seen?.version === version && seen.hash !== undefined && seen.hash !== view.hash;
    if (seen && (!isSame || seen.version > version || isOther)) view = await this.refresh();
    for (;;) {
      try {
        return await read(view);
      } catch (error) {
        view = await again(view, error);
      }
    }
  }

  /**
   * One change at a time: `make` fills a draft for the view it is given. It is asked again for a newer view when another writer was first, and when what was staged is gone,
   * because a server was restarted between staging and commit: then nothing staged before is good any more, and `lost` says so.
   */
  change<T>(
    make: (view: View, lost: boolean) => Promise<{ draft: Draft; result: T } | { draft?: undefined; result: T }>,
  ): Promise<T> {
    const turn = this.#turn.then(async () => {
      let view = await this.view();
      const again = this.overtaking();
      let lost = false;
      let losses = 0;
      for (;;) {
        let made: Awaited<ReturnType<typeof make>> | undefined;
        try {
          made = await make(view, lost);
          if (made.draft) await this.#commit(made.draft);
          // That there is nothing to do is said of what is there now, not of what was there when it was last read.
          else if (await this.#isOld(view)) {
            view = await this.view();
            continue;
          }
          return made.result;
        } catch (error) {
          lost = made?.draft !== undefined && error instanceof HersError && error.code === 'NOT_FOUND';
          if (lost && ++losses > MAX_LOST) throw error;
          view = lost ? await this.refresh() : await again(view, error);
          // The answer to the commit was lost, and others went on from it before it was asked for again.
          if (made?.draft && isIn(view, made.draft)) return made.result;
          if (lost) await pauseAfter(losses);
        }
      }
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }

  async #isOld({ manifest }: View): Promise<boolean> {
    return (await this.refresh()).manifest.version > manifest.version;
  }

  async #commit(draft: Draft): Promise<void> {
    draft.dropUnused();
    const manifest = draft.manifest();
    const sealed = await sealManifest(await this.keyring.manifestSealer(), this.keyring.id, manifest);
    const { records, removed, newBlocks, sums, dropped, lists, droppedLists } = draft;
    const hash = await manifestHash(sealed);
    draft.hash = hash;
    // Others that share this memory may have gone on, or have seen another history, or accepted one: then this change is not made on top of what was read here.
    const seen = await this.memory.read(this.place);
    if (seen && seen.version >= manifest.version)
      throw new HersError('STALE', 'another client has changed this collection');
    seenAfter(seen, shownOf(this.keyring, manifest, hash), this.name);
    await this.service.commit(this.name, {
      expected: manifest.version - 1,
      manifest: sealed,
      records,
      removed,
      blocks: newBlocks,
      sums,
      dropped,
      lists,
      droppedLists,
    });
    const pending = new Map(
      [...draft.pending].map(([handle, record]) => [
        handle,
        WaitingRecord.of(record, draft.space.projectionOf(record) ?? record.projection),
      ]),
    );
    this.#view = Promise.resolve(
      draft.view.next(manifest, hash, draft.entries, draft.scoreSums, pending, draft.spaces, draft.gone),
    );
    await remember(this, manifest, hash).catch((error) => {
      if (error instanceof HersError) throw error;
      throw new HersError(
        'STORAGE',
        `the change was made, but what was seen of it cannot be written down (${(error as Error).message}); the folder of that file must be writable`,
      );
    });
  }

  /** Seals records under the epoch of a space, with what is indexed of them where that is sealed too, and stages them. */
  async stageRecords(space: Space, records: readonly PlainRecord[], signal?: AbortSignal): Promise<StageId> {
    const { keyring } = this;
    const { dimension, parameters } = keyring.plan;
    const projections = space.sealsProjections ? await space.projectRecords(records) : undefined;
    const batches = [...packed(records, dimension, parameters.n, projections)].map((batch) =>
      keyring.seal(space.epoch, batch),
    );
    const seals = sealsOf(await Promise.all(batches));
    return this.service.stageRecords(this.name, seals, signal ? { signal } : {});
  }

  /** Stages a list, and returns its name in the manifest. */
  async stageList(draft: Draft, entries: readonly ListEntry[], sums?: Uint8Array): Promise<string> {
    const sealed = await sealList(await this.keyring.sealer(draft.epoch), this.keyring.id, entries, sums);
    draft.countSeals(1);
    draft.lists.push(await this.service.stageList(this.name, sealed));
    return hex(await sha256(sealed));
  }

  /** Makes this the compressor of the draft's epoch, in which nothing is indexed yet; or that it has none. */
  async setModel(draft: Draft, model: Model | undefined): Promise<void> {
    const { epoch } = draft;
    for (const kept of draft.models)
      if (kept.epoch === epoch) for (const list of kept.lists) draft.droppedLists.push(fromHex(list));
    draft.models = draft.models.filter((kept) => kept.epoch !== epoch);
    draft.spaces.set(epoch, this.keyring.space(epoch, model));
    if (!model) return;
    const lists: string[] = [];
    for (const sealed of await sealModel(await this.keyring.sealer(epoch), this.keyring.id, model)) {
      draft.countSeals(1);
      draft.lists.push(await this.service.stageList(this.name, sealed));
      lists.push(hex(await sha256(sealed)));
    }
    const { method, outputDimension: dimension } = model.compressor;
    draft.models = [...draft.models, { epoch, method, dimension, digest: model.digest, lists }];
  }

  /** Encrypts vectors of the draft's space (or integers, rounded already) into a new block of the draft. */
  async addBlock(
    draft: Draft,
    entries: readonly ListEntry[],
    vectors: Float32Array | Int32Array,
    signal?: AbortSignal,
  ): Promise<void> {
    const crew = await draft.space.crew();
    const { block: encoded, sums } = await crew.encrypt(vectors, 0);
    // The blocks of a vault are made anew from it, and never read.
    const tagged = this.keyring.descriptor.enrolment === 'homomorphic';
    const tag = tagged ? { tag: hex(authenticate(draft.space.key(), encoded)) } : {};
    signal?.throwIfAborted();
    const [stage, hash, list] = await Promise.all([
      this.service.stageBlock(this.name, [encoded], signal ? { signal } : {}),
      sha256(encoded),
      this.stageList(draft, entries, sums),
    ]);
    const id = blockIdOf(encoded);
    draft.newBlocks.push(stage);
    draft.entries.set(id, entries);
    if (sums) draft.scoreSums.set(id, sums);
    draft.blocks.push({
      id,
      hash: hex(hash),
      ...tag,
      epoch: draft.epoch,
      count: entries.length,
      additions: 1,
      lists: [list],
      dead: [],
    });
  }
}

/** Whether a draft became this view, or one before it. */
function isIn({ hash, manifest }: View, draft: Draft): boolean {
  return draft.hash !== undefined && (hash === draft.hash || (manifest.history ?? []).includes(draft.hash));
}

/** A store that says that it has moved on, and has nothing to show for it. */
export function contradiction(): HersError {
  return new HersError('INTEGRITY', 'the store says that the collection has changed, and shows no newer manifest');
}

/** The id of an encoded block stands behind the head of every message. */
export function blockIdOf(encoded: Uint8Array): string {
  return hex(encoded.subarray(32, 48));
}
