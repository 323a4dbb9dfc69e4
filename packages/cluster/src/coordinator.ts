// A Service on many nodes. Every node has one: it splits what is staged, commits through the
// ledger, and merges what the shards answer.

import {
  type CallOptions,
  type Change,
  type CollectionInfo,
  checkBlocks,
  checkCollectionName,
  eitherSignal,
  Grouped,
  HersError,
  type InboxItem,
  type InboxRange,
  LIST_ID_BYTES,
  type Many,
  notHeld,
  type PostOptions,
  refuseUnknown,
  type SealedRecord,
  type SearchCallOptions,
  type SearchRequest,
  type Service,
  type StageId,
  sectionsOf,
} from '@hers/service';
import type { InboxLimits } from '@hers/store/inbox';
import { readSnapshot } from '@hers/store/snapshot';
import { stateOf } from '@hers/store/stages';
import { checkBytes, checkIds, isCode } from './arguments.ts';
import { Collections, type Current } from './collections.ts';
import { Committing } from './committing.ts';
import { Inboxes } from './inboxes.ts';
import type { ClusterNode } from './node.ts';
import { Reading } from './reading.ts';
import { type PlacedShard, searchShards } from './search.ts';
import { FIRST_VERSION, HOME, MADE, MAX_SHARDS, shardManifest, shardName, shardOf } from './shard.ts';
import { Filling, joinSnapshots, ShardSnapshot } from './snapshot.ts';
import { Staging } from './staging.ts';

export interface CoordinatorOptions {
  /** Known to all nodes and to nobody else. */
  readonly secret: string;
  /** Shards of a new collection; 16 by default. */
  readonly shards?: number | undefined;
  /** Nodes that keep each shard; 3 by default. With two, changes stop when one of them is gone. */
  readonly replicas?: number | undefined;
  readonly inbox?: InboxLimits | undefined;
}

const DEFAULT_SHARDS = 16;
const DEFAULT_REPLICAS = 3;
/** How often a snapshot is begun again because the collection changed in between. */
const SNAPSHOT_TRIES = 20;

export class Coordinator implements Service {
  readonly #node: ClusterNode;
  readonly #collections: Collections;
  readonly #staging: Staging;
  readonly #committing: Committing;
  readonly #reading: Reading;
  readonly #inboxes: Inboxes;
  readonly #closing = new AbortController();

  constructor(node: ClusterNode, options: CoordinatorOptions) {
    refuseUnknown(options, { secret: true, shards: true, replicas: true, inbox: true }, 'a coordinator');
    const { secret, shards = DEFAULT_SHARDS, replicas = DEFAULT_REPLICAS } = options;
    if (!(Number.isInteger(shards) && shards >= 1 && shards <= MAX_SHARDS))
      throw new HersError('INVALID_ARGUMENT', `a collection has 1 to ${MAX_SHARDS} shards`);
    if (!(Number.isInteger(replicas) && replicas >= 1))
      throw new HersError('INVALID_ARGUMENT', 'a shard has one replica at least');
    this.#node = node;
    this.#collections = new Collections(node, shards, replicas, this.#closing.signal);
    this.#staging = new Staging(node, this.#collections, secret);
    this.#committing = new Committing(node, this.#collections, this.#staging);
    this.#reading = new Reading(node, this.#collections);
    this.#inboxes = new Inboxes(node, this.#collections, secret, options.inbox);
  }

  // — collections —

  createCollection(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
  ): Promise<void> {
    return this.#collections.create(name, created);
  }

  deleteCollection(name: string): Promise<void> {
    return this.#collections.delete(name);
  }

  async listCollections(): Promise<CollectionInfo[]> {
    const names = await this.#collections.names();
    const infos = await Promise.all(
      names.map((name) =>
        this.getCollection(name).catch((error) => {
          if (isCode(error, 'NOT_FOUND')) return undefined; // it was deleted meanwhile
          throw error;
        }),
      ),
    );
    return infos.filter((info) => info !== undefined);
  }

