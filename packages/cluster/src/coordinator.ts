// A Service on many nodes. Every node has one: it splits what is staged, commits through the
// ledger, and merges what the shards answer.

import { createHash, randomBytes } from 'node:crypto';
import { decodeBlock } from '@hers/scheme';
import { isEvaluation } from '@hers/scheme/open';
import {
  type CallOptions,
  type Change,
  type CollectionInfo,
  checkBlocks,
  checkCollectionName,
  checkWhole,
  eitherSignal,
  HersError,
  type InboxItem,
  isOf,
  isShared,
  type Many,
  notHeld,
  type OptionNames,
  PARTITION_BYTES,
  type Partitions,
  refuseUnknown,
  type SealedRecord,
  type SearchCallOptions,
  type SearchRequest,
  type Service,
  type StageId,
  sectionsOf,
  withOtherSections,
} from '@hers/service';
import { type ShardState, stateOf } from '@hers/store/stages';
import { majorityOf, type PlacedCollection, placeShards } from './directory.ts';
import { type ClusterNode, writeTo } from './node.ts';
import { pause } from './pause.ts';
import { firstOf, quorum } from './quorum.ts';
import { Filling } from './restoring.ts';
import { type SearchedShard, searchShards } from './search.ts';
import {
  addressOf,
  encodeHome,
  FIRST_VERSION,
  HOME,
  type Home,
  homeState,
  isCurrent,
  MADE,
  MAX_SHARDS,
  type ShardService,
  shardManifest,
  shardName,
  shardOf,
  shardState,
} from './shard.ts';
import { joinSnapshots, readSnapshot, ShardSnapshot } from './snapshot.ts';
import { nameStage, readStage, type ShardStage, type StageKind } from './stage-names.ts';

export interface CoordinatorOptions {
  /** Known to all nodes and to nobody else. */
  readonly secret: string;
  /** Shards of a new collection; 16 by default. */
  readonly shards?: number;
  /** Nodes that keep each shard; 3 by default. With two, changes stop when one of them is gone. */
  readonly replicas?: number;
}

const DEFAULT_SHARDS = 16;
const DEFAULT_REPLICAS = 3;
/** Records gathered before they go to the shards, in bytes. */
const GATHERED_BYTES = 2 ** 26;
/** Records and lists that are read together. */
const READ_RECORDS = 4096;
const READ_LISTS = 64;
/** How often a call is begun again because shards have moved. */
const PLACEMENT_TRIES = 10;
/** How long a change waits for replicas that lag. */
const LAG_MS = 10_000;
const LAG_PAUSE_MS = 50;
/** How often a snapshot is begun again because the collection changed in between. */
const SNAPSHOT_TRIES = 20;

const FIELDS: OptionNames<Change> = {
  expected: true,
  manifest: true,
  records: true,
  removed: true,
  blocks: true,
  sums: true,
  dropped: true,
  lists: true,
  droppedLists: true,
};

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const isCode = (error: unknown, ...codes: string[]) => error instanceof HersError && codes.includes(error.code);

/** What is current of a collection. */
interface Current {
  readonly placed: PlacedCollection;
  readonly home: Home;
  /** Of every shard. */
  readonly states: readonly ShardState[];
}

/** What a change does to one shard. */
interface ShardPart {
  readonly records: StageId[];
  readonly removed: Uint8Array[];
  readonly blocks: StageId[];
  readonly sums: { base: Uint8Array; part: StageId; result: Uint8Array; maxAdditions: number }[];
  readonly dropped: Uint8Array[];
  readonly lists: StageId[];
  readonly droppedLists: Uint8Array[];
}

export class Coordinator implements Service {
  readonly #node: ClusterNode;
  readonly #secret: string;
  readonly #shards: number;
  readonly #replicas: number;
  readonly #closing = new AbortController();

  constructor(node: ClusterNode, options: CoordinatorOptions) {
    refuseUnknown(options, { secret: true, shards: true, replicas: true }, 'a coordinator');
    const { secret, shards = DEFAULT_SHARDS, replicas = DEFAULT_REPLICAS } = options;
    if (!(Number.isInteger(shards) && shards >= 1 && shards <= MAX_SHARDS))
      throw new HersError('INVALID_ARGUMENT', `a collection has 1 to ${MAX_SHARDS} shards`);
    if (!(Number.isInteger(replicas) && replicas >= 1))
      throw new HersError('INVALID_ARGUMENT', 'a shard has one replica at least');
    this.#node = node;
    this.#secret = secret;
    this.#shards = shards;
    this.#replicas = replicas;
  }

