// The server of Algorithms 6 and 7: it has ciphertexts and evaluation keys, adds and multiplies,
// and learns nothing. Everything that reaches it is bytes.

import type { Ciphertext } from 'node-seal';
import { type Bundle, decodeBundle, encodeBundle } from './bundle.ts';
import { checkDimension } from './client.ts';
import type { Counts, Traffic } from './complexity.ts';
import type { Context } from './context.ts';
import type { Encoding, Relinearisation } from './encoding.ts';
import { PaperError } from './errors.ts';
import type { Scope } from './heap.ts';
import { EvaluationKeys } from './keys.ts';
import { answerLabels, decodeLabels } from './labels.ts';
import { ciphertextBytes } from './parameters.ts';
import { Primitives } from './primitives.ts';

export interface ServerOptions {
  readonly dimension: number;
  /** After every product, as published, unless given. */
  readonly relinearise?: Relinearisation;
  /** Whether sums begin with an encryption of zero (see `ScoreOptions`). */
  readonly zeroStart?: boolean;
  /**
   * Whether responses are reduced to one prime before they are sent, which is not published: half
   * the bytes.
   */
  readonly switchModulus?: boolean;
  /** How many templates will come: refuses now, and not halfway, when they will not fit. */
  readonly templates?: number;
}

export interface PaperSearchOptions {
  /** Blocks to score, by their index; all of them unless given. */
  readonly blocks?: Iterable<number>;
}

interface Block {
  readonly scope: Scope;
  /** D_1 … D_d of Algorithm 6. */
  readonly ciphertexts: readonly Ciphertext[];
}

export class PaperServer implements Disposable {
  readonly encoding: Encoding;
  readonly dimension: number;
  readonly traffic: Traffic;
  readonly #context: Context;
  readonly #keys: EvaluationKeys;
  readonly #options: { dimension: number; relinearise: Relinearisation; zeroStart: boolean };
  readonly #switchModulus: boolean;
  readonly #enrolling: Primitives;
  readonly #searching: Primitives;
  readonly #blocks: Block[] = [];
  /** The label set of Algorithm 6, in the order of the gallery; empty where nobody gave ids. */
  readonly #labels: number[] = [];
  #size = 0;
  #closed = false;

