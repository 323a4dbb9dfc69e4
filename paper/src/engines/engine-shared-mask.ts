// Our own scheme as an engine: blocks of the shared-mask scheme, scanned by a kernel.

import { parameterSet, roundVectors, STEPS } from '@hers/paper';
import { type Kernel, openKernel, type SegmentHandle, segmentBlocks, segmentBytes } from '@hers/scan';
import { type Block, blockMatrix, decodeBlock, decodeQuery, type Plan, type Profile, plan } from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import type { Engine, EngineClient, EngineQuery, EngineServer, ScorePart } from './engine.ts';

export const PROFILES: readonly ['compact', 'exact'] = ['compact', 'exact'] as const satisfies readonly Profile[];

export interface SharedMaskOptions {
  readonly dimension: number;
  readonly profile: Profile;
  /**
   * A kernel to scan with, which the caller closes. By default the engine opens the fastest that
   * works.
   */
  readonly kernel?: Kernel;
}

/** The plan for what the paper compares: inner products of vectors of norm at most 1. */
export function comparablePlan(dimension: number, profile: Profile): Plan {
  return plan({ dimension, profile, metric: 'dot', normBound: 1 });
}

export async function openSharedMask(options: SharedMaskOptions): Promise<Engine> {
  const { dimension, profile, kernel } = options;
  const chosen = comparablePlan(dimension, profile);
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
  /** The first template of each block. */
  readonly #starts: number[] = [];
  #size = 0;

  constructor(plan: Plan) {
    const master = MasterSeed.generate();
    this.#key = master.collectionKey(plan, crypto.getRandomValues(new Uint8Array(16)));
    master.wipe();
  }

  *enrol(vectors: Float64Array): Generator<Uint8Array> {
    const { dimension, parameters, steps } = this.#key.plan;
    // The paper rounds to 1/250: under exact, those integers are what is encrypted.
    const given = steps > 0 ? rounded(vectors, dimension) : vectors;
    for (let at = 0; at < given.length; at += parameters.n * dimension) {
      const part = given.subarray(at, at + parameters.n * dimension);
      this.#starts.push(this.#size);
      this.#size += part.length / dimension;
      yield encryptBlock(this.#key, part);
    }
  }

  query(vector: ArrayLike<number>): EngineQuery {
    const { dimension, steps } = this.#key.plan;
    const given = steps > 0 ? Array.from(rounded(Float64Array.from(vector), dimension), (x) => x / steps) : vector;
    const { query, secret } = encryptQuery(this.#key, given);
    const starts = this.#starts;
    return {
      bytes: query,
      read(response): ScorePart {
        const { block, bytes } = readNumbered(response);
        const { scores, integers } = secret.decrypt(bytes);
        return {
          first: starts[block],
          integers: integers ?? Int32Array.from(scores, (score) => Math.round(score * STEPS ** 2)),
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
    this.#blocks.push(block);
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

function rounded(vectors: Float64Array, dimension: number): Int32Array {
  return roundVectors(parameterSet('bfv_n_4096_t_1032193'), vectors, dimension);
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
