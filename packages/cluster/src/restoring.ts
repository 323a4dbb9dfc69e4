// Restores a snapshot into shards that nobody knows until all of it has come.

import { createHash } from 'node:crypto';
import { HersError, type StageId } from '@hers/service';
import type { SnapshotHeader } from '@hers/store/snapshot';
import { stateOf } from '@hers/store/stages';
import type { PlacedCollection } from './directory.ts';
import { type ClusterNode, writeTo } from './node.ts';
import { firstOf } from './quorum.ts';
import {
  encodeHome,
  FIRST_VERSION,
  HOME,
  homeState,
  MADE,
  shardManifest,
  shardName,
  shardOf,
  shardState,
} from './shard.ts';
import type { RestoredPart } from './snapshot.ts';

/** Bytes that are committed together. */
const RESTORED_BYTES = 2 ** 25;

type Restored = Exclude<RestoredPart, { kind: 'header' }>;

/** The shards of a collection that is restored. Nobody knows them until all has come. */
export class Filling {
  readonly #node: ClusterNode;
  readonly #header: SnapshotHeader;
  readonly #make: () => Promise<PlacedCollection>;
  readonly #signal: AbortSignal;
  #placed: PlacedCollection | undefined;
  #versions: number[] = [];
  #waiting: { readonly id: Uint8Array; readonly part: Restored }[] = [];
  #bytes = 0;

  /** `make` makes the shards, when there is enough to put into them. */
  constructor(node: ClusterNode, header: SnapshotHeader, make: () => Promise<PlacedCollection>, signal: AbortSignal) {
    this.#node = node;
    this.#header = header;
    this.#make = make;
    this.#signal = signal;
  }

  /** Once the shards are made. */
  get placed(): PlacedCollection | undefined {
    return this.#placed;
  }

  async take(part: Restored): Promise<void> {
    const { id, bytes } = idOf(part);
    this.#waiting.push({ id, part });
    this.#bytes += bytes;
    if (this.#bytes >= RESTORED_BYTES) await this.#flush();
  }

  async #flush(): Promise<PlacedCollection> {
    const placed = (this.#placed ??= await this.#make());
    if (this.#versions.length === 0) this.#versions = placed.shards.map(() => FIRST_VERSION);
    const shards = new Map<number, Restored[]>();
    for (const { id, part } of this.#waiting) {
      const shard = shardOf(id, placed.shards.length);
      const parts = shards.get(shard) ?? [];
      shards.set(shard, parts);
      parts.push(part);
    }
    this.#waiting = [];
    this.#bytes = 0;
    await Promise.all([...shards].map(([shard, parts]) => this.#add(placed, shard, parts)));
    this.#signal.throwIfAborted();
    return placed;
  }

  async #add({ uid, shards }: PlacedCollection, shard: number, parts: readonly Restored[]): Promise<void> {
    const name = shardName(uid, shard);
    const replicas = shards[shard];
    const expected = this.#versions[shard]++;
    const records = parts.flatMap((part) => (part.kind === 'record' ? [part.record] : []));
    await writeTo(this.#node, replicas, async (service) => {
      const lists: StageId[] = [];
      const blocks: StageId[] = [];
      for (const part of parts) {
        if (part.kind === 'list') lists.push(await service.stageList(name, part.list));
        if (part.kind === 'block') blocks.push(await service.stageBlock(name, [part.encoded]));
      }
      const staged = records.length > 0 ? [await service.stageRecords(name, records)] : [];
      const manifest = shardManifest(expected + 1, MADE);
      await service.commit(name, { expected, manifest, records: staged, lists, blocks });
    });
  }

  /** The collection, with all that was announced. */
  async finish(): Promise<PlacedCollection> {
    const placed = await this.#flush();
    const { uid, shards } = placed;
    const sums = { records: 0, blocks: 0 };
    for (const [shard, replicas] of shards.entries()) {
      const info = await firstOf(replicas, async (node) => {
        const found = await this.#node.peers.of(node).getCollection(shardName(uid, shard));
        if (found.version < this.#versions[shard]) throw new HersError('UNAVAILABLE', `node ${node} lags`);
        return found;
      });
      sums.records += info.records;
      sums.blocks += info.blocks;
    }
    const { version, manifest, records, blocks } = this.#header;
    // A record or block that occurs twice would count as one.
    if (sums.records !== records || sums.blocks !== blocks)
      throw new HersError('MALFORMED', 'this snapshot does not hold what its header announces; nothing was restored');
    const base = Math.max(0, Math.max(...this.#versions) + 1 - version);
    const made = version + base;
    const states = this.#versions.map((each, shard) => (shard === HOME ? homeState(made) : shardState(each, MADE)));
    const home = encodeHome({ version, manifest, shards: states });
    const expected = this.#versions[HOME];
    const { state: basis } = shardState(expected, MADE);
    await writeTo(this.#node, shards[HOME], async (service) => {
      const name = shardName(uid, HOME);
      const change = await service.prepare(name, { expected, basis, version: made, manifest: home });
      return service.apply(name, { change, version: made, state: stateOf(home) });
    });
    return { ...placed, base };
  }
}

function idOf(part: Restored): { id: Uint8Array; bytes: number } {
  if (part.kind === 'record')
    return { id: part.record.handle, bytes: part.record.handle.length + part.record.sealed.length };
  if (part.kind === 'list') return { id: sha256(part.list), bytes: part.list.length };
  return { id: part.id, bytes: part.encoded.length };
}

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
