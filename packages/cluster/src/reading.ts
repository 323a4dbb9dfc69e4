// Records, lists and blocks of a collection, each from a replica that has all that the home knows
// of.

import { setTimeout as pause } from 'node:timers/promises';
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
import { firstOf, itemsOfFirst } from './quorum.ts';
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
    try {
      return await firstOf(this.#node.peers.nearest(shards[shard]), async (node) =>
        read(await this.#current(node, shardName(uid, shard), states, shard)),
      );
    } catch (error) {
      throw isCode(error, 'STALE') ? await this.#collections.whyMissing(uid) : error;
    }
  }

  async #current(node: string, name: string, states: Current['states'], shard: number): Promise<Service> {
    const service = this.#node.peers.of(node);
    for (let left = 20; ; left--) {
      if (isCurrent(await service.getState(name), states, shard)) return service;
      // A change that was acknowledged is on its way to the others.
      if (left === 0) throw new HersError('UNAVAILABLE', `node ${node} lags; try again`);
      await pause(10);
    }
  }

  /** The same for streams: what is read is never here as a whole. */
  async *#streamed<T>(
    { placed: { uid, shards }, states }: Current,
    shard: number,
    read: (service: Service, delivered: number) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    const current = (node: string) => this.#current(node, shardName(uid, shard), states, shard);
    try {
      yield* itemsOfFirst(this.#node.peers.nearest(shards[shard]), async function* (node, delivered) {
        yield* read(await current(node), delivered);
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
    read: (some: readonly Uint8Array[], signal: AbortSignal) => AsyncIterable<T>,
    isHeld: (found: T, partitions: Partitions) => boolean,
    options: CallOptions | undefined,
  ): AsyncGenerator<T> {
    using either = eitherSignal(this.#collections.closing, options?.signal);
    const { signal } = either;
    const partitions = options?.partitions;
    const groups: (readonly Uint8Array[])[] = [];
    for (let at = 0; at < ids.length; at += together) groups.push(ids.slice(at, at + together));
    const missing = () => new HersError('NOT_FOUND', `a ${what} that was asked for is not in this collection`);
    const isHeldTo = (found: T) => !partitions || isHeld(found, partitions);
    signal.throwIfAborted();
    if (ids.length === 0) await this.#collections.current(name, signal);
    if (partitions)
      try {
        for (const group of groups)
          for await (const found of read(group, signal)) if (!isHeldTo(found)) throw missing();
      } catch (error) {
        throw isCode(error, 'NOT_FOUND') ? missing() : error;
      }
    for (const group of groups)
      for await (const found of read(group, signal)) {
        if (!isHeldTo(found)) throw missing();
        yield found;
        signal.throwIfAborted();
      }
  }

  /** In the order of the ids. Every shard is one item ahead of what was taken of it. */
  async *#readMany<T>(
    name: string,
    ids: readonly Uint8Array[],
    signal: AbortSignal,
    read: (service: Service, shard: string, ids: readonly Uint8Array[]) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    const current = await this.#collections.current(name, signal);
    const { uid, shards } = current.placed;
    const wanted = Map.groupBy(ids, (id) => shardOf(id, shards.length));
    const streams = new Map<number, { readonly items: AsyncGenerator<T>; next: Promise<IteratorResult<T>> }>();
    const nextOf = (items: AsyncGenerator<T>) => {
      const next = items.next();
      // It is looked at when its turn comes.
      next.catch(() => {});
      return next;
    };
    try {
      for (const [shard, some] of wanted) {
        const items = this.#streamed(current, shard, (service, delivered) =>
          read(service, shardName(uid, shard), some.slice(delivered)),
        );
        streams.set(shard, { items, next: nextOf(items) });
      }
      for (const id of ids) {
        const stream = streams.get(shardOf(id, shards.length))!;
        const { value, done } = await stream.next;
        signal.throwIfAborted();
        if (done) throw new HersError('UNAVAILABLE', 'a node gave less than it was asked for; try again');
        stream.next = nextOf(stream.items);
        yield value;
      }
    } finally {
      await Promise.allSettled([...streams.values()].map(({ items }) => items.return(undefined)));
    }
  }

  async *block(name: string, blockId: Uint8Array, options?: CallOptions): AsyncGenerator<Uint8Array> {
    checkBytes(blockId, 'a block id');
    using either = eitherSignal(this.#collections.closing, options?.signal);
    const { signal } = either;
    let held = 0;
    const hold = (bytes: number) => {
      options?.hold?.(bytes);
      held += bytes;
    };
    try {
      const current = await this.#collections.current(name, signal);
      const { placed } = current;
      if (options?.partitions && !isOf(options.partitions, blockId)) throw noBlock(blockId);
      const shard = shardOf(blockId, placed.shards.length);
      // As a whole: pieces of one replica do not continue those of another.
      const pieces = await this.from(current, shard, async (service) => {
        const all: Uint8Array[] = [];
        hold(-held);
        for await (const piece of service.getBlock(shardName(placed.uid, shard), blockId, { signal })) {
          hold(piece.length);
          all.push(piece);
        }
        return all;
      }).catch((error) => {
        throw isCode(error, 'NOT_FOUND') ? noBlock(blockId) : error;
      });
      for (const piece of pieces) {
        signal.throwIfAborted();
        yield piece;
      }
    } finally {
      hold(-held);
    }
  }
}

const noBlock = (id: Uint8Array) => new HersError('NOT_FOUND', `there is no block ${hex(id)} in this collection`);
