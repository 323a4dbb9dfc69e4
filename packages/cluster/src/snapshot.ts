// Snapshots of a collection that lies on many nodes, in the format of a folder, both ways: one of a
// cluster can be restored into a folder, and one of a folder into a cluster.

import { createHash } from 'node:crypto';
import { decodeBlock } from '@hers/scheme';
import { HANDLE_BYTES, HersError, type Many, type SealedRecord, type StageId, unframe } from '@hers/service';
import {
  decodeSnapshotHeader,
  encodeSnapshotHeader,
  Frames,
  HashedStream,
  MAX_FRAME_BYTES,
  PART,
  type SnapshotHeader,
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
const malformed = (what: string) => new HersError('MALFORMED', `this snapshot ${what}; nothing was restored`);

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

  /** What it holds: the kind of each part, and its content. */
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

export type RestoredPart =
  | { readonly kind: 'header'; readonly header: SnapshotHeader }
  | { readonly kind: 'record'; readonly record: SealedRecord }
  | { readonly kind: 'list'; readonly list: Uint8Array }
  | { readonly kind: 'block'; readonly id: Uint8Array; readonly encoded: Uint8Array };

export async function* readSnapshot(pieces: Many<Uint8Array>): AsyncGenerator<RestoredPart> {
  const stream = new HashedStream();
  let header: SnapshotHeader | undefined;
  let announced: Uint8Array | undefined;
  let block: Uint8Array[] = [];
  const left = { records: 0, lists: 0, blocks: 0 };
  const count = (what: keyof typeof left) => {
    if (left[what]-- === 0) throw malformed(`holds more ${what} than it announces`);
  };
  for await (const frame of unframe(stream.pass(pieces), MAX_FRAME_BYTES)) {
    if (announced) throw malformed('goes on behind its end');
    if (!header) {
      header = decodeSnapshotHeader(frame);
      Object.assign(left, { records: header.records, lists: header.lists, blocks: header.blocks });
      yield { kind: 'header', header };
      continue;
    }
    const [kind] = frame;
    const content = frame.subarray(1);
    if (block.length > 0 && kind !== PART.blockPiece && kind !== PART.blockEnd) throw malformed('breaks off a block');
    if (kind === PART.end) announced = content;
    else if (kind === PART.record) {
      count('records');
      if (content.length < HANDLE_BYTES) throw malformed('holds a record without a handle');
      const [handle, sealed] = [content.subarray(0, HANDLE_BYTES), content.subarray(HANDLE_BYTES)];
      yield { kind: 'record', record: { handle, sealed } };
    } else if (kind === PART.list) {
      count('lists');
      yield { kind: 'list', list: content };
    } else if (kind === PART.blockPiece || kind === PART.blockEnd) {
      if (content.length === 0) throw malformed('holds an empty piece of a block');
      block.push(content);
      if (kind === PART.blockPiece) continue;
      count('blocks');
      const encoded = new Uint8Array(Buffer.concat(block));
      block = [];
      yield { kind: 'block', id: blockIdOf(encoded), encoded };
    } else throw malformed('holds something unknown');
  }
  if (!header || !announced) throw malformed('is cut off');
  if (Buffer.compare(announced, stream.digest()) !== 0) throw malformed('was altered on the way');
  if (left.records + left.lists + left.blocks > 0) throw malformed('does not hold what its header announces');
}

function blockIdOf(encoded: Uint8Array): Uint8Array {
  try {
    return decodeBlock(encoded).blockId;
  } catch (error) {
    if (!(error instanceof HersError)) throw error;
    const code = error.code === 'UNSUPPORTED_VERSION' ? error.code : 'MALFORMED';
    throw new HersError(code, `a block in this snapshot cannot be read (${error.message}); nothing was restored`);
  }
}

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
    const shards = Map.groupBy(this.#waiting, ({ id }) => shardOf(id, placed.shards.length));
    this.#waiting = [];
    this.#bytes = 0;
    const add = ([shard, some]: [number, { part: Restored }[]]) =>
      this.#add(
        placed,
        shard,
        some.map(({ part }) => part),
      );
    await Promise.all([...shards].map(add));
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
