// What the nodes of a cluster ask of each other besides the calls of a Service. Only the port for
// nodes has these paths.

import {
  BLOCK_ID_BYTES,
  type CallOptions,
  type Change,
  COMMIT_PARTS,
  type CommitHead,
  decodeCommit,
  groupsOf,
  HersError,
  LIST_ID_BYTES,
  type SearchCallOptions,
  type SearchRequest,
  type StageId,
} from '@hers/service';
import type { Call } from './call.ts';
import type { ItemParts } from './items.ts';
import type { Route } from './routes.ts';
import * as schemas from './schemas.ts';

/** The calls of a node for its shards; `@hers/store` has them. */
export interface ShardCalls {
  prepare(name: string, change: PreparedChange, options?: CallOptions): Promise<StageId>;
  apply(name: string, staged: AppliedChange, options?: CallOptions): Promise<number>;
  getState(name: string, options?: CallOptions): Promise<{ readonly version: number; readonly state: string }>;
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
  readonly lists?: readonly Uint8Array[];
}

interface PrepareHead extends CommitHead {
  readonly version: number;
  readonly basis: string;
  readonly partitions?: readonly string[];
}

interface SearchShardsHead {
  readonly shards: readonly (Pick<SearchedShard, 'name' | 'version' | 'state'> & {
    readonly some?: boolean;
    readonly lists?: boolean;
  })[];
  readonly evaluation?: boolean;
  readonly devices?: boolean;
}

/** Parts of a search: ids for every shard, and queries. */
const MAX_PARTS = 8192;

/** One route: only nodes have the token for it. */
type ShardRoute = Omit<Route, 'needs'>;

export function shardRoutes(shards: ShardCalls): Route[] {
  const url = '/v1/collections/:name';
  const params = schemas.collectionParams;
  /** A call about one collection. */
  const one = { params } as const;
  /** A call about the whole cluster. */
  const all = { whole: true } as const;
  const parts = 'none';
  const nothing = { kind: 'nothing', status: 204 } as const;
  /** A message without parts. */
  const said = async <H>(call: Call, head: object) => (await call.message<H>(head, 0)).head;
  const routes: ShardRoute[] = [
    {
      ...one,
      method: 'POST',
      url: `${url}/changes`,
      operation: 'prepare',
      summary: 'Stage a change of a shard, if it can be applied to what the shard is now',
      takes: { kind: 'message', head: schemas.prepareHead, parts: 'as those of a commit' },
      gives: { kind: 'json', status: 201, body: schemas.stageBody },
      handle: async (call) => {
        const { head, parts } = await call.message<PrepareHead>(schemas.prepareHead, COMMIT_PARTS);
        const { partitions, ...rest } = head;
        const change = decodeCommit({ head: rest, parts });
        const held = partitions && new Set(partitions);
        const stage = await shards.prepare(call.name, change as PreparedChange, { ...call.options, partitions: held });
        return { stage };
      },
    },
    {
      ...one,
      method: 'POST',
      url: `${url}/apply`,
      operation: 'apply',
      summary: 'Apply a staged change of a shard',
      takes: { kind: 'message', head: schemas.applyHead, parts },
      gives: { kind: 'json', status: 200, body: schemas.versionBody },
      handle: async (call) => {
        const change = await said<AppliedChange>(call, schemas.applyHead);
        return { version: await shards.apply(call.name, change, call.options) };
      },
    },
    {
      ...one,
      method: 'GET',
      url: `${url}/state`,
      operation: 'getState',
      summary: 'The version of a shard, and which change made it',
      gives: { kind: 'json', status: 200, body: schemas.stateBody },
      handle: (call) => shards.getState(call.name, call.options),
    },
    {
      ...all,
      method: 'POST',
      url: '/v1/cluster/drain',
      operation: 'drain',
      summary: 'Empty a node, or let it take shards again',
      takes: { kind: 'message', head: schemas.drainHead, parts },
      gives: nothing,
      handle: async (call) => {
        const { node, draining } = await said<{ node: string; draining: boolean }>(call, schemas.drainHead);
        await shards.drain?.(node, draining);
      },
    },
    {
      ...one,
      method: 'POST',
      url: `${url}/replicas`,
      operation: 'setReplicas',
      summary: 'Change how many nodes keep each shard of a collection',
      takes: { kind: 'message', head: schemas.replicasHead, parts },
      gives: nothing,
      handle: async (call) => {
        const { replicas } = await said<{ replicas: number }>(call, schemas.replicasHead);
        await shards.setReplicas?.(call.name, replicas);
      },
    },
    {
      ...all,
      method: 'POST',
      url: '/v1/shards/search',
      operation: 'searchShards',
      summary: 'Scan several shards for encrypted queries',
      takes: {
        kind: 'message',
        head: schemas.searchShardsHead,
        parts:
          'for each shard, with some: the ids of the blocks to scan, and with lists: those of lists that it must have; with evaluation, and with devices: the ids of lists with evaluation keys; then the encoded queries',
      },
      gives: { kind: 'octets', status: 200, description: 'items: encoded responses, in any order' },
      endless: true,
      handle: async (call) => {
        const { head, parts } = await call.message<SearchShardsHead>(schemas.searchShardsHead, MAX_PARTS);
        const left = [...parts];
        const ids = <N extends string>(name: N, isGiven: boolean | undefined, bytes: number, what: string) => {
          if (!isGiven) return {};
          const packed = left.shift();
          if (!packed) throw new HersError('MALFORMED', 'this search names no blocks or lists');
          return { [name]: call.ids(packed, bytes, what) } as Record<N, Uint8Array[]>;
        };
        const each = head.shards.map(({ some, lists, ...shard }) => ({
          ...shard,
          ...ids('blocks', some, BLOCK_ID_BYTES, 'a block id'),
          ...ids('lists', lists, LIST_ID_BYTES, 'a list id'),
        }));
        const keys = {
          ...ids('evaluation', head.evaluation, LIST_ID_BYTES, 'a list id'),
          ...ids('devices', head.devices, LIST_ID_BYTES, 'a list id'),
        };
        const wanted = each.map((shard) => ({ ...shard, ...keys }));
        const { signal } = call;
        return call.items(parted(shards.searchShards(wanted, left, { signal, views: true })));
      },
    },
  ];
  return routes.map((route) => ({ ...route, needs: 'admin' }));
}

async function* parted(items: AsyncIterable<Uint8Array>): AsyncGenerator<ItemParts[]> {
  for await (const group of groupsOf(items)) yield group.map((item) => [item]);
}
