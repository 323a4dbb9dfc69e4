// The cost of a search with our own scheme: everything called "ours" in the experiments is measured
// here, with the kernels of packages/scan. Galleries are in memory, and of the stated size; one
// that would take more than half of the machine's memory is extrapolated from a part of it.

import { totalmem } from 'node:os';
import { type Kernel, openKernel, type SegmentHandle, segmentBlocks, segmentBytes } from '@hers/scan';
import {
  type BlockMatrix,
  blockMatrix,
  decodeBlock,
  decodeQuery,
  type Plan,
  type Profile,
  plainScores,
} from '@hers/scheme';
import { type CollectionKey, encryptBlock, encryptQuery, MasterSeed } from '@hers/scheme/secret';
import { identities } from '@hers/vectors/synthetic';
import type { Source } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { type Effort, minimum, stopwatch, type Time } from '../lab/timing.ts';
import { comparablePlan } from './engine-shared-mask.ts';

export interface SharedMaskOptions {
  readonly profile: Profile;
  readonly dimension: number;
  readonly threads?: number;
  /**
   * Blocks that are encrypted from different vectors; the gallery consists of copies of them. By
   * default all are different.
   */
  readonly distinct?: number;
  /**
   * Galleries beyond this many bytes are extrapolated: by default half of the machine's memory …
   */
  readonly wholeBytes?: number;
  /** … from this many. */
  readonly sampleBytes?: number;
  readonly runs?: number;
}

export interface SharedMaskTime extends Time {
  readonly source: Source;
  /** Bytes of the whole gallery, and of what was scanned to get the time. */
  readonly bytes: number;
  readonly scannedBytes: number;
}

/** Half of the memory, and never more than is free. */
function wholeLimit(): number {
  return Math.min(totalmem() / 2, 0.8 * process.availableMemory());
}

const SAMPLE_BYTES = 2e9;

/** A gallery that grows as larger ones are requested. */
export class SharedMaskGallery {
  readonly plan: Plan;
  /** Which kernel scans, for people. */
  readonly kernelDetail: string;
  readonly queryBytes: number;
  readonly responseBytes: number;
  readonly #options: SharedMaskOptions;
  readonly #kernel: Kernel;
  readonly #wholeBytes: number;
  readonly #key: CollectionKey;
  readonly #probe: Float32Array;
  readonly #query: Uint8Array;
  readonly #kept: BlockMatrix[] = [];
  readonly #segments: SegmentHandle[] = [];
  /** A whole segment of copies, once there is one: it can be loaded repeatedly. */
  #copy: Uint8Array | undefined;
  #made = 0;

  static async open(options: SharedMaskOptions): Promise<SharedMaskGallery> {
    const { kernel } = await openKernel({ warn() {}, threads: options.threads });
    return new SharedMaskGallery(options, kernel);
  }

