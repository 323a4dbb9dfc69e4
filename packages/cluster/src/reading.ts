// Records, lists and blocks of a collection, each from a replica that has all that the home knows
// of.

import {
  type CallOptions,
  eitherSignal,
  HersError,
  isOf,
  isShared,
  type Partitions,
  type SealedRecord,
  type Service,
} from '@hers/service';
import { checkBytes, checkIds, hex, isCode } from './arguments.ts';
import type { Collections, Current } from './collections.ts';
import type { ClusterNode } from './node.ts';
import { pause } from './pause.ts';
import { firstOf } from './quorum.ts';
import { isCurrent, shardName, shardOf } from './shard.ts';

/** Records and lists that are read together. */
const READ_RECORDS = 4096;
const READ_LISTS = 64;

export class Reading {
  readonly #node: ClusterNode;
  readonly #collections: Collections;

  constructor(node: ClusterNode, collections: Collections) {
    this.#node = node;
    this.#collections = collections;
  }

  /** Reads from a replica that has all that the home knows of. */
  async from<T>(
    { placed: { uid, shards }, states }: Current,
    shard: number,
    read: (service: Service) => Promise<T>,
  ): Promise<T> {
    const name = shardName(uid, shard);
    try {
      return await firstOf(this.#node.peers.nearest(shards[shard]), async (node) => {
        const service = this.#node.peers.of(node);
        for (let left = 20; ; left--) {
          if (isCurrent(await service.getState(name), states, shard)) return read(service);
          // A change that was acknowledged is on its way to the others.
          if (left === 0) throw new HersError('UNAVAILABLE', `node ${node} lags; try again`);
          await pause(10);
        }
      });
    } catch (error) {
      throw isCode(error, 'STALE') ? await this.#collections.whyMissing(uid) : error;
    }
  }

  async *records(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<SealedRecord> {
    checkIds(handles, 'record', 16);
    const read = (some: readonly Uint8Array[], signal: AbortSignal) =>
      this.#readMany(name, some, signal, (service, shard, ids) => service.getRecords(shard, ids, { signal }));
    const isHeld = ({ sealed }: SealedRecord, partitions: Partitions) => isOf(partitions, sealed);
    yield* this.#readChecked(name, handles, READ_RECORDS, 'record', read, isHeld, options);
  }

  async *lists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<Uint8Array> {
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
    const { signal, done } = eitherSignal(this.#collections.closing, options?.signal);
    const partitions = options?.partitions;
    const groups: (readonly Uint8Array[])[] = [];
    for (let at = 0; at < ids.length; at += together) groups.push(ids.slice(at, at + together));
    const missing = () => new HersError('NOT_FOUND', `a ${what} that was asked for is not in this collection`);
    const isHeldTo = (found: T) => !partitions || isHeld(found, partitions);
    try {
      signal.throwIfAborted();
      if (ids.length === 0) await this.#collections.current(name, signal);
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
    const current = await this.#collections.current(name, signal);
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
        const items = await this.from(current, shard, (service) => Array.fromAsync(read(service, shardId, some)));
        for (const [i, { at }] of wanted.entries()) found[at] = items[i];
      }),
    );
    signal.throwIfAborted();
    return found;
  }

  async *block(name: string, blockId: Uint8Array, options?: CallOptions): AsyncGenerator<Uint8Array> {
    checkBytes(blockId, 'a block id');
    const { signal, done } = eitherSignal(this.#collections.closing, options?.signal);
    try {
      const current = await this.#collections.current(name, signal);
      const { placed, home } = current;
      if (options?.partitions && !isOf(options.partitions, blockId)) throw noBlock(blockId);
      const shard = home.moved.get(hex(blockId)) ?? shardOf(blockId, placed.shards.length);
      const pieces = await this.from(current, shard, (service) =>
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
}

const noBlock = (id: Uint8Array) => new HersError('NOT_FOUND', `there is no block ${hex(id)} in this collection`);