  async getCollection(name: string): Promise<CollectionInfo> {
    const current = await this.#collections.current(name);
    const { placed, home } = current;
    const infos = await Promise.all(
      placed.shards.map((_, shard) =>
        this.#reading.from(current, shard, (service) => service.getCollection(shardName(placed.uid, shard))),
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

  // — changes —

  async getManifest(
    name: string,
    options?: CallOptions,
  ): Promise<{ readonly version: number; readonly manifest: Uint8Array }> {
    const { home } = await this.#collections.current(name, options?.signal);
    const { version, manifest } = home;
    return { version, manifest: options?.partitions ? sectionsOf(manifest, options.partitions) : manifest };
  }

  stageRecords(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId> {
    return this.#staging.records(name, records, options);
  }

  stageList(name: string, sealed: Uint8Array, options?: CallOptions): Promise<StageId> {
    return this.#staging.list(name, sealed, options);
  }

  stageBlock(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId> {
    return this.#staging.block(name, pieces, options);
  }

  commit(name: string, change: Change, options?: CallOptions): Promise<number> {
    return this.#committing.commit(name, change, options);
  }

  // — reading —

  getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<SealedRecord> {
    return this.#reading.records(name, handles, options);
  }

  getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<Uint8Array> {
    return this.#reading.lists(name, ids, options);
  }

  getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncGenerator<Uint8Array> {
    return this.#reading.block(name, blockId, options);
  }

  search(name: string, request: SearchRequest, options?: SearchCallOptions): AsyncIterable<Uint8Array> {
    const check = () => {
      this.#closing.signal.throwIfAborted();
      options?.signal?.throwIfAborted();
    };
    return new Grouped(() => this.#search(name, request, options), check);
  }

  async *#search(
    name: string,
    request: SearchRequest,
    options: SearchCallOptions | undefined,
  ): AsyncGenerator<readonly Uint8Array[]> {
    if (options?.partitions) checkBlocks(options.partitions, request.blocks);
    using either = eitherSignal(this.#collections.closing, options?.signal);
    const { signal } = either;
    try {
      const current = await this.#collections.current(name, signal);
      const { version } = current.home;
      if (request.version > version)
        throw new HersError('STALE', `${name} has version ${version}, not ${request.version}; read it again`);
      const asked = request.open ? await this.#inboxes.questions(name, request.open.inbox, signal) : [];
      yield* searchShards(
        this.#placed(current, request),
        [...request.queries, ...asked],
        (node) => this.#node.peers.of(node),
        {
          signal,
          views: Boolean(options?.views),
          onSuspect: (node) => this.#node.peers.suspect(node),
          partial: request.partial,
          onCoverage: options?.onCoverage,
        },
      );
    } catch (error) {
      throw signal.aborted || !isCode(error, 'STALE')
        ? error
        : await this.#collections.whyStale(name, request.version, error);
    }
  }

  /** What a shard was at the version of a search. */
  #stateAt({ placed, states }: Current, version: number, shard: number): Pick<PlacedShard, 'version' | 'state'> {
    const then = version + placed.base;
    // Of a shard that was not touched since, that of its last change.
    if (states[shard].version <= then) return states[shard];
    return this.#node.changes.earlier(placed.uid, version)?.[shard] ?? { version: then };
  }

  #placed(current: Current, { queries: _, blocks: some, open, partial: _p, ...rest }: SearchRequest): PlacedShard[] {
    const { uid, shards } = current.placed;
    const blocks = new Map<number, Uint8Array[]>();
    for (const id of some ?? []) {
      checkBytes(id, 'a block id');
      const shard = shardOf(id, shards.length);
      const ids = blocks.get(shard) ?? [];
      blocks.set(shard, ids);
      ids.push(id);
    }
    // The shards of evaluation keys are asked too, even for no block, whether they still have them.
    const keys = open ? [...open.evaluation, ...open.devices] : [];
    checkIds(keys, 'list', LIST_ID_BYTES);
    const lists = Map.groupBy(keys, (id) => shardOf(id, shards.length));
    const wanted = some ? [...new Set([...blocks.keys(), ...lists.keys()])] : [...shards.keys()];
    // Even if no block is wanted, a query that cannot be read is refused.
    if (wanted.length === 0) wanted.push(HOME);
    // Every node scans its share.
    const share = new Map<string, number>();
    return wanted.map((shard) => {
      const replicas = this.#node.peers
        .nearest(shards[shard])
        .map((node, order) => ({ node, load: share.get(node) ?? 0, late: this.#node.peers.isSuspect(node), order }))
        .sort((a, b) => Number(a.late) - Number(b.late) || a.load - b.load || a.order - b.order)
        .map(({ node }) => node);
      share.set(replicas[0], (share.get(replicas[0]) ?? 0) + 1);
      return {
        ...rest,
        name: shardName(uid, shard),
        ...this.#stateAt(current, rest.version, shard),
        ...(some ? { blocks: blocks.get(shard) ?? [] } : {}),
        ...(open ? { open: { ...open, inbox: [] } } : {}),
        ...(lists.has(shard) ? { lists: lists.get(shard)! } : {}),
        replicas,
      };
    });
  }

  // — inboxes —

  post(name: string, envelope: Uint8Array, options?: PostOptions): Promise<number> {
    return this.#inboxes.post(name, envelope, options);
  }

  takeInbox(name: string, range?: InboxRange, options?: CallOptions): AsyncGenerator<InboxItem> {
    return this.#inboxes.take(name, range, options);
  }

  dropInbox(name: string, numbers: readonly number[], options?: CallOptions): Promise<void> {
    return this.#inboxes.drop(name, numbers, options);
  }

  refuseDevices(name: string, devices: readonly number[], options?: CallOptions): Promise<void> {
    return this.#inboxes.refuse(name, devices, options);
  }

  // — upkeep —

  async purge(name: string, options?: CallOptions): Promise<void> {
    if (options?.partitions) throw notHeld('a purge');
    using either = eitherSignal(this.#collections.closing, options?.signal);
    const { signal } = either;
    signal.throwIfAborted();
    const { placed } = await this.#collections.current(name, signal);
    const { uid, shards } = placed;
    const purged = await Promise.allSettled(
      shards.flatMap((replicas, shard) =>
        replicas.map((node) => this.#node.peers.of(node).purge(shardName(uid, shard), { signal })),
      ),
    );
    signal.throwIfAborted();
    for (const result of purged) if (result.status === 'rejected') throw result.reason;
    await this.#inboxes.purge(placed, signal);
  }

  async *snapshot(name: string, options?: CallOptions): AsyncGenerator<Uint8Array> {
    if (options?.partitions) throw notHeld('a snapshot');
    using either = eitherSignal(this.#collections.closing, options?.signal);
    const { signal } = either;
    let begun: ShardSnapshot[] = [];
    try {
      for (let left = SNAPSHOT_TRIES; ; left--) {
        signal.throwIfAborted();
        const current = await this.#collections.current(name, signal);
        const { placed, home, states } = current;
        const { uid } = placed;
        const opened = await Promise.allSettled(
          placed.shards.map((_, shard) =>
            this.#reading.from(current, shard, (service) =>
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
    }
  }

  async restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void> {
    if (options?.partitions) throw notHeld('a restore');
    using either = eitherSignal(this.#collections.closing, options?.signal);
    const { signal } = either;
    let filling: Filling | undefined;
    try {
      signal.throwIfAborted();
      checkCollectionName(name);
      await this.#collections.checkNew(name);
      for await (const part of readSnapshot(pieces)) {
        signal.throwIfAborted();
        if (part.kind === 'header') {
          const made = { ...part.header, manifest: shardManifest(FIRST_VERSION, MADE) };
          filling = new Filling(this.#node, part.header, () => this.#collections.makeShards(made), signal);
        } else await filling!.take(part);
      }
      const placed = await filling!.finish();
      // From here on it may have a name.
      filling = undefined;
      await this.#collections.register(name, placed);
    } catch (error) {
      if (filling?.placed) await this.#collections.removeShards(filling.placed);
      throw signal.aborted ? signal.reason : error;
    }
  }

  /** Calls back when this node has evaluation keys in memory, or, negative, no longer. */
  onEvaluationKeys(onLoaded: (bytes: number) => void): void {
    this.#node.store.onEvaluationKeys(onLoaded);
  }

  async close(): Promise<void> {
    this.#closing.abort(new HersError('CLOSED', 'this node is closed; start it again'));
    await this.#node.close();
  }
}
