// What is staged goes to the shards that it belongs to, each time to a majority of their replicas.

import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { decodeBlock } from '@hers/scheme';
import {
  type CallOptions,
  eitherSignal,
  HersError,
  isOf,
  type Many,
  notHeld,
  type Partitions,
  type SealedRecord,
  type StageId,
} from '@hers/service';
import { checkBytes, isCode } from './arguments.ts';
import type { Collections } from './collections.ts';
import type { PlacedCollection } from './directory.ts';
import { type ClusterNode, writeTo } from './node.ts';
import { type ShardService, shardName, shardOf } from './shard.ts';

/** Records gathered before they go to the shards, in bytes. */
const GATHERED_BYTES = 2 ** 26;

export class Staging {
  readonly #node: ClusterNode;
  readonly #collections: Collections;
  /** Known to all nodes and to nobody else. */
  readonly #secret: string;

  constructor(node: ClusterNode, collections: Collections, secret: string) {
    this.#node = node;
    this.#collections = collections;
    this.#secret = secret;
  }

  async #put(
    { uid, shards }: PlacedCollection,
    shard: number,
    call: (service: ShardService, name: string) => Promise<StageId>,
  ): Promise<ShardStage> {
    const name = shardName(uid, shard);
    try {
      const stage = await writeTo(this.#node, shards[shard], (service, node) =>
        this.#node.peers.inOrder(node, name, false, () => call(service, name)),
      );
      return { shard, stage };
    } catch (error) {
      throw isCode(error, 'NOT_FOUND') ? await this.#collections.whyMissing(uid) : error;
    }
  }

  async records(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId> {
    const placed = await this.#collections.find(name);
    using either = eitherSignal(this.#collections.closing, options?.signal);
    const { signal } = either;
    const parts: ShardStage[] = [];
    let gathered = new Map<number, SealedRecord[]>();
    let bytes = 0;
    const flush = async () => {
      const all = [...gathered];
      const held = bytes;
      gathered = new Map();
      bytes = 0;
      try {
        parts.push(
          ...(await Promise.all(
            all.map(([shard, some]) =>
              this.#put(placed, shard, (service, shardName) => service.stageRecords(shardName, some, { signal })),
            ),
          )),
        );
      } finally {
        options?.hold?.(-held);
      }
      signal.throwIfAborted();
    };
    try {
      for await (const { handle, sealed } of records) {
        signal.throwIfAborted();
        checkBytes(handle, 'a handle', 16);
        checkBytes(sealed, 'a sealed record');
        if (options?.partitions && !isOf(options.partitions, sealed)) throw notHeld('a record of another partition');
        const shard = shardOf(handle, placed.shards.length);
        const some = gathered.get(shard) ?? [];
        gathered.set(shard, some);
        // What comes may be a view of a buffer that is used again.
        some.push({ handle: handle.slice(), sealed: sealed.slice() });
        options?.hold?.(handle.length + sealed.length);
        bytes += handle.length + sealed.length;
        if (bytes >= GATHERED_BYTES) await flush();
      }
      signal.throwIfAborted();
      await flush();
      // Nothing was staged, and the collection may not even be there.
      if (parts.length === 0) await this.#collections.current(name, signal);
      return this.#named(placed, 'records', parts, options);
    } finally {
      if (bytes > 0) options?.hold?.(-bytes);
    }
  }

  #named({ uid }: PlacedCollection, kind: StageKind, parts: readonly ShardStage[], options?: CallOptions): StageId {
    return nameStage(this.#secret, uid, kind, parts, options?.partitions);
  }

  async list(name: string, sealed: Uint8Array, options?: CallOptions): Promise<StageId> {
    const placed = await this.#collections.find(name);
    checkBytes(sealed, 'a sealed list');
    if (options?.partitions && !isOf(options.partitions, sealed)) throw notHeld('a list of another partition');
    const id = sha256(sealed);
    const part = await this.#put(placed, shardOf(id, placed.shards.length), (service, shard) =>
      service.stageList(shard, sealed),
    );
    return this.#named(placed, 'list', [part], options);
  }

  async block(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId> {
    const placed = await this.#collections.find(name);
    using either = eitherSignal(this.#collections.closing, options?.signal);
    const { signal } = either;
    signal.throwIfAborted();
    const parts: Uint8Array[] = [];
    for await (const piece of pieces) {
      signal.throwIfAborted();
      checkBytes(piece, 'a piece of a block');
      parts.push(piece);
    }
    const encoded = new Uint8Array(Buffer.concat(parts));
    options?.hold?.(encoded.length);
    try {
      const { blockId } = decodeBlock(encoded);
      if (options?.partitions && !isOf(options.partitions, blockId)) throw notHeld('a block of another partition');
      const part = await this.#put(placed, shardOf(blockId, placed.shards.length), (service, shard) =>
        service.stageBlock(shard, [encoded], { signal }),
      );
      signal.throwIfAborted();
      return this.#named(placed, 'block', [part], options);
    } finally {
      options?.hold?.(-encoded.length);
    }
  }

  /** Which shards have what was staged by this name. */
  read(
    { uid, shards }: PlacedCollection,
    kind: StageKind,
    stage: StageId,
    partitions: Partitions | undefined,
  ): readonly ShardStage[] {
    const found = readStage(this.#secret, uid, kind, stage, partitions);
    if (found.some(({ shard }) => shard >= shards.length))
      throw new HersError('NOT_FOUND', 'this was never staged here');
    return found;
  }
}

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());

// What a client calls something that it has staged in a cluster: its kind, and for every shard that
// it went to the name that the shard gave it. Any node understands it. For a caller that is held to
// partitions, an authentication code binds it to them: nobody else who is held can commit it.

export type StageKind = 'records' | 'list' | 'block';

export interface ShardStage {
  readonly shard: number;
  readonly stage: StageId;
}

/** Longer ones are not taken by servers. */
const MAX_LETTERS = 8192;
const SHAPE = /^(records|list|block)\/([0-9]+:[\w-]{43}(?:,[0-9]+:[\w-]{43})*)?(?:\/([\w-]{43}))?$/;

function codeOf(secret: string, uid: string, plain: string, partitions: Partitions): string {
  if (secret === '')
    throw new HersError('FORBIDDEN', 'tokens of partitions need a cluster whose nodes have a token of their own');
  const bound = JSON.stringify([uid, plain, [...partitions].sort()]);
  return createHmac('sha256', secret).update(bound).digest('base64url');
}

function nameStage(
  secret: string,
  uid: string,
  kind: StageKind,
  parts: readonly ShardStage[],
  partitions: Partitions | undefined,
): StageId {
  const plain = `${kind}/${parts.map(({ shard, stage }) => `${shard}:${stage}`).join()}`;
  const name = partitions ? `${plain}/${codeOf(secret, uid, plain, partitions)}` : plain;
  if (name.length > MAX_LETTERS)
    throw new HersError('TOO_LARGE', 'so many records at a time cannot be staged in a cluster; stage fewer');
  return name;
}

/** NOT_FOUND for what is no such name, or was staged by somebody else than this caller. */
function readStage(
  secret: string,
  uid: string,
  kind: StageKind,
  name: StageId,
  partitions: Partitions | undefined,
): ShardStage[] {
  const [, found, parts, code] = SHAPE.exec(name) ?? [];
  const notStaged = () => new HersError('NOT_FOUND', 'this was never staged here, or no longer is; stage it again');
  if (!found) throw notStaged();
  if (found !== kind)
    throw new HersError('INVALID_ARGUMENT', `a staged ${found} was given where a staged ${kind} belongs`);
  if (partitions) {
    const expected = codeOf(secret, uid, `${found}/${parts ?? ''}`, partitions);
    if (code === undefined || !timingSafeEqual(Buffer.from(code), Buffer.from(expected))) throw notStaged();
  }
  const stages = (parts ?? '')
    .split(',')
    .filter((part) => part !== '')
    .map((part) => {
      const [shard, stage] = part.split(':');
      return { shard: Number(shard), stage };
    });
  // Records go to many shards, or none; a list or a block goes to one.
  if (kind !== 'records' && stages.length !== 1) throw notStaged();
  return stages;
}
