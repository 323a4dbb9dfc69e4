// The collections of a cluster by their names: what is current of them, how they are made, and how
// they go.

import { randomBytes } from 'node:crypto';
import { checkCollectionName, checkWhole, HersError } from '@hers/service';
import type { ShardState } from '@hers/store/stages';
import { checkBytes, isCode } from './arguments.ts';
import { statesOf } from './changes.ts';
import {
  checkRoom,
  type Directory,
  INBOXES,
  isSeen,
  majorityOf,
  type PlacedCollection,
  placeShards,
} from './directory.ts';
import { type ClusterNode, writeTo } from './node.ts';
import { quorum } from './quorum.ts';
import {
  encodeHome,
  FIRST_VERSION,
  HOME,
  type Home,
  homeState,
  MADE,
  shardManifest,
  shardName,
  shardState,
} from './shard.ts';

export interface Current {
  readonly placed: PlacedCollection;
  readonly home: Home;
  readonly states: readonly ShardState[];
}

/** How often a call is begun again because shards have moved. */
export const PLACEMENT_TRIES = 10;

export class Collections {
  readonly #node: ClusterNode;
  readonly #shards: number;
  readonly #replicas: number;
  /** What their names begin with in the directory. */
  readonly #prefix: string;
  /** Ends what is under way. */
  readonly closing: AbortSignal;

  /** New ones have so many shards, and each so many replicas. */
  constructor(node: ClusterNode, shards: number, replicas: number, closing: AbortSignal, prefix = '') {
    this.#node = node;
    this.#shards = shards;
    this.#replicas = replicas;
    this.#prefix = prefix;
    this.closing = closing;
  }