  private constructor(options: SharedMaskOptions, kernel: Kernel) {
    const { profile, dimension } = options;
    this.#options = options;
    this.#kernel = kernel;
    // Now, before the gallery itself takes any of it.
    this.#wholeBytes = options.wholeBytes ?? wholeLimit();
    this.kernelDetail = `${kernel.name}, ${kernel.detail}`;
    this.plan = comparablePlan(dimension, profile);
    const master = MasterSeed.generate();
    this.#key = master.collectionKey(this.plan, crypto.getRandomValues(new Uint8Array(16)));
    master.wipe();
    this.#probe = identities(1, 1, dimension).gallery().vectors;
    const { query, secret } = encryptQuery(this.#key, this.#probe);
    secret.wipe();
    this.#query = query;
    this.queryBytes = query.length;
    this.responseBytes = this.plan.bytes.response;
  }

  /** Bytes that a server holds for m templates. */
  bytes(m: number): number {
    return Math.ceil(m / this.plan.capacity) * this.#blockBytes;
  }

  /**
   * The time from a query's bytes to the last response's, for a gallery of m templates: the fastest
   * of several runs.
   */
  async search(m: number): Promise<SharedMaskTime> {
    const { sampleBytes = SAMPLE_BYTES, runs = 5 } = this.#options;
    const blocks = Math.ceil(m / this.plan.capacity);
    const bytes = blocks * this.#blockBytes;
    const scanned =
      bytes <= this.#wholeBytes ? blocks : Math.max(1, Math.min(blocks, Math.floor(sampleBytes / this.#blockBytes)));
    const handles = await this.#handles(scanned);
    const last = handles.at(-1)!;
    try {
      let best = Number.POSITIVE_INFINITY;
      let cpu = 0;
      // Only the first run verifies checksums.
      for (let run = 0; run <= runs; run++) {
        const elapsed = stopwatch();
        let responses = 0;
        for await (const _ of this.#kernel.scan(handles, [decodeQuery(this.#query)])) responses++;
        const time = elapsed();
        if (run > 0) best = Math.min(best, time.seconds);
        if (run > 0) cpu += time.cpu / runs;
        if (responses !== scanned) throw new Error(`${responses} responses came for ${scanned} blocks`);
      }
      const source = scanned === blocks ? 'measured' : 'extrapolated';
      const share = blocks / scanned;
      return { seconds: best * share, cpu: cpu * share, source, bytes, scannedBytes: scanned * this.#blockBytes };
    } finally {
      if (!this.#segments.includes(last)) await this.#kernel.unload(last);
    }
  }

  /**
   * Searches what is loaded and compares the scores of one block with those in the clear. Throws if
   * they differ by more than noise.
   */
  async check(): Promise<void> {
    const [block] = await this.#blocks(0, 1);
    const handle = await this.#kernel.load({ bytes: segmentBytes([block]), name: 'check' });
    const { query, secret } = encryptQuery(this.#key, this.#probe);
    try {
      const { n } = this.plan.parameters;
      const gallery = this.#vectors(0);
      const expected = plainScores(this.plan, gallery, this.#probe);
      for await (const { response } of this.#kernel.scan([handle], [decodeQuery(query)])) {
        const { scores } = secret.decrypt(response);
        const allowed = this.plan.profile === 'exact' ? 1e-6 : 8 * this.plan.noise.score;
        if (scores.length !== n || !expected.every((score, j) => Math.abs(score - scores[j]) <= allowed)) {
          throw new Error('our scan gave wrong scores, so its time means nothing.');
        }
      }
    } finally {
      secret.wipe();
      await this.#kernel.unload(handle);
    }
  }

  /** Seconds that the client takes for the n scores of a response: the fastest of several runs. */
  async decryption(effort: Effort): Promise<number> {
    const handle = await this.#kernel.load({ bytes: segmentBytes(await this.#blocks(0, 1)), name: 'decryption' });
    const { query, secret } = encryptQuery(this.#key, this.#probe);
    try {
      let best = Number.POSITIVE_INFINITY;
      for await (const { response } of this.#kernel.scan([handle], [decodeQuery(query)]))
        best = minimum(() => secret.decrypt(response), effort).min / 1000;
      return best;
    } finally {
      secret.wipe();
      await this.#kernel.unload(handle);
    }
  }

  get #blockBytes(): number {
    const { parameters, rows } = this.plan;
    return rows * parameters.n * parameters.primes.length * 4;
  }

  /**
   * Segments of this many blocks in all. The last one may be shorter, and the caller unloads it.
   */
  async #handles(blocks: number): Promise<SegmentHandle[]> {
    const each = segmentBlocks(this.plan.parameters, this.plan.width);
    const full = Math.floor(blocks / each);
    while (this.#segments.length < full) this.#segments.push(await this.#segment(each));
    const handles = this.#segments.slice(0, full);
    const rest = blocks - full * each;
    if (rest > 0) {
      const bytes = segmentBytes(await this.#blocks(full * each, rest));
      handles.push(await this.#kernel.load({ bytes, name: 'the rest' }));
    }
    return handles;
  }

  async #segment(blocks: number): Promise<SegmentHandle> {
    const { distinct = Number.POSITIVE_INFINITY } = this.#options;
    const first = this.#segments.length * blocks;
    const name = `segment ${this.#segments.length}`;
    if (first < distinct || !this.#copy) {
      const bytes = segmentBytes(await this.#blocks(first, blocks));
      if (Number.isFinite(distinct)) this.#copy = bytes;
      return this.#kernel.load({ bytes, name });
    }
    return this.#kernel.load({ bytes: this.#copy, name });
  }

  async #blocks(first: number, count: number): Promise<BlockMatrix[]> {
    const { distinct = Number.POSITIVE_INFINITY } = this.#options;
    const out: BlockMatrix[] = [];
    for (let index = first; index < first + count; index++) {
      const kept = this.#kept[index % distinct];
      const block = kept ?? blockMatrix(decodeBlock(encryptBlock(this.#key, this.#vectors(index))));
      if (!kept) this.#made++;
      if (!kept && this.#made % 64 === 0) progress(`ours, ${this.plan.profile}: ${this.#made} blocks encrypted`);
      // In a gallery without repetitions none is kept: there may be thousands.
      if (Number.isFinite(distinct)) this.#kept[index % distinct] = block;
      out.push(block);
      await new Promise(setImmediate);
    }
    return out;
  }

  /** The templates of a block. */
  #vectors(index: number): Float32Array {
    const { n } = this.plan.parameters;
    const { dimension } = this.plan;
    return identities(n, 1, dimension, { seed: index + 1 }).gallery().vectors;
  }

  async close(): Promise<void> {
    await this.#kernel.close();
    this.#key.wipe();
  }
}
