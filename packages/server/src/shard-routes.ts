// What the nodes of a cluster ask of each other besides the calls of a Service. Only the port for
// nodes has these paths.

import {
  COMMIT_PARTS,
  type CommitHead,
  decodeCommit,
  decodeShardSearch,
  groupsOf,
  type ShardSearchHead,
} from '@hers/service';
import type { ShardCalls, ShardChange, StagedChange } from '@hers/store/stages';
import type { Call } from './call.ts';
import type { ItemParts } from './items.ts';
import { COLLECTION, json, message, octets, type Route, route } from './routes.ts';
import * as schemas from './schemas.ts';

interface PrepareHead extends CommitHead, Pick<ShardChange, 'version' | 'basis'> {
  readonly partitions?: readonly string[];
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
          const change = decodeCommit({ head: rest, parts }) as ShardChange;
          const options = { ...call.options, partitions: partitions && new Set(partitions) };
          return { stage: await shards.prepare(call.name, change, options) };
        },
      },
    ),
    route(`POST ${COLLECTION}/apply`, 'admin', 'apply', 'Apply a staged change of a shard', {
      takes: message(schemas.applyHead),
      gives: json(schemas.versionBody),
      handle: async (call) => {
        const change = await said<StagedChange>(call, schemas.applyHead);
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
        'for each shard, with some: the ids of the blocks to scan, and with lists: those of lists that it must have; with open: the ids of the lists of evaluation keys, and of those of single devices; then the encoded queries',
      ),
      gives: octets('items: encoded responses, in any order'),
      endless: true,
      handle: async (call) => {
        const message = await call.message<ShardSearchHead>(schemas.searchShardsHead, MAX_PARTS);
        const { shards: searched, queries } = decodeShardSearch(message, call.unpack);
        const { signal } = call;
        return call.items(parted(shards.searchShards(searched, queries, { signal, views: true })));
      },
    }),
  ];
}

async function* parted(items: AsyncIterable<Uint8Array>): AsyncGenerator<ItemParts[]> {
  for await (const group of groupsOf(items)) yield group.map((item) => [item]);
}