  /** The inboxes of these collections, as collections of their own. Their names are uids. */
  inboxes(): Collections {
    return new Collections(this.#node, 1, this.#replicas, this.closing, INBOXES);
  }

  among({ collections }: Directory, name: string): PlacedCollection | undefined {
    const key = this.#prefix + name;
    return isSeen(key) === (this.#prefix === '') && Object.hasOwn(collections, key) ? collections[key] : undefined;
  }

  checkOpen(): void {
    this.closing.throwIfAborted();
  }

  async find(name: string): Promise<PlacedCollection> {
    this.checkOpen();
    const known = this.among(this.#node.members.directory, name);
    if (known) return known;
    const found = this.among(await this.#node.members.read(), name);
    this.checkOpen();
    if (!found) throw noSuchCollection(name);
    return found;
  }

  /**
   * What is current of a collection; NOT_FOUND if it was deleted, or there is another of its name.
   */
  async current(name: string, signal?: AbortSignal): Promise<Current> {
    for (let left = PLACEMENT_TRIES; ; left--) {
      const placed = await this.find(name);
      try {
        const current = await this.#node.changes.home(placed, signal);
        return { placed, home: current.home, states: statesOf(current) };
      } catch (error) {
        if (!isCode(error, 'NOT_FOUND', 'STALE', 'UNAVAILABLE')) throw error;
        // Its shards may be elsewhere now, or nowhere.
        const found = this.among(await this.#node.members.read(), name);
        this.checkOpen();
        if (!found) throw noSuchCollection(name);
        const { uid, placement } = found;
        if (left > 0 && (uid !== placed.uid || placement > placed.placement)) continue;
        if (isCode(error, 'UNAVAILABLE')) throw error;
        throw new HersError('UNAVAILABLE', `too few nodes have the collection ${name}; try again`);
      }
    }
  }

  /**
   * The error for a search that replicas called STALE. If there is no newer version, they lag: a
   * client that read the newest must not hear that it is old.
   */
  async whyStale(name: string, version: number, error: unknown): Promise<unknown> {
    const { home } = await this.current(name);
    if (home.version !== version) return error;
    return new HersError('UNAVAILABLE', `too many replicas of ${name} lag; try again`);
  }

  /** The error for shards that nodes do not have: the collection is gone, or they lost them. */
  async whyMissing(uid: string): Promise<HersError> {
    const { collections } = await this.#node.members.read();
    const isThere = Object.values(collections).some((placed) => placed.uid === uid);
    return isThere
      ? new HersError('UNAVAILABLE', 'too few nodes have the shards of this collection; try again')
      : new HersError('NOT_FOUND', 'the collection was deleted meanwhile');
  }

  async create(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
    replicas: number = this.#replicas,
  ): Promise<void> {
    this.checkOpen();
    checkCollectionName(name);
    checkBytes(created.manifest, 'a manifest');
    checkWhole(created.manifest);
    await this.checkNew(name);
    const { manifest } = created;
    const shards = Array.from({ length: this.#shards }, (_, shard) =>
      shard === HOME ? homeState(FIRST_VERSION) : shardState(FIRST_VERSION, MADE),
    );
    const home = encodeHome({ version: FIRST_VERSION, manifest, shards });
    await this.register(name, await this.makeShards({ ...created, manifest: home }, replicas));
  }

  /** Makes the shards of a collection that nobody knows yet. */
  async makeShards(
    created: {
      readonly id: Uint8Array;
      readonly descriptor: Uint8Array;
      readonly manifest: Uint8Array;
    },
    replicas: number = this.#replicas,
  ): Promise<PlacedCollection> {
    const uid = randomBytes(16).toString('hex');
    const nodes = this.#node.mover.takers(replicas);
    const shards = placeShards(uid, this.#shards, replicas, nodes);
    const placed = { uid, base: 0, shards, placement: 0, replicas };
    const { id, descriptor } = created;
    const manifestOf = (shard: number) => (shard === HOME ? created.manifest : shardManifest(FIRST_VERSION, MADE));
    try {
      await Promise.all(
        shards.map((kept, shard) =>
          writeTo(this.#node, kept, (service) =>
            service.createCollection(shardName(uid, shard), { id, descriptor, manifest: manifestOf(shard) }),
          ),
        ),
      );
    } catch (error) {
      await this.removeShards(placed);
      throw error;
    }
    return placed;
  }

  async removeShards({ uid, shards }: PlacedCollection): Promise<void> {
    await Promise.allSettled(
      shards.flatMap((replicas, shard) =>
        replicas.map((node) => this.#node.peers.of(node).deleteCollection(shardName(uid, shard))),
      ),
    );
  }

  async register(name: string, placed: PlacedCollection): Promise<void> {
    try {
      await this.#node.members.change((directory) => {
        if (this.among(directory, name)) throw alreadyExists(name);
        // The collection of an inbox may be gone.
        if (this.#prefix !== '' && !Object.values(directory.collections).some(({ uid }) => uid === name))
          throw noSuchCollection(name);
        const gone = placed.shards.flat().find((node) => !Object.hasOwn(directory.nodes, node));
        if (gone !== undefined) throw new HersError('UNAVAILABLE', `node ${gone} has left the cluster; try again`);
        const next = { ...directory, collections: { ...directory.collections, [this.#prefix + name]: placed } };
        checkRoom(next);
        return next;
      });
    } catch (error) {
      if (isCode(error, 'ALREADY_EXISTS', 'NOT_FOUND', 'TOO_LARGE')) await this.removeShards(placed);
      throw error;
    }
  }

  async names(): Promise<string[]> {
    this.checkOpen();
    return Object.keys((await this.#node.members.read()).collections).filter(isSeen);
  }

  /** ALREADY_EXISTS if there is one of this name. */
  async checkNew(name: string): Promise<void> {
    if (this.among(await this.#node.members.read(), name)) throw alreadyExists(name);
  }

  async delete(name: string): Promise<void> {
    this.checkOpen();
    await this.#node.members.read();
    let gone: PlacedCollection[] = [];
    await this.#node.members.change((directory) => {
      const found = this.among(directory, name);
      if (!found) throw noSuchCollection(name);
      const inbox = INBOXES + found.uid;
      const { [name]: _, [inbox]: itsInbox, ...collections } = directory.collections;
      gone = Object.hasOwn(directory.collections, inbox) ? [found, itsInbox] : [found];
      return { ...directory, collections };
    });
    // So that no node answers for it from what it remembers.
    for (const { uid, shards } of gone)
      await quorum(shards[HOME], majorityOf(shards[HOME].length), (node) =>
        this.#node.peers
          .of(node)
          .deleteCollection(shardName(uid, HOME))
          .catch((error) => {
            if (!isCode(error, 'NOT_FOUND')) throw error;
          }),
      );
    for (const placed of gone) await this.removeShards(placed);
  }
}

const noSuchCollection = (name: string) => new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
const alreadyExists = (name: string) =>
  new HersError('ALREADY_EXISTS', `there is a collection ${name} already; use it, or choose another name`);
