// Our own scheme as an engine: blocks of the shared-mask scheme, scanned by a kernel.

import { type Kernel, openKernel, type SegmentHandle, segmentBlocks, segmentBytes } from '@hers/scan';
import {
  addBlocks,
  type Block,
  blockMatrix,
  decodeBlock,
  decodeQuery,
  type Plan,
  type Profile,
  plan,
} from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import type { Engine, EngineClient, EngineQuery, EngineServer, ScorePart } from './engine.ts';

export const PROFILES: readonly ['compact', 'exact'] = ['compact', 'exact'] as const satisfies readonly Profile[];

export interface SharedMaskOptions {
  readonly dimension: number;
  readonly profile: Profile;
  /** Online enrolment needs room for additions; 1 is for blocks that are encrypted at once. */
  readonly maxAdditions?: number;
  /**
   * A kernel to scan with, which the caller closes. By default the engine opens the fastest that
   * works.
   */
  readonly kernel?: Kernel;
}

/**
 * The plan under which both engines round alike: inner products of vectors of norm at most 1. The
 * paper rounds to 1/250, so exact means that here.
 */
export function comparablePlan(dimension: number, profile: Profile, maxAdditions = 1): Plan {
  const alike = profile === 'exact' ? 'exact-250' : profile;
  return plan({ dimension, profile: alike, metric: 'dot', normBound: 1, maxAdditions });
}

export async function openSharedMask(options: SharedMaskOptions): Promise<Engine> {
  const { dimension, profile, maxAdditions, kernel } = options;
  const chosen = comparablePlan(dimension, profile, maxAdditions);
  const client = new SharedMaskClient(chosen);
  const opened = kernel ? undefined : (await openKernel({ warn() {} })).kernel;
  const server = new SharedMaskServer(chosen, kernel ?? opened!);
  return {
    name: `shared-mask-${profile}`,
    exact: profile === 'exact',
    client,
    server,
    async close() {
      client.close();
      await server.close();
      await opened?.close();
    },
  };
}

class SharedMaskClient implements EngineClient {
  readonly keys = new Uint8Array();
  readonly #key: CollectionKey;
  #size = 0;

  constructor(plan: Plan) {
    const master = MasterSeed.generate();
    this.#key = master.collectionKey(plan, crypto.getRandomValues(new Uint8Array(16)));
    master.wipe();
  }

  *enrol(vectors: Float64Array): Generator<Uint8Array> {
    const { dimension, parameters } = this.#key.plan;
    for (let at = 0; at < vectors.length; ) {
      const first = this.#size % parameters.n;
      const part = vectors.subarray(at, at + (parameters.n - first) * dimension);
      this.#size += part.length / dimension;
      at += part.length;
      yield encryptBlock(this.#key, part, { first });
    }
  }

  query(vector: ArrayLike<number>): EngineQuery {
    const { n } = this.#key.plan.parameters;
    const { query, secret } = encryptQuery(this.#key, vector);
    return {
      bytes: query,
      read(response): ScorePart {
        const { block, bytes } = readNumbered(response);
        const { scores, integers } = secret.decrypt(bytes);
        return {
          first: block * n,
          integers: integers ?? Int32Array.from(scores, (score) => Math.round(score * 250 ** 2)),
        };
      },
      close: () => secret.wipe(),
    };
  }

  close(): void {
    this.#key.wipe();
  }
}

class SharedMaskServer implements EngineServer {
  readonly #plan: Plan;
  readonly #kernel: Kernel;
  readonly #blocks: Block[] = [];
  #handles: SegmentHandle[] = [];
  #size = 0;

  constructor(plan: Plan, kernel: Kernel) {
    this.#plan = plan;
    this.#kernel = kernel;
  }

  get size(): number {
    return this.#size;
  }

  get galleryBytes(): number {
    const { n, primes } = this.#plan.parameters;
    return this.#blocks.length * this.#plan.rows * n * primes.length * 4;
  }

  async enrol(upload: Uint8Array): Promise<void> {
    const block = decodeBlock(upload);
    if (block.first === 0) this.#blocks.push(block);
    else this.#blocks.push(addBlocks(this.#blocks.pop()!, block, this.#plan.maxAdditions));
    this.#size += block.count;
    await this.#unload();
  }

  async *search(query: Uint8Array): AsyncGenerator<Uint8Array> {
    if (this.#handles.length === 0) await this.#load();
    const each = segmentBlocks(this.#plan.parameters, this.#plan.width);
    for await (const { handle, block, response } of this.#kernel.scan(this.#handles, [decodeQuery(query)])) {
      yield numbered(this.#handles.indexOf(handle) * each + block, response);
    }
  }

  async #load(): Promise<void> {
    const each = segmentBlocks(this.#plan.parameters, this.#plan.width);
    for (let at = 0; at < this.#blocks.length; at += each) {
      const bytes = segmentBytes(this.#blocks.slice(at, at + each).map(blockMatrix));
      this.#handles.push(await this.#kernel.load({ bytes, name: `segment ${this.#handles.length}` }));
    }
  }

  async #unload(): Promise<void> {
    for (const handle of this.#handles.splice(0)) await this.#kernel.unload(handle);
  }

  async close(): Promise<void> {
    await this.#unload();
    this.#blocks.length = 0;
  }
}

/** A response and the number of its block: this client keeps no list of block ids. */
function numbered(block: number, response: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(4 + response.length);
  new DataView(bytes.buffer).setUint32(0, block, true);
  bytes.set(response, 4);
  return bytes;
}

function readNumbered(bytes: Uint8Array): { block: number; bytes: Uint8Array } {
  return { block: new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true), bytes: bytes.subarray(4) };
}
