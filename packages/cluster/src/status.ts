// What a cluster looks like from outside: which nodes answer, which shards they keep, what lags.

import { type CollectionInfo, HersError, type Service } from '@hers/service';
import {
  DIRECTORY,
  type Directory,
  decodeDirectory,
  INBOXES,
  isSeen,
  type Move,
  majorityOf,
  type PlacedCollection,
} from './directory.ts';
import { decodeHome, HOME, readAddress, type ShardService, shardName } from './shard.ts';

export interface NodeStatus {
  readonly name: string;
  readonly url: string;
  readonly error?: string;
  /** Shards that it keeps, and their bytes on its disk. */
  readonly shards: number;
  readonly bytes: number;
  /** Shards that it should have and lacks, or has an older version of. */
  readonly lagging: number;
  readonly draining: boolean;
}

/** A shard on its way from one node to another. */
export interface MoveStatus {
  readonly collection: string;
  readonly shard: number;
  /** Not there where a replica is added. */
  readonly from?: string;
  /** Not there where a replica is removed. */
  readonly to?: string;
  /** The new node copies it; it has joined the others; the old one has left. */
  readonly state: 'copying' | 'joined' | 'left';
  /** Bytes of the shard, if a node that keeps it answers. */
  readonly bytes?: number;
}

export interface CollectionStatus {
  readonly name: string;
  readonly version: number | null;
  readonly shards: number;
  readonly replicas: number;
  /** Shards with fewer live and current replicas than they should have. */
  readonly degraded: number;
  /** Shards that a majority of the replicas is missing of: they take no changes. */
  readonly blocked: number;
  /** Shards without any current replica: they cannot be searched. */
  readonly lost: number;
}

export interface ClusterStatus {
  readonly nodes: readonly NodeStatus[];
  readonly collections: readonly CollectionStatus[];
  readonly moves: readonly MoveStatus[];
}

export interface FolderStatus {
  readonly nodes: readonly string[];
  /** Collections of the cluster, and shards in this folder. */
  readonly collections: number;
  readonly shards: number;
  /** Shards in this folder that no collection has, as far as it knows. */
  readonly leftover: number;
}

export async function folderStatus(store: Service): Promise<FolderStatus> {
  const directory = decodeDirectory((await store.getManifest(DIRECTORY)).manifest);
  const uids = new Set(Object.values(directory.collections).map(({ uid }) => uid));
  const addresses = (await store.listCollections()).flatMap(({ name }) => readAddress(name) ?? []);
  return {
    nodes: Object.keys(directory.nodes).sort(),
    collections: Object.keys(directory.collections).filter(isSeen).length,
    shards: addresses.length,
    leftover: addresses.filter(({ uid }) => !uids.has(uid)).length,
  };
}

/** As people know it. */
function shownName({ collections }: Directory, name: string): string {
  if (isSeen(name)) return name;
  const [owner = name] = Object.entries(collections).find(([, { uid }]) => INBOXES + uid === name) ?? [];
  return `${owner} (inbox)`;
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) => (a < b ? -1 : 1);

/** Asks one node who the others are, and then all of them. */
export async function clusterStatus(url: string, connect: (url: string) => ShardService): Promise<ClusterStatus> {
  const first = connect(url);
  const directory = decodeDirectory((await first.getManifest(DIRECTORY)).manifest);
  await first.close();
  const nodes = await Promise.all(
    Object.entries(directory.nodes)
      .sort(byName)
      .map(async ([name, info]) => {
        const service = connect(info.url);
        const homes = new Map<string, Uint8Array>();
        try {
          const kept = new Map((await service.listCollections()).map((each) => [each.name, each]));
          for (const { uid, shards } of Object.values(directory.collections)) {
            const home = shardName(uid, HOME);
            if (shards[HOME].includes(name) && kept.has(home))
              homes.set(uid, (await service.getManifest(home)).manifest);
          }
          return { name, url: info.url, kept, homes };
        } catch (error) {
          const why = error instanceof HersError ? error.message : String(error);
          homes.clear();
          return { name, url: info.url, kept: new Map<string, CollectionInfo>(), homes, error: why };
        } finally {
          await service.close();
        }
      }),
  );
  const nodeOf = new Map(nodes.map((node) => [node.name, node]));
  const lagging = new Map<string, number>();
  const collections = Object.entries(directory.collections)
    .map(([name, placed]) => [shownName(directory, name), placed] as const)
    .sort(byName)
    .map(([name, { uid, shards }]): CollectionStatus => {
      const homes = nodes.flatMap(({ homes }) => (homes.has(uid) ? [decodeHome(homes.get(uid)!)] : []));
      const home = homes.sort((a, b) => b.version - a.version)[0];
      let [degraded, blocked, lost] = [0, 0, 0];
      for (const [shard, replicas] of shards.entries()) {
        const current = replicas.filter((node) => {
          const info = nodeOf.get(node)?.kept.get(shardName(uid, shard));
          const isCurrent = info !== undefined && info.version >= (home?.shards[shard].version ?? 0);
          if (!isCurrent) lagging.set(node, (lagging.get(node) ?? 0) + 1);
          return isCurrent;
        });
        if (current.length < replicas.length) degraded++;
        if (current.length < majorityOf(replicas.length)) blocked++;
        if (current.length === 0) lost++;
      }
      const replicas = Math.max(...shards.map((each) => each.length));
      return { name, version: home?.version ?? null, shards: shards.length, replicas, degraded, blocked, lost };
    });
  return {
    nodes: nodes.map(({ name, url, kept, error }) => {
      const infos = [...kept.values()].filter((info) => info.name !== DIRECTORY);
      return {
        name,
        url,
        ...(error === undefined ? {} : { error }),
        shards: infos.length,
        bytes: infos.reduce((sum, info) => sum + info.bytes, 0),
        lagging: lagging.get(name) ?? 0,
        draining: directory.nodes[name].draining ?? false,
      };
    }),
    collections,
    moves: Object.entries(directory.collections).flatMap(([collection, placed]) =>
      placed.move
        ? [moveStatus(shownName(directory, collection), placed, placed.move, (node) => nodeOf.get(node)?.kept)]
        : [],
    ),
  };
}

function moveStatus(
  collection: string,
  { uid, shards }: PlacedCollection,
  { shard, from, to }: Move,
  kept: (node: string) => ReadonlyMap<string, CollectionInfo> | undefined,
): MoveStatus {
  const hasJoined = to === undefined || shards[shard].includes(to);
  const hasLeft = from === undefined || !shards[shard].includes(from);
  const sizes = shards[shard].flatMap((node) => kept(node)?.get(shardName(uid, shard))?.bytes ?? []);
  return {
    collection,
    shard,
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
    state: !hasJoined ? 'copying' : hasLeft ? 'left' : 'joined',
    ...(sizes.length > 0 ? { bytes: Math.max(...sizes) } : {}),
  };
}
