// The collections of a cluster by their names: what is current of them, how they are made, and how
// they go.

import { randomBytes } from 'node:crypto';
import { checkCollectionName, checkWhole, HersError } from '@hers/service';
import type { ShardState } from '@hers/store/stages';
import { checkBytes, isCode } from './arguments.ts';
import { statesOf } from './changes.ts';
import { majorityOf, type PlacedCollection, placeShards } from './directory.ts';
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

/** What is current of a collection. */
export interface Current {
  readonly placed: PlacedCollection;
  readonly home: Home;
  /** Of every shard. */
  readonly states: readonly ShardState[];
}

/** How often a call is begun again because shards have moved. */
export const PLACEMENT_TRIES = 10;

export class Collections {
  readonly #node: ClusterNode;
  readonly #shards: number;
  readonly #replicas: number;
  /** Ends what is under way. */
  readonly closing: AbortSignal;

  /** New ones have so many shards, and each so many replicas. */
  constructor(node: ClusterNode, shards: number, replicas: number, closing: AbortSignal) {
    this.#node = node;
    this.#shards = shards;
    this.#replicas = replicas;
    this.closing = closing;
  }

  checkOpen(): void {
    this.closing.throwIfAborted();
  }

  /** Where a collection is, as far as this node knows. */
  async find(name: string): Promise<PlacedCollection> {
    this.checkOpen();
    const known = this.#node.members.directory.collections[name];
    if (known && Object.hasOwn(this.#node.members.directory.collections, name)) return known;
    const { collections } = await this.#node.members.read();
    this.checkOpen();
    if (!Object.hasOwn(collections, name)) throw noSuchCollection(name);
    return collections[name];
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
        const { collections } = await this.#node.members.read();
        this.checkOpen();
        if (!Object.hasOwn(collections, name)) throw noSuchCollection(name);
        const { uid, placement } = collections[name];
        if (left > 0 && (uid !== placed.uid || placement > placed.placement)) continue;
        if (isCode(error, 'UNAVAILABLE')) throw error;
        throw new HersError('UNAVAILABLE', `too few nodes have the collection ${name}; try again`);
      }
    }
  }

  async create(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
  ): Promise<void> {
    this.checkOpen();
    checkCollectionName(name);
    checkBytes(created.manifest, 'a manifest');
    checkWhole(created.manifest);
    if (Object.hasOwn((await this.#node.members.read()).collections, name)) throw alreadyExists(name);
    const { manifest } = created;
    const shards = Array.from({ length: this.#shards }, (_, shard) =>
      shard === HOME ? homeState(FIRST_VERSION) : shardState(FIRST_VERSION, MADE),
    );
    const home = encodeHome({ version: FIRST_VERSION, manifest, shards, moved: new Map() });
    await this.register(name, await this.makeShards({ ...created, manifest: home }));
  }

  /** Makes the shards of a collection that nobody knows yet. */
  async makeShards(created: {
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
          writeTo(this.#node, replicas, (service) =>
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
        if (Object.hasOwn(directory.collections, name)) throw alreadyExists(name);
        const gone = placed.shards.flat().find((node) => !Object.hasOwn(directory.nodes, node));
        if (gone !== undefined) throw new HersError('UNAVAILABLE', `node ${gone} has left the cluster; try again`);
        return { ...directory, collections: { ...directory.collections, [name]: placed } };
      });
    } catch (error) {
      if (isCode(error, 'ALREADY_EXISTS')) await this.removeShards(placed);
      throw error;
    }
  }

  /** The names of all. */
  async names(): Promise<string[]> {
    this.checkOpen();
    return Object.keys((await this.#node.members.read()).collections);
  }

  /** ALREADY_EXISTS if there is one of this name. */
  async checkNew(name: string): Promise<void> {
    if (Object.hasOwn((await this.#node.members.read()).collections, name)) throw alreadyExists(name);
  }

  async delete(name: string): Promise<void> {
    this.checkOpen();
    await this.#node.members.read();
    let placed: PlacedCollection | undefined;
    await this.#node.members.change((directory) => {
      const { [name]: gone, ...collections } = directory.collections;
      if (!Object.hasOwn(directory.collections, name)) throw noSuchCollection(name);
      placed = gone;
      return { ...directory, collections };
    });
    // So that no node answers for it from what it remembers.
    const { uid, shards } = placed!;
    await quorum(shards[HOME], majorityOf(shards[HOME].length), (node) =>
      this.#node.peers
        .of(node)
        .deleteCollection(shardName(uid, HOME))
        .catch((error) => {
          if (!isCode(error, 'NOT_FOUND')) throw error;
        }),
    );
    await this.removeShards(placed!);
  }
}

const noSuchCollection = (name: string) => new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
const alreadyExists = (name: string) =>
  new HersError('ALREADY_EXISTS', `there is a collection ${name} already; use it, or choose another name`);