  constructor(context: Context, encoding: Encoding, keys: Uint8Array, options: ServerOptions) {
    const { dimension, relinearise = 'each', zeroStart = false, switchModulus = false, templates } = options;
    checkDimension(dimension);
    encoding.check(dimension, context.parameters.n);
    if (relinearise !== 'each' && relinearise !== 'once') {
      throw new PaperError('INVALID_ARGUMENT', 'relinearise must be each or once');
    }
    this.#context = context;
    this.encoding = encoding;
    this.dimension = dimension;
    this.#options = { dimension, relinearise, zeroStart };
    this.#switchModulus = switchModulus;
    if (templates !== undefined) {
      const blocks = Math.ceil(templates / this.#capacity);
      context.heap.reserve((blocks + 1) * this.#each, `a gallery of ${templates.toLocaleString('en-GB')} templates`);
    }
    this.traffic = { keys: keys.length, uploads: 0, queries: 0, responses: 0 };
    this.#keys = new EvaluationKeys(context, keys);
    this.#enrolling = new Primitives(context, this.#keys);
    this.#searching = new Primitives(context, this.#keys);
  }

  /** Templates in the gallery. */
  get size(): number {
    return this.#size;
  }

  /** Operations so far. Those of searches are what the paper's Table 2 counts. */
  get counts(): { readonly enrolment: Readonly<Counts>; readonly search: Readonly<Counts> } {
    return { enrolment: this.#enrolling.counts, search: this.#searching.counts };
  }

  /** Bytes of the gallery in memory. */
  get galleryBytes(): number {
    return this.#blocks.length * this.#each * ciphertextBytes(this.#context.parameters);
  }

  /** Templates, and ciphertexts, of a block. */
  get #capacity(): number {
    return this.encoding.capacity(this.#context.parameters.n);
  }

  get #each(): number {
    return this.encoding.ciphertexts(this.dimension);
  }

  /**
   * Algorithm 6, the server's part. A block begins as encryptions of zero, to which uploads are
   * added; one that fills a whole block is taken as it is. (As printed, the algorithm drops what
   * arrives at the moment a block is opened; it is added here.)
   */
  enrol(upload: Uint8Array): void {
    const bundle = this.#accept(upload, 'upload');
    const { first, count } = bundle;
    const slot = first % this.#capacity;
    if (first !== this.#size || count < 1 || slot + count > this.#capacity) {
      throw new PaperError(
        'MALFORMED',
        `an upload for templates ${first} to ${first + count - 1} cannot follow ${this.#size} templates`,
      );
    }
    const labels = this.#labelsOf(bundle);
    if (count === this.#capacity) this.#blocks.push(this.#read(bundle));
    else this.#addTo(slot === 0 ? undefined : this.#blocks.at(-1), bundle);
    for (const label of labels) this.#labels.push(label);
    this.#size += count;
    this.traffic.uploads += upload.length;
  }

  /** A gallery has ids for all of its templates, or for none. */
  #labelsOf({ parts, count }: Bundle): number[] {
    const bytes = parts[this.#each];
    if (this.#size > 0 && (bytes === undefined) !== (this.#labels.length === 0))
      throw new PaperError(
        'INVALID_ARGUMENT',
        `the ${this.#size} templates so far have ${bytes ? 'no ids, and this upload has' : 'ids, and this upload has none'}; give ids for all templates or for none`,
      );
    return bytes === undefined ? [] : decodeLabels(bytes, count);
  }

  /** Answers a request that `askLabels` made: the labels of the templates it names. */
  labels(request: Uint8Array): Uint8Array {
    if (this.#closed) throw new PaperError('CLOSED', 'the server has been closed');
    return answerLabels(request, this.#labels);
  }

  #addTo(open: Block | undefined, bundle: Bundle): void {
    // All of it is read before anything is added, so that a broken upload leaves the block as it
    // was.
    const upload = this.#read(bundle);
    try {
      const block = open ?? this.#zeros();
      block.ciphertexts.forEach((sum, i) => this.#enrolling.add(sum, upload.ciphertexts[i]));
      if (!open) this.#blocks.push(block);
    } finally {
      upload.scope[Symbol.dispose]();
    }
  }

  #read({ parts }: Bundle): Block {
    return this.#make((ciphertext, i) => this.#context.load(ciphertext, parts[i]));
  }

  #zeros(): Block {
    return this.#make((ciphertext) => this.#enrolling.encryptZero(ciphertext));
  }

  #make(write: (ciphertext: Ciphertext, i: number) => void): Block {
    const { heap } = this.#context;
    heap.reserve(
      this.#each,
      `${this.encoding.name} with ${this.#size.toLocaleString('en-GB')} templates and a further block`,
    );
    const scope = heap.scope();
    try {
      const ciphertexts = Array.from({ length: this.#each }, (_, i) => {
        const ciphertext = scope.ciphertext();
        write(ciphertext, i);
        return ciphertext;
      });
      return { scope, ciphertexts };
    } catch (error) {
      scope[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Algorithm 7, the server's part: yields one response for every block, as soon as it is ready.
   */
  *search(query: Uint8Array, { blocks = this.#blocks.keys() }: PaperSearchOptions = {}): Generator<Uint8Array> {
    const probe = this.#read(this.#accept(query, 'query'));
    using _probe = probe.scope;
    this.traffic.queries += query.length;
    using scope = this.#context.heap.scope();
    const scratch = { sum: scope.ciphertext(), product: scope.ciphertext() };
    for (const index of blocks) {
      const block = this.#blocks[index];
      if (this.#closed || !block) {
        throw new PaperError(
          this.#closed ? 'CLOSED' : 'INVALID_ARGUMENT',
          this.#closed ? 'the server has been closed' : `there is no block ${index}`,
        );
      }
      this.encoding.score(this.#searching, probe.ciphertexts, block.ciphertexts, scratch, this.#options);
      if (this.#switchModulus) this.#searching.switchModulus(scratch.sum);
      const first = index * this.#capacity;
      const count = Math.min(this.#capacity, this.#size - first);
      const parts = [this.#context.save(scratch.sum)];
      const response = encodeBundle({
        kind: 'response',
        encoding: this.encoding.id,
        dimension: this.dimension,
        first,
        count,
        parts,
      });
      this.traffic.responses += response.length;
      yield response;
    }
  }

  #accept(bytes: Uint8Array, kind: 'upload' | 'query'): Bundle {
    if (this.#closed) throw new PaperError('CLOSED', 'the server has been closed');
    const bundle = decodeBundle(bytes, kind);
    if (bundle.encoding !== this.encoding.id || bundle.dimension !== this.dimension) {
      throw new PaperError(
        'MALFORMED',
        `this ${kind} is for another encoding or dimension than ${this.encoding.name} with ${this.dimension}`,
      );
    }
    const hasLabels = kind === 'upload' && bundle.parts.length === this.#each + 1;
    if (bundle.parts.length !== this.#each && !hasLabels) {
      throw new PaperError(
        'MALFORMED',
        `this ${kind} has ${bundle.parts.length} ciphertexts and should have ${this.#each}`,
      );
    }
    return bundle;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const { scope } of this.#blocks.splice(0)) scope[Symbol.dispose]();
    this.#keys[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
