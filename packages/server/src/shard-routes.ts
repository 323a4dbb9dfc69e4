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
import { COLLECTION, json, message, octets, type Route, route } from './routes.ts';
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

/** Only nodes have the token for these. */
export function shardRoutes(shards: ShardCalls): Route[] {
  /** Reads a message without parts. */
  const said = async <H>(call: Call, head: object) => (await call.message<H>(head, 0)).head;
  return [
    route(
      `POST ${COLLECTION}/changes`,
      'admin',
      'prepare',
      'Stage a change of a shard, if it can be applied to what the shard is now',
      {
        takes: message(schemas.prepareHead, 'as those of a commit'),
        gives: json(schemas.stageBody, 201),
        handle: async (call) => {
          const { head, parts } = await call.message<PrepareHead>(schemas.prepareHead, COMMIT_PARTS);
          const { partitions, ...rest } = head;
          const change = decodeCommit({ head: rest, parts });
          const held = partitions && new Set(partitions);
          const stage = await shards.prepare(call.name, change as PreparedChange, {
            ...call.options,
            partitions: held,
          });
          return { stage };
        },
      },
    ),
    route(`POST ${COLLECTION}/apply`, 'admin', 'apply', 'Apply a staged change of a shard', {
      takes: message(schemas.applyHead),
      gives: json(schemas.versionBody),
      handle: async (call) => {
        const change = await said<AppliedChange>(call, schemas.applyHead);
        return { version: await shards.apply(call.name, change, call.options) };
      },
    }),
    route(`GET ${COLLECTION}/state`, 'admin', 'getState', 'The version of a shard, and which change made it', {
      gives: json(schemas.stateBody),
      handle: (call) => shards.getState(call.name, call.options),
    }),
    route('POST /v1/cluster/drain', 'admin', 'drain', 'Empty a node, or let it take shards again', {
      whole: true,
      takes: message(schemas.drainHead),
      handle: async (call) => {
        const { node, draining } = await said<{ node: string; draining: boolean }>(call, schemas.drainHead);
        await shards.drain?.(node, draining);
      },
    }),
    route(
      `POST ${COLLECTION}/replicas`,
      'admin',
      'setReplicas',
      'Change how many nodes keep each shard of a collection',
      {
        takes: message(schemas.replicasHead),
        handle: async (call) => {
          const { replicas } = await said<{ replicas: number }>(call, schemas.replicasHead);
          await shards.setReplicas?.(call.name, replicas);
        },
      },
    ),
    route('POST /v1/shards/search', 'admin', 'searchShards', 'Scan several shards for encrypted queries', {
      whole: true,
      takes: message(
        schemas.searchShardsHead,
        'for each shard, with some: the ids of the blocks to scan, and with lists: those of lists that it must have; with evaluation, and with devices: the ids of lists with evaluation keys; then the encoded queries',
      ),
      gives: octets('items: encoded responses, in any order'),
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
    }),
  ];
}

async function* parted(items: AsyncIterable<Uint8Array>): AsyncGenerator<ItemParts[]> {
  for await (const group of groupsOf(items)) yield group.map((item) => [item]);
}
