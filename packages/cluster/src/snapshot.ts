// Snapshots of a collection that lies on many nodes, in the format of a folder, both ways: one of a
// cluster can be restored into a folder, and one of a folder into a cluster.

import { createHash } from 'node:crypto';
import { HANDLE_BYTES, HersError, type StageId, unframe } from '@hers/service';
import {
  decodeSnapshotHeader,
  encodeSnapshotHeader,
  Frames,
  HashedStream,
  MAX_FRAME_BYTES,
  malformed,
  PART,
  type SnapshotHeader,
  type SnapshotPart,
} from '@hers/store/snapshot';
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

const broken = () => new HersError('UNAVAILABLE', 'a shard broke off in the middle of its snapshot; take it again');

/** One shard's snapshot: its header has been read, and the rest comes as it is taken. */
export class ShardSnapshot {
  readonly header: SnapshotHeader;
  readonly #frames: AsyncGenerator<Uint8Array>;
  readonly #stream: HashedStream;

  private constructor(header: SnapshotHeader, frames: AsyncGenerator<Uint8Array>, stream: HashedStream) {
    this.header = header;
    this.#frames = frames;
    this.#stream = stream;
  }

  static async begin(pieces: AsyncIterable<Uint8Array>): Promise<ShardSnapshot> {
    const stream = new HashedStream();
    const frames = unframe(stream.pass(pieces), MAX_FRAME_BYTES);
    const first = await frames.next();
    if (first.done) throw broken();
    return new ShardSnapshot(decodeSnapshotHeader(first.value), frames, stream);
  }

  async *parts(): AsyncGenerator<{ readonly kind: number; readonly content: Uint8Array }> {
    let announced: Uint8Array | undefined;
    for await (const frame of this.#frames) {
      if (announced) throw broken();
      if (frame[0] === PART.end) announced = frame.subarray(1);
      else yield { kind: frame[0], content: frame.subarray(1) };
    }
    const digest = this.#stream.digest();
    if (!announced || Buffer.compare(announced, digest) !== 0) throw broken();
  }

  async end(): Promise<void> {
    await this.#frames.return(undefined).catch(() => {});
  }
}

/** The snapshots of all shards, of one version of the collection, as one. */
export async function* joinSnapshots(
  header: Pick<SnapshotHeader, 'version' | 'manifest'>,
  shards: readonly ShardSnapshot[],
): AsyncGenerator<Uint8Array> {
  const { id, descriptor } = shards[0].header;
  const sum = (field: 'records' | 'lists' | 'blocks') =>
    shards.reduce((total, shard) => total + shard.header[field], 0);
  const frames = new Frames();
  const whole = { ...header, id, descriptor, records: sum('records'), lists: sum('lists'), blocks: sum('blocks') };
  yield* frames.put(undefined, encodeSnapshotHeader(whole));
  for (const shard of shards) for await (const { kind, content } of shard.parts()) yield* frames.put(kind, content);
  yield frames.end();
}

/** Bytes that are committed together. */
const RESTORED_BYTES = 2 ** 25;

type Restored = Exclude<SnapshotPart, { kind: 'header' }>;

/** The shards of a collection that is restored. Nobody knows them until all has come. */
export class Filling {
  readonly #node: ClusterNode;
  readonly #header: SnapshotHeader;
  readonly #make: () => Promise<PlacedCollection>;
  readonly #signal: AbortSignal;
  /** Once the shards are made. */
  placed: PlacedCollection | undefined;
  #versions: number[] = [];
  #waiting: Restored[] = [];
  #bytes = 0;

  /** `make` makes the shards, when there is enough to put into them. */
  constructor(node: ClusterNode, header: SnapshotHeader, make: () => Promise<PlacedCollection>, signal: AbortSignal) {
    this.#node = node;
    this.#header = header;
    this.#make = make;
    this.#signal = signal;
  }

  async take(part: Restored): Promise<void> {
    this.#waiting.push(part);
    this.#bytes += (part.kind === 'block' ? part.encoded : part.content).length;
    if (this.#bytes >= RESTORED_BYTES) await this.#flush();
  }

  async #flush(): Promise<PlacedCollection> {
    const placed = (this.placed ??= await this.#make());
    if (this.#versions.length === 0) this.#versions = placed.shards.map(() => FIRST_VERSION);
    const shards = Map.groupBy(this.#waiting, (part) => shardOf(idOf(part), placed.shards.length));
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
    const records = parts
      .filter((part) => part.kind === 'record')
      .map(({ content }) => ({ handle: content.subarray(0, HANDLE_BYTES), sealed: content.subarray(HANDLE_BYTES) }));
    await writeTo(this.#node, replicas, async (service) => {
      const lists: StageId[] = [];
      const blocks: StageId[] = [];
      for (const part of parts) {
        if (part.kind === 'list') lists.push(await service.stageList(name, part.content));
        if (part.kind === 'block') blocks.push(await service.stageBlock(name, [part.encoded]));
      }
      const staged = records.length > 0 ? [await service.stageRecords(name, records)] : [];
      const manifest = shardManifest(expected + 1, MADE);
      await service.commit(name, { expected, manifest, records: staged, lists, blocks });
    });
  }

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
    if (sums.records !== records || sums.blocks !== blocks) throw malformed('does not hold what its header announces');
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

function idOf(part: Restored): Uint8Array {
  if (part.kind === 'block') return part.block.blockId;
  return part.kind === 'record' ? part.content.subarray(0, HANDLE_BYTES) : sha256(part.content);
}

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
