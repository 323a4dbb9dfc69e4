// The shards of a node as others see them. Calls that count replicas name the placement that they
// were counted by. A node that knows a later one refuses them, so once a majority of the replicas
// of before knows it, nobody can count those any more: neither to acknowledge a change nor to read
// what is current.

import { decodeQuery } from '@hers/scheme';
import { decodeOpenQuery, isOpenQuery } from '@hers/scheme/open';
import { Grouped, groupsOf, HersError, withMethods } from '@hers/service';
import type { FolderStore } from '@hers/store';
import { isCode } from './arguments.ts';
import { DIRECTORY, decodeDirectory } from './directory.ts';
import { readAddress, type ShardService, shardName } from './shard.ts';

/** What a node does for others besides keeping shards. */
export interface ClusterCalls {
  drain(node: string, draining: boolean): Promise<void>;
  setReplicas(collection: string, replicas: number): Promise<void>;
  /** A file of this shard was found damaged. */
  damaged(shard: string): void;
  /** Lists of a collection, from whichever nodes keep them. */
  lists(uid: string, ids: readonly Uint8Array[], signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Whether this node counts among those that know the directory. */
  knowsDirectory(): boolean;
}

function isReadable(query: Uint8Array): boolean {
  try {
    return Boolean(isOpenQuery(query) ? decodeOpenQuery(query) : decodeQuery(query));
  } catch {
    return false;
  }
}

/** The store, behind its fence. `calls` is known once the node runs. */
export function fencedShards(store: FolderStore, calls: () => ClusterCalls | undefined): ShardService {
  let known = { version: -1, placements: new Map<string, number>() };

  /** As the folder has it: others may have written it a moment ago. */
  const placements = async () => {
    const { version } = await store.getState(DIRECTORY);
    if (version !== known.version) {
      const { version: read, manifest } = await store.getManifest(DIRECTORY);
      const { collections } = decodeDirectory(manifest);
      const pairs = Object.values(collections).map(({ uid, placement }) => [uid, placement] as const);
      known = { version: read, placements: new Map(pairs) };
    }
    return known.placements;
  };

  const enter = async (name: string): Promise<string> => {
    const address = readAddress(name);
    if (address?.placement === undefined) return name;
    const { uid, shard, placement } = address;
    if (((await placements()).get(uid) ?? 0) > placement)
      throw new HersError('STALE', 'shards have moved to other nodes; read the directory again');
    return shardName(uid, shard);
  };

  const running = (): ClusterCalls => {
    const found = calls();
    if (!found) throw new HersError('UNAVAILABLE', 'this node is starting; try again');
    return found;
  };

  /**
   * What is said of a call that failed. A shard that is not here may have been lost with a disk, or
   * be on its way: NOT_FOUND would say that there is none anywhere, and only the directory can.
   */
  const reasonOf = async (names: readonly string[], error: unknown): Promise<unknown> => {
    if (!(error instanceof HersError)) return error;
    if (error.code === 'DAMAGED') for (const name of names) calls()?.damaged(name);
    if (error.code === 'NOT_FOUND')
      for (const name of names)
        if (!(await has(name))) return new HersError('STALE', `this node does not have the shard ${name}; try again`);
    return error;
  };
  const has = (name: string) =>
    store.getState(name).then(
      () => true,
      (error) => !isCode(error, 'NOT_FOUND'),
    );
  const watched = async <T>(name: string, work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw await reasonOf([name], error);
    }
  };
  const entered = async <T>(name: string, call: (shard: string) => Promise<T>): Promise<T> => {
    const shard = await enter(name);
    return watched(shard, call(shard));
  };
  async function* watchedStream<T>(
    names: readonly string[],
    items: AsyncIterable<T>,
    isOurs: () => boolean = () => true,
  ): AsyncGenerator<T> {
    try {
      yield* items;
    } catch (error) {
      throw isOurs() ? await reasonOf(names, error) : error;
    }
  }

  /** A node that lost its folder may have known a later directory, and does not answer for it. */
  const checkDirectory = (name: string) => {
    if (name === DIRECTORY && !calls()?.knowsDirectory())
      throw new HersError('UNAVAILABLE', 'this node has not joined yet; try again');
  };

  const fenced: Partial<ShardService> = {
    getManifest: async (name, options) => {
      checkDirectory(name);
      return watched(name, store.getManifest(name, options));
    },
    commit: async (name, change, options) => {
      checkDirectory(name);
      return store.commit(name, change, options);
    },
    getCollection: (name) => watched(name, store.getCollection(name)),
    getState: (name) => entered(name, (shard) => store.getState(shard)),
    prepare: (name, change, options) => entered(name, (shard) => store.prepare(shard, change, options)),
    apply: (name, staged, options) => entered(name, (shard) => store.apply(shard, staged, options)),
    searchShards: (shards, queries, options) =>
      new Grouped(() =>
        watchedStream(
          shards.map(({ name }) => name),
          groupsOf(
            store.searchShards(shards, queries, options, (ids, signal) =>
              running().lists(readAddress(shards[0].name)?.uid ?? '', ids, signal),
            ),
          ),
          // A query that came damaged says nothing of what is here.
          () => queries.every(isReadable),
        ),
      ),
    getRecords: (name, handles, options) => watchedStream([name], store.getRecords(name, handles, options)),
    getLists: (name, ids, options) => watchedStream([name], store.getLists(name, ids, options)),
    getBlock: (name, id, options) => watchedStream([name], store.getBlock(name, id, options)),
    snapshot: (name, options) => watchedStream([name], store.snapshot(name, options)),
    drain: (node, draining) => running().drain(node, draining),
    setReplicas: (collection, replicas) => running().setReplicas(collection, replicas),
    close: async () => {},
  };
  return withMethods<ShardService>(store, fenced);
}
