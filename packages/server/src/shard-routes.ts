// What the nodes of a cluster ask of each other besides the calls of a Service. Only the port for
// nodes has these paths.

import {
  BLOCK_ID_BYTES,
  type CallOptions,
  type Change,
  type CommitHead,
  decodeCommit,
  groupsOf,
  HersError,
  type SearchCallOptions,
  type SearchRequest,
  type StageId,
} from '@hers/service';
import type { ItemParts } from './items.ts';
import type { Route } from './routes.ts';
import * as schemas from './schemas.ts';

/** The calls of a node for its shards; `@hers/store` has them. */
export interface ShardCalls {
  prepare(name: string, change: PreparedChange, options?: CallOptions): Promise<StageId>;
  apply(name: string, staged: AppliedChange, options?: CallOptions): Promise<number>;
  getState(name: string, options?: CallOptions): Promise<{ readonly version: number; readonly state: string }>;
  getStaged(name: string, stage: StageId, options?: CallOptions): AsyncIterable<Uint8Array>;
  searchShards(
    shards: readonly SearchedShard[],
    queries: readonly Uint8Array[],
    options?: SearchCallOptions,
  ): AsyncIterable<Uint8Array>;
  drain?(node: string, draining: boolean): Promise<void>;
  setReplicas?(collection: string, replicas: number): Promise<void>;
}

interface PreparedChange extends Change {
  readonly version: number;
  readonly basis: string;
}

interface AppliedChange {
  readonly change: StageId;
  readonly version: number;
  readonly state: string;
}

interface SearchedShard extends Omit<SearchRequest, 'queries'> {
  readonly name: string;
  readonly state?: string;
}

interface PrepareHead extends CommitHead {
  readonly version: number;
  readonly basis: string;
  readonly partitions?: readonly string[];
}

interface SearchShardsHead {
  readonly shards: readonly (Omit<SearchedShard, 'blocks'> & { readonly some?: boolean })[];
}

/** Parts of a search: ids for every shard, and queries. */
const MAX_PARTS = 4096;

export function shardRoutes(shards: ShardCalls): Route[] {
  const collection = '/v1/collections/:name';
  const params = schemas.collectionParams;
  return [
    {
      method: 'POST',
      url: `${collection}/changes`,
      needs: 'admin',
      operation: 'prepare',
      summary: 'Stage a change of a shard, if it can be applied to what the shard is now',
      params,
      takes: { kind: 'message', head: schemas.prepareHead, parts: 'as those of a commit' },
      gives: { kind: 'json', status: 201, body: schemas.stageBody },
      handle: async (call) => {
        const { head, parts } = await call.message<PrepareHead>(schemas.prepareHead, 5);
        const { partitions, ...rest } = head;
        const change = decodeCommit({ head: rest, parts }, (...ids) => call.ids(...ids));
        const held = partitions && new Set(partitions);
        const stage = await shards.prepare(call.name, change as PreparedChange, { ...call.options, partitions: held });
        return { stage };
      },
    },
    {
      method: 'POST',
      url: `${collection}/apply`,
      needs: 'admin',
      operation: 'apply',
      summary: 'Apply a staged change of a shard',
      params,
      takes: { kind: 'message', head: schemas.applyHead, parts: 'none' },
      gives: { kind: 'json', status: 200, body: schemas.versionBody },
      handle: async (call) => {
        const { head } = await call.message<AppliedChange>(schemas.applyHead, 0);
        return { version: await shards.apply(call.name, head, call.options) };
      },
    },
    {
      method: 'GET',
      url: `${collection}/state`,
      needs: 'admin',
      operation: 'getState',
      summary: 'The version of a shard, and which change made it',
      params,
      gives: { kind: 'json', status: 200, body: schemas.stateBody },
      handle: (call) => shards.getState(call.name, call.options),
    },
    {
      method: 'GET',
      url: `${collection}/staged/:stage`,
      needs: 'admin',
      operation: 'getStaged',
      summary: 'A staged block as it came',
      params: schemas.stageParams,
      gives: { kind: 'octets', status: 200, description: 'the encoded block' },
      handle: async (call) => {
        const { stage } = call.request.params as { stage: string };
        return call.pieces(shards.getStaged(call.name, stage, call.options));
      },
    },
    {
      method: 'POST',
      url: '/v1/cluster/drain',
      needs: 'admin',
      whole: true,
      operation: 'drain',
      summary: 'Empty a node, or let it take shards again',
      takes: { kind: 'message', head: schemas.drainHead, parts: 'none' },
      gives: { kind: 'nothing', status: 204 },
      handle: async (call) => {
        const { head } = await call.message<{ node: string; draining: boolean }>(schemas.drainHead, 0);
        await shards.drain?.(head.node, head.draining);
      },
    },
    {
      method: 'POST',
      url: `${collection}/replicas`,
      needs: 'admin',
      operation: 'setReplicas',
      summary: 'Change how many nodes keep each shard of a collection',
      params,
      takes: { kind: 'message', head: schemas.replicasHead, parts: 'none' },
      gives: { kind: 'nothing', status: 204 },
      handle: async (call) => {
        const { head } = await call.message<{ replicas: number }>(schemas.replicasHead, 0);
        await shards.setReplicas?.(call.name, head.replicas);
      },
    },
    {
      method: 'POST',
      url: '/v1/shards/search',
      needs: 'admin',
      whole: true,
      operation: 'searchShards',
      summary: 'Scan several shards for encrypted queries',
      takes: {
        kind: 'message',
        head: schemas.searchShardsHead,
        parts: 'for each shard with some: the ids of the blocks to scan; then the encoded queries',
      },
      gives: { kind: 'octets', status: 200, description: 'items: encoded responses, in any order' },
      endless: true,
      handle: async (call) => {
        const { head, parts } = await call.message<SearchShardsHead>(schemas.searchShardsHead, MAX_PARTS);
        let next = 0;
        const wanted = head.shards.map(({ some, ...shard }) => {
          if (!some) return shard;
          const ids = parts[next++];
          if (!ids) throw new HersError('MALFORMED', 'this search names no blocks');
          return { ...shard, blocks: call.ids(ids, BLOCK_ID_BYTES, 'a block id') };
        });
        const { signal } = call;
        return call.items(parted(shards.searchShards(wanted, parts.slice(next), { signal, views: true })));
      },
    },
  ];
}

async function* parted(items: AsyncIterable<Uint8Array>): AsyncGenerator<ItemParts[]> {
  for await (const group of groupsOf(items)) yield group.map((item) => [item]);
}