  #checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  // — collections —

  async #find(name: string): Promise<PlacedCollection> {
    this.#checkOpen();
    const known = this.#node.directory.collections[name];
    if (known && Object.hasOwn(this.#node.directory.collections, name)) return known;
    const { collections } = await this.#node.readDirectory();
    this.#checkOpen();
    if (!Object.hasOwn(collections, name)) throw noSuchCollection(name);
    return collections[name];
  }

  /**
   * What is current of a collection; NOT_FOUND if it was deleted, or there is another of its name.
   */
  async #current(name: string, signal?: AbortSignal): Promise<Current> {
    for (let left = PLACEMENT_TRIES; ; left--) {
      const placed = await this.#find(name);
      try {
        const current = await this.#node.home(placed, signal);
        return { placed, home: current.home, states: this.#node.statesOf(current) };
      } catch (error) {
        if (!isCode(error, 'NOT_FOUND', 'STALE', 'UNAVAILABLE')) throw error;
        // Its shards may be elsewhere now, or nowhere.
        const { collections } = await this.#node.readDirectory();
        this.#checkOpen();
        if (!Object.hasOwn(collections, name)) throw noSuchCollection(name);
        const { uid, placement } = collections[name];
        if (left > 0 && (uid !== placed.uid || placement > placed.placement)) continue;
        if (isCode(error, 'UNAVAILABLE')) throw error;
        throw new HersError('UNAVAILABLE', `too few nodes have the collection ${name}; try again`);
      }
    }
  }

  async createCollection(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
  ): Promise<void> {
    this.#checkOpen();
    checkCollectionName(name);
    checkBytes(created.manifest, 'a manifest');
    checkWhole(created.manifest);
    if (Object.hasOwn((await this.#node.readDirectory()).collections, name)) throw alreadyExists(name);
    const { manifest } = created;
    const shards = Array.from({ length: this.#shards }, (_, shard) =>
      shard === HOME ? homeState(FIRST_VERSION) : shardState(FIRST_VERSION, MADE),
    );
    const home = encodeHome({ version: FIRST_VERSION, manifest, shards, moved: new Map() });
    await this.#register(name, await this.#makeShards({ ...created, manifest: home }));
  }

  /** What replicas answer to a call that changes them, if a majority does it. */
  #write<T>(replicas: readonly string[], call: (service: ShardService, node: string) => Promise<T>): Promise<T> {
    return writeTo(this.#node, replicas, call);
  }

  /** Makes the shards of a collection that nobody knows yet. */
  async #makeShards(created: {
    readonly id: Uint8Array;
    readonly descriptor: Uint8Array;
    /** Of the home shard. */
    readonly manifest: Uint8Array;
  }): Promise<PlacedCollection> {
    const uid = randomBytes(16).toString('hex');
    const nodes = this.#node.mover.takers(this.#replicas);
    const shards = placeShards(uid, this.#shards, this.#replicas, nodes);
    const placed = { uid, base: 0, shards, placement: 0, replicas: this.#replicas };
    const { id, descriptor } = created;
    const manifestOf = (shard: number) => (shard === HOME ? created.manifest : shardManifest(FIRST_VERSION, MADE));
    try {
      await Promise.all(
        shards.map((replicas, shard) =>
          this.#write(replicas, (service) =>
            service.createCollection(shardName(uid, shard), { id, descriptor, manifest: manifestOf(shard) }),
          ),
        ),
      );
    } catch (error) {
      await this.#removeShards(placed);
      throw error;
    }
    return placed;
  }

  async #removeShards({ uid, shards }: PlacedCollection): Promise<void> {
    await Promise.allSettled(
      shards.flatMap((replicas, shard) =>
        replicas.map((node) => this.#node.peer(node).deleteCollection(shardName(uid, shard))),
      ),
    );
  }

  async #register(name: string, placed: PlacedCollection): Promise<void> {
    try {
      await this.#node.changeDirectory((directory) => {
        if (Object.hasOwn(directory.collections, name)) throw alreadyExists(name);
        const gone = placed.shards.flat().find((node) => !Object.hasOwn(directory.nodes, node));
        if (gone !== undefined) throw new HersError('UNAVAILABLE', `node ${gone} has left the cluster; try again`);
        return { ...directory, collections: { ...directory.collections, [name]: placed } };
      });
    } catch (error) {
      if (isCode(error, 'ALREADY_EXISTS')) await this.#removeShards(placed);
      throw error;
    }
  }

  async listCollections(): Promise<CollectionInfo[]> {
    this.#checkOpen();
    const { collections } = await this.#node.readDirectory();
    const infos = await Promise.all(
      Object.keys(collections).map((name) =>
        this.getCollection(name).catch((error) => {
          if (isCode(error, 'NOT_FOUND')) return undefined; // it was deleted meanwhile
          throw error;
        }),
      ),
    );
    return infos.filter((info) => info !== undefined);
  }

  async getCollection(name: string): Promise<CollectionInfo> {
    const current = await this.#current(name);
    const { placed, home } = current;
    const infos = await Promise.all(
      placed.shards.map((_, shard) =>
        this.#readFrom(current, shard, (service) => service.getCollection(shardName(placed.uid, shard))),
      ),
    );
    const sum = (field: 'records' | 'blocks' | 'bytes') => infos.reduce((total, info) => total + info[field], 0);
    const { id, descriptor } = infos[HOME];
    return {
      name,
      id,
      descriptor,
      version: home.version,
      records: sum('records'),
      blocks: sum('blocks'),
      bytes: sum('bytes'),
    };
  }

  async deleteCollection(name: string): Promise<void> {
    this.#checkOpen();
    await this.#node.readDirectory();
    let placed: PlacedCollection | undefined;
    await this.#node.changeDirectory((directory) => {
      const { [name]: gone, ...collections } = directory.collections;
      if (!Object.hasOwn(directory.collections, name)) throw noSuchCollection(name);
      placed = gone;
      return { ...directory, collections };
    });
    // So that no node answers for it from what it remembers.
    const { uid, shards } = placed!;
    await quorum(shards[HOME], majorityOf(shards[HOME].length), (node) =>
      this.#node
        .peer(node)
        .deleteCollection(shardName(uid, HOME))
        .catch((error) => {
          if (!isCode(error, 'NOT_FOUND')) throw error;
        }),
    );
    await this.#removeShards(placed!);
  }

  // — changes —

  async getManifest(
    name: string,
    options?: CallOptions,
  ): Promise<{ readonly version: number; readonly manifest: Uint8Array }> {
    const { home } = await this.#current(name, options?.signal);
    const { version, manifest } = home;
    return { version, manifest: options?.partitions ? sectionsOf(manifest, options.partitions) : manifest };
  }

  /** Stages something on a majority of the replicas of a shard. */
  async #stage(
    { uid, shards }: PlacedCollection,
    shard: number,
    call: (service: ShardService, name: string) => Promise<StageId>,
  ): Promise<ShardStage> {
    const name = shardName(uid, shard);
    const stage = await this.#write(shards[shard], (service, node) =>
      this.#node.inOrder(node, name, false, () => call(service, name)),
    );
    return { shard, stage };
  }

  async stageRecords(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId> {
    const placed = await this.#find(name);
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    const parts: ShardStage[] = [];
    let gathered = new Map<number, SealedRecord[]>();
    let bytes = 0;
    const flush = async () => {
      const all = [...gathered];
      const held = bytes;
      gathered = new Map();
      bytes = 0;
      try {
        parts.push(
          ...(await Promise.all(
            all.map(([shard, some]) =>
              this.#stage(placed, shard, (service, shardName) => service.stageRecords(shardName, some, { signal })),
            ),
          )),
        );
      } finally {
        options?.hold?.(-held);
      }
      signal.throwIfAborted();
    };
    try {
      for await (const { handle, sealed } of records) {
        signal.throwIfAborted();
        checkBytes(handle, 'a handle', 16);
        checkBytes(sealed, 'a sealed record');
        if (options?.partitions && !isOf(options.partitions, sealed)) throw notHeld('a record of another partition');
        const shard = shardOf(handle, placed.shards.length);
        const some = gathered.get(shard) ?? [];
        gathered.set(shard, some);
        // What comes may be a view of a buffer that is used again.
        some.push({ handle: handle.slice(), sealed: sealed.slice() });
        options?.hold?.(handle.length + sealed.length);
        bytes += handle.length + sealed.length;
        if (bytes >= GATHERED_BYTES) await flush();
      }
      signal.throwIfAborted();
      await flush();
      // Nothing was staged, and the collection may not even be there.
      if (parts.length === 0) await this.#current(name, signal);
      return this.#named(placed, 'records', parts, options);
    } finally {
      if (bytes > 0) options?.hold?.(-bytes);
      done();
    }
  }

  #named({ uid }: PlacedCollection, kind: StageKind, parts: readonly ShardStage[], options?: CallOptions): StageId {
    return nameStage(this.#secret, uid, kind, parts, options?.partitions);
  }

  async stageList(name: string, sealed: Uint8Array, options?: CallOptions): Promise<StageId> {
    if (isEvaluation(isShared(sealed) ? sealed.subarray(PARTITION_BYTES) : sealed)) throw notYet();
    const placed = await this.#find(name);
    checkBytes(sealed, 'a sealed list');
    if (options?.partitions && !isOf(options.partitions, sealed)) throw notHeld('a list of another partition');
    const id = sha256(sealed);
    const part = await this.#stage(placed, shardOf(id, placed.shards.length), (service, shard) =>
      service.stageList(shard, sealed),
    );
    return this.#named(placed, 'list', [part], options);
  }

  async stageBlock(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId> {
    const placed = await this.#find(name);
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    try {
      signal.throwIfAborted();
      const parts: Uint8Array[] = [];
      for await (const piece of pieces) {
        signal.throwIfAborted();
        checkBytes(piece, 'a piece of a block');
        parts.push(piece);
      }
      const encoded = new Uint8Array(Buffer.concat(parts));
      options?.hold?.(encoded.length);
      try {
        const { blockId, parameters } = decodeBlock(encoded);
        if (parameters.evaluation) throw notYet();
        if (options?.partitions && !isOf(options.partitions, blockId)) throw notHeld('a block of another partition');
        const part = await this.#stage(placed, shardOf(blockId, placed.shards.length), (service, shard) =>
          service.stageBlock(shard, [encoded], { signal }),
        );
        signal.throwIfAborted();
        return this.#named(placed, 'block', [part], options);
      } finally {
        options?.hold?.(-encoded.length);
      }
    } finally {
      done();
    }
  }

  async commit(name: string, change: Change, options?: CallOptions): Promise<number> {
    this.#checkOpen();
    refuseUnknown(change, FIELDS, 'a change', 'field');
    if (!Number.isSafeInteger(change.expected))
      throw new HersError('INVALID_ARGUMENT', 'a change needs the version it is based on');
    checkBytes(change.manifest, 'a manifest');
    const until = performance.now() + LAG_MS;
    for (let left = PLACEMENT_TRIES; ; ) {
      const known = await this.#find(name);
      try {
        return await this.#commit(name, change, options);
      } catch (error) {
        if (left === 0 || !isCode(error, 'STALE', 'UNAVAILABLE', 'NOT_FOUND')) throw error;
        const { collections } = await this.#node.readDirectory().catch(() => this.#node.directory);
        const now = Object.hasOwn(collections, name) ? collections[name] : undefined;
        // If its shards are elsewhere now, it was not the change that failed.
        const hasMoved = now !== undefined && now.uid === known.uid && now.placement !== known.placement;
        if (hasMoved) left--;
        else if (!isCode(error, 'STALE')) throw error;
        else if ((await this.#current(name)).home.version !== change.expected) throw error;
        // Nobody has changed it: too many replicas lag, which they make up for.
        else if (performance.now() > until)
          throw new HersError('UNAVAILABLE', `too many replicas of ${name} lag; try again`);
        else await pause(LAG_PAUSE_MS);
      }
    }
  }

  async #commit(name: string, change: Change, options: CallOptions | undefined): Promise<number> {
    const current = await this.#current(name);
    const { placed, home, states } = current;
    const partitions = options?.partitions;
    if (!partitions) checkWhole(change.manifest);
    const manifest = partitions ? withOtherSections(home.manifest, change.manifest, partitions) : change.manifest;
    // The acknowledgement of this same change was lost.
    if (manifest && Buffer.compare(home.manifest, manifest) === 0) {
      await this.#confirm(current);
      return home.version;
    }
    if (change.expected !== home.version)
      throw new HersError(
        'STALE',
        `${name} has version ${home.version}, and this change is based on ${change.expected}; read it again`,
      );
    if (!manifest) throw notHeld('a manifest with other sections of other partitions');
    if (partitions && (change.sums ?? []).length > 0) throw notHeld('a sum');
    const { parts, moved } = await this.#split(placed, home, change, partitions);
    const version = home.version + 1;
    const made = version + placed.base;
    const mark = randomBytes(8).toString('hex');
    const stateAfter = (shard: number) => (shard === HOME ? homeState(made) : shardState(made, mark));
    const shards = home.shards.map((before, shard) => (parts.has(shard) ? stateAfter(shard) : before));
    const homeManifest = encodeHome({ version, manifest, shards, moved });
    const prepared = await Promise.all(
      [...parts].map(async ([shard, part]) => {
        const shardChange = {
          ...part,
          expected: states[shard].version,
          basis: states[shard].state,
          version: made,
          manifest: shard === HOME ? homeManifest : shardManifest(made, mark),
        };
        const id = await this.#write(placed.shards[shard], (service, node) =>
          this.#node.inOrder(node, shardName(placed.uid, shard), true, () =>
            service.prepare(addressOf(placed, shard), shardChange, { partitions }),
          ),
        );
        return { shard, version: made, state: stateOf(shardChange.manifest), change: id };
      }),
    );
    this.#checkOpen();
    try {
      const entry = await this.#node.append(placed, home.version, { version, shards: prepared });
      await this.#node.settle(placed, entry);
      return version;
    } catch (error) {
      if (!isCode(error, 'STALE')) throw error;
      // What came first may be this same change, whose acknowledgement was lost.
      const now = await this.#current(name);
      if (Buffer.compare(now.home.manifest, manifest) !== 0) throw error;
      await this.#confirm(now);
      return now.home.version;
    }
  }

  /** Every shard is on a majority of its replicas as the home says. */
  async #confirm({ placed, states }: Current): Promise<void> {
    await Promise.all(
      placed.shards.map((replicas, shard) =>
        quorum(replicas, majorityOf(replicas.length), async (node) => {
          for (let left = 100; ; left--) {
            const here = await this.#node.peer(node).getState(addressOf(placed, shard));
            if (isCurrent(here, states, shard)) return;
            if (left === 0) throw new HersError('UNAVAILABLE', `node ${node} lags; try again`);
            await pause(50);
          }
        }),
      ),
    );
  }

  async #split(
    placed: PlacedCollection,
    home: Home,
    change: Change,
    partitions: Partitions | undefined,
  ): Promise<{ parts: Map<number, ShardPart>; moved: Map<string, number> }> {
    const count = placed.shards.length;
    const parts = new Map<number, ShardPart>();
    const partOf = (shard: number): ShardPart => {
      let part = parts.get(shard);
      if (!part) {
        part = { records: [], removed: [], blocks: [], sums: [], dropped: [], lists: [], droppedLists: [] };
        parts.set(shard, part);
      }
      return part;
    };
    partOf(HOME);
    const moved = new Map(home.moved);
    const shardOfBlock = (id: Uint8Array) => home.moved.get(hex(id)) ?? shardOf(id, count);
    const names = [...(change.records ?? []), ...(change.blocks ?? []), ...(change.lists ?? [])];
    names.push(...(change.sums ?? []).map(({ part }) => part));
    if (new Set(names).size !== names.length)
      throw new HersError('INVALID_ARGUMENT', 'a change names the same staged thing twice');
    const read = (kind: StageKind, stage: StageId) => {
      const found = readStage(this.#secret, placed.uid, kind, stage, partitions);
      for (const { shard } of found) if (shard >= count) throw new HersError('NOT_FOUND', 'this was never staged here');
      return found;
    };
    for (const name of change.records ?? [])
      for (const { shard, stage } of read('records', name)) partOf(shard).records.push(stage);
    for (const name of change.lists ?? [])
      for (const { shard, stage } of read('list', name)) partOf(shard).lists.push(stage);
    for (const handle of change.removed ?? []) {
      checkBytes(handle, 'a handle', 16);
      partOf(shardOf(handle, count)).removed.push(handle);
    }
    for (const id of change.droppedLists ?? []) {
      checkBytes(id, 'a list id', 32);
      partOf(shardOf(id, count)).droppedLists.push(id);
    }
    for (const id of change.dropped ?? []) {
      checkBytes(id, 'a block id', 16);
      partOf(shardOfBlock(id)).dropped.push(id);
      moved.delete(hex(id));
    }
    for (const { base, part, result, maxAdditions } of change.sums ?? []) {
      checkBytes(base, 'a block id', 16);
      checkBytes(result, 'a block id', 16);
      const shard = shardOfBlock(base);
      const [staged] = read('block', part);
      const stage = staged.shard === shard ? staged.stage : await this.#copyStaged(placed, staged, shard);
      partOf(shard).sums.push({ base, part: stage, result, maxAdditions });
      moved.delete(hex(base));
      if (moved.has(hex(result))) throw new HersError('ALREADY_EXISTS', `there is a block ${hex(result)} already`);
      if (shardOf(result, count) !== shard) moved.set(hex(result), shard);
    }
    for (const name of change.blocks ?? [])
      for (const { shard, stage } of read('block', name)) partOf(shard).blocks.push(stage);
    return { parts, moved };
  }

  /** A part of a sum was staged in the shard of its own id, and is needed in that of the base. */
  async #copyStaged(placed: PlacedCollection, { shard, stage }: ShardStage, to: number): Promise<StageId> {
    const from = shardName(placed.uid, shard);
    const encoded = await firstOf(this.#node.nearest(placed.shards[shard]), async (node) =>
      Buffer.concat(await Array.fromAsync(this.#node.peer(node).getStaged(from, stage))),
    );
    return (await this.#stage(placed, to, (service, name) => service.stageBlock(name, [encoded]))).stage;
  }

  // — reading —

  /** Reads from a replica that has all that the home knows of. */
  #readFrom<T>(
    { placed: { uid, shards }, states }: Current,
    shard: number,
    read: (service: Service) => Promise<T>,
  ): Promise<T> {
    const name = shardName(uid, shard);
    return firstOf(this.#node.nearest(shards[shard]), async (node) => {
      const service = this.#node.peer(node);
      for (let left = 20; ; left--) {
        if (isCurrent(await service.getState(name), states, shard)) return read(service);
        // A change that was acknowledged is on its way to the others.
        if (left === 0) throw new HersError('UNAVAILABLE', `node ${node} lags; try again`);
        await pause(10);
      }
    });
  }

  async *getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<SealedRecord> {
    checkIds(handles, 'record', 16);
    const read = (some: readonly Uint8Array[], signal: AbortSignal) =>
      this.#readMany(name, some, signal, (service, shard, ids) => service.getRecords(shard, ids, { signal }));
    const isHeld = ({ sealed }: SealedRecord, partitions: Partitions) => isOf(partitions, sealed);
    yield* this.#readChecked(name, handles, READ_RECORDS, 'record', read, isHeld, options);
  }

  async *getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<Uint8Array> {
    checkIds(ids, 'list', 32);
    const read = (some: readonly Uint8Array[], signal: AbortSignal) =>
      this.#readMany(name, some, signal, (service, shard, wanted) => service.getLists(shard, wanted, { signal }));
    const isHeld = (list: Uint8Array, partitions: Partitions) => isOf(partitions, list) || isShared(list);
    yield* this.#readChecked(name, ids, READ_LISTS, 'list', read, isHeld, options);
  }

  /**
   * Whoever is held to partitions gets nothing, and is not told which, unless all are there and of
   * them.
   */
  async *#readChecked<T>(
    name: string,
    ids: readonly Uint8Array[],
    together: number,
    what: string,
    read: (some: readonly Uint8Array[], signal: AbortSignal) => Promise<T[]>,
    isHeld: (found: T, partitions: Partitions) => boolean,
    options: CallOptions | undefined,
  ): AsyncGenerator<T> {
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    const partitions = options?.partitions;
    const groups: (readonly Uint8Array[])[] = [];
    for (let at = 0; at < ids.length; at += together) groups.push(ids.slice(at, at + together));
    const missing = () => new HersError('NOT_FOUND', `a ${what} that was asked for is not in this collection`);
    const isHeldTo = (found: T) => !partitions || isHeld(found, partitions);
    try {
      signal.throwIfAborted();
      if (ids.length === 0) await this.#current(name, signal);
      if (partitions)
        for (const group of groups) {
          const found = await read(group, signal).catch((error) => {
            throw isCode(error, 'NOT_FOUND') ? missing() : error;
          });
          if (!found.every(isHeldTo)) throw missing();
        }
      for (const group of groups)
        for (const found of await read(group, signal)) {
          if (!isHeldTo(found)) throw missing();
          yield found;
          signal.throwIfAborted();
        }
    } finally {
      done();
    }
  }

  /** In the order of the ids. */
  async #readMany<T>(
    name: string,
    ids: readonly Uint8Array[],
    signal: AbortSignal,
    read: (service: Service, shard: string, ids: readonly Uint8Array[]) => AsyncIterable<T>,
  ): Promise<T[]> {
    const current = await this.#current(name, signal);
    const { placed } = current;
    const byShard = new Map<number, { readonly id: Uint8Array; readonly at: number }[]>();
    for (const [at, id] of ids.entries()) {
      const shard = shardOf(id, placed.shards.length);
      const wanted = byShard.get(shard) ?? [];
      byShard.set(shard, wanted);
      wanted.push({ id, at });
    }
    const found = new Array<T>(ids.length);
    await Promise.all(
      [...byShard].map(async ([shard, wanted]) => {
        const some = wanted.map(({ id }) => id);
        const shardId = shardName(placed.uid, shard);
        const items = await this.#readFrom(current, shard, (service) => Array.fromAsync(read(service, shardId, some)));
        for (const [i, { at }] of wanted.entries()) found[at] = items[i];
      }),
    );
    signal.throwIfAborted();
    return found;
  }

  async *getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncGenerator<Uint8Array> {
    checkBytes(blockId, 'a block id');
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    try {
      const current = await this.#current(name, signal);
      const { placed, home } = current;
      if (options?.partitions && !isOf(options.partitions, blockId)) throw noBlock(blockId);
      const shard = home.moved.get(hex(blockId)) ?? shardOf(blockId, placed.shards.length);
      const pieces = await this.#readFrom(current, shard, (service) =>
        Array.fromAsync(service.getBlock(shardName(placed.uid, shard), blockId, { signal })),
      ).catch((error) => {
        throw isCode(error, 'NOT_FOUND') ? noBlock(blockId) : error;
      });
      for (const piece of pieces) {
        signal.throwIfAborted();
        yield piece;
      }
    } finally {
      done();
    }
  }

  async *search(name: string, request: SearchRequest, options?: SearchCallOptions): AsyncGenerator<Uint8Array> {
    checkBlocks(options?.partitions, request.blocks);
    if (request.inbox?.length) throw this.#noInbox();
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    try {
      const current = await this.#current(name, signal);
      const { version } = current.home;
      if (request.version > version)
        throw new HersError('STALE', `${name} has version ${version}, not ${request.version}; read it again`);
      yield* searchShards(this.#searched(current, request), request.queries, (node) => this.#node.peer(node), {
        signal,
        views: Boolean(options?.views),
        onSuspect: (node) => this.#node.suspect(node),
        partial: request.partial,
        onCoverage: options?.onCoverage,
      });
    } finally {
      done();
    }
  }

  // — inboxes, which a cluster does not have —

  #noInbox(): HersError {
    this.#checkOpen();
    return new HersError('INVALID_ARGUMENT', 'a cluster has no inboxes; devices need a server by itself');
  }

  async post(): Promise<number> {
    throw this.#noInbox();
  }

  // biome-ignore lint/correctness/useYield: there is nothing to give.
  async *takeInbox(): AsyncGenerator<InboxItem> {
    throw this.#noInbox();
  }

  async dropInbox(): Promise<void> {
    throw this.#noInbox();
  }

  async refuseDevices(): Promise<void> {
    throw this.#noInbox();
  }

  /** What a shard was at the version of a search. */
  #stateAt({ placed, states }: Current, version: number, shard: number): Pick<SearchedShard, 'version' | 'state'> {
    const then = version + placed.base;
    // Of a shard that was not touched since, that of its last change.
    if (states[shard].version <= then) return states[shard];
    return this.#node.earlier(placed.uid, version)?.[shard] ?? { version: then };
  }

  #searched(current: Current, request: SearchRequest): SearchedShard[] {
    const { placed, home } = current;
    const { uid, shards } = placed;
    const blocks = new Map<number, Uint8Array[]>();
    for (const id of request.blocks ?? []) {
      checkBytes(id, 'a block id');
      const shard = home.moved.get(hex(id)) ?? shardOf(id, shards.length);
      blocks.set(shard, [...(blocks.get(shard) ?? []), id]);
    }
    const wanted = request.blocks ? [...blocks.keys()] : [...shards.keys()];
    // Even if no block is wanted, a query that cannot be read is refused.
    if (wanted.length === 0) wanted.push(HOME);
    // Every node scans its share.
    const share = new Map<string, number>();
    return wanted.map((shard) => {
      const replicas = this.#node
        .nearest(shards[shard])
        .map((node, order) => ({ node, load: share.get(node) ?? 0, late: this.#node.isSuspect(node), order }))
        .sort((a, b) => Number(a.late) - Number(b.late) || a.load - b.load || a.order - b.order)
        .map(({ node }) => node);
      share.set(replicas[0], (share.get(replicas[0]) ?? 0) + 1);
      return {
        name: shardName(uid, shard),
        ...this.#stateAt(current, request.version, shard),
        ...(request.blocks ? { blocks: blocks.get(shard) ?? [] } : {}),
        replicas,
      };
    });
  }

  // — upkeep —

  async purge(name: string, options?: CallOptions): Promise<void> {
    if (options?.partitions) throw notHeld('a purge');
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    try {
      signal.throwIfAborted();
      const { placed } = await this.#current(name, signal);
      const { uid, shards } = placed;
      const purged = await Promise.allSettled(
        shards.flatMap((replicas, shard) =>
          replicas.map((node) => this.#node.peer(node).purge(shardName(uid, shard), { signal })),
        ),
      );
      signal.throwIfAborted();
      for (const result of purged) if (result.status === 'rejected') throw result.reason;
    } finally {
      done();
    }
  }

  async *snapshot(name: string, options?: CallOptions): AsyncGenerator<Uint8Array> {
    if (options?.partitions) throw notHeld('a snapshot');
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    let begun: ShardSnapshot[] = [];
    try {
      for (let left = SNAPSHOT_TRIES; ; left--) {
        signal.throwIfAborted();
        const current = await this.#current(name, signal);
        const { placed, home, states } = current;
        const { uid } = placed;
        const opened = await Promise.allSettled(
          placed.shards.map((_, shard) =>
            this.#readFrom(current, shard, (service) =>
              ShardSnapshot.begin(service.snapshot(shardName(uid, shard), { signal })),
            ),
          ),
        );
        begun = opened.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
        for (const result of opened) if (result.status === 'rejected') throw result.reason;
        if (begun.every(({ header }, shard) => stateOf(header.manifest) === states[shard].state)) {
          for await (const piece of joinSnapshots({ version: home.version, manifest: home.manifest }, begun)) {
            yield piece;
            signal.throwIfAborted();
          }
          return;
        }
        // The collection was changed while the shards began: all of them must be of one version.
        await Promise.all(begun.map((each) => each.end()));
        begun = [];
        if (left === 0)
          throw new HersError('STALE', 'the collection changes too fast for a snapshot of one version; take it again');
      }
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      await Promise.all(begun.map((each) => each.end()));
      done();
    }
  }

  async restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void> {
    if (options?.partitions) throw notHeld('a restore');
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    let filling: Filling | undefined;
    try {
      signal.throwIfAborted();
      checkCollectionName(name);
      if (Object.hasOwn((await this.#node.readDirectory()).collections, name)) throw alreadyExists(name);
      for await (const part of readSnapshot(pieces)) {
        signal.throwIfAborted();
        if (part.kind === 'header') {
          const made = { ...part.header, manifest: shardManifest(FIRST_VERSION, MADE) };
          filling = new Filling(this.#node, part.header, () => this.#makeShards(made), signal);
        } else await filling!.take(part);
      }
      const placed = await filling!.finish();
      // From here on it may have a name.
      filling = undefined;
      await this.#register(name, placed);
    } catch (error) {
      if (filling?.placed) await this.#removeShards(filling.placed);
      throw signal.aborted ? signal.reason : error;
    } finally {
      done();
    }
  }

  /** Ends what is under way. The node is closed as well. */
  async close(): Promise<void> {
    this.#closing.abort(new HersError('CLOSED', 'this node is closed; start it again'));
    await this.#node.close();
  }
}

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());

function checkBytes(value: unknown, what: string, length?: number): asserts value is Uint8Array {
  if (!(value instanceof Uint8Array) || (length !== undefined && value.length !== length))
    throw new HersError('INVALID_ARGUMENT', `${what} is ${length === undefined ? '' : `${length} `}bytes`);
}

/** A caller that asks for the same many times would receive many times what is stored. */
function checkIds(ids: readonly Uint8Array[], what: string, length: number): void {
  for (const id of ids) checkBytes(id, `the id of a ${what}`, length);
  if (new Set(ids.map(hex)).size < ids.length)
    throw new HersError('INVALID_ARGUMENT', `a ${what} is asked for twice; ask for it once`);
}

const noSuchCollection = (name: string) => new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
const alreadyExists = (name: string) =>
  new HersError('ALREADY_EXISTS', `there is a collection ${name} already; use it, or choose another name`);
const noBlock = (id: Uint8Array) => new HersError('NOT_FOUND', `there is no block ${hex(id)} in this collection`);

/** The error for the collections that a cluster does not keep. */
function notYet(): HersError {
  return new HersError(
    'UNSUPPORTED_PLAN',
    'a cluster does not expand queries: keep collections of the profile open in a folder or on a single server',
  );
}
