// The client of Algorithms 6 and 7: it has the keys, rounds and encrypts templates and queries, and
// decrypts scores. Everything that leaves it is bytes.

import { decodeBundle, encodeBundle } from './bundle.ts';
import type { Context } from './context.ts';
import type { Encoding } from './encoding.ts';
import { PaperError } from './errors.ts';
import { ClientKeys, type Encryption } from './keys.ts';
import { encodeLabels } from './labels.ts';
import { type PaperVectors, roundVectors } from './rounding.ts';

export interface ClientOptions {
  readonly dimension: number;
  readonly encryption?: Encryption;
  /** Keys to use, which stay the caller's; the client makes its own unless given. */
  readonly keys?: ClientKeys;
}

/** Scores of consecutive templates. */
export interface ScorePart {
  /** Index of the first of them in the gallery. */
  readonly first: number;
  /** Inner products of the rounded vectors, in steps of 0.004². */
  readonly integers: Int32Array;
}

export interface PaperQuery {
  /** What the server gets. */
  readonly bytes: Uint8Array;
  /** Decrypts one of the server's responses. */
  read(response: Uint8Array): ScorePart;
  close(): void;
}

export class PaperClient implements Disposable {
  readonly encoding: Encoding;
  readonly dimension: number;
  readonly #context: Context;
  readonly #keys: ClientKeys;
  readonly #ownsKeys: boolean;
  readonly #slots: BigInt64Array;
  /** The database index k of Algorithm 6: templates enrolled so far. */
  #size = 0;

  constructor(context: Context, encoding: Encoding, { dimension, encryption, keys }: ClientOptions) {
    checkDimension(dimension);
    const { n } = context.parameters;
    encoding.check(dimension, n);
    this.#context = context;
    this.encoding = encoding;
    this.dimension = dimension;
    this.#slots = new BigInt64Array(n);
    this.#ownsKeys = keys === undefined;
    const rotations = encoding.rotations(dimension);
    this.#keys = keys ?? new ClientKeys(context, { rotations, ...(encryption ? { encryption } : {}) });
  }

  /** What the server needs once, before anything else. */
  get keys(): Uint8Array {
    return this.#keys.evaluationKeys;
  }

  get size(): number {
    return this.#size;
  }

  /**
   * Algorithm 6, the client's part: encrypts templates for the slots that follow those enrolled so
   * far. Yields an upload for every block they touch; each has to reach the server, in order. One
   * template at a time is online enrolment, many at once a batch. `ids`, one for each template, go
   * into the server's label set, in the clear.
   */
  enrol(vectors: PaperVectors, ids?: readonly number[]): Generator<Uint8Array> {
    const rounded = roundVectors(this.#context.parameters, vectors, this.dimension);
    if (ids !== undefined && ids.length * this.dimension !== rounded.length)
      throw new PaperError(
        'INVALID_ARGUMENT',
        `there are ${ids.length} ids for ${rounded.length / this.dimension} templates; give one for each`,
      );
    return this.#uploads(rounded, ids && encodeLabels(ids));
  }

  *#uploads(rounded: Int32Array, labels: Uint8Array | undefined): Generator<Uint8Array> {
    const { encoding, dimension } = this;
    const all = rounded.length / dimension;
    const capacity = encoding.capacity(this.#context.parameters.n);
    for (let at = 0; at < rounded.length; ) {
      const first = this.#size;
      const slot = first % capacity;
      const templates = rounded.subarray(at, at + (capacity - slot) * dimension);
      const count = templates.length / dimension;
      const parts = this.#encrypt(encoding.ciphertexts(dimension), (i) =>
        encoding.writeBlock(this.#slots, templates, dimension, i, slot),
      );
      if (labels) {
        const [from, each] = [at / dimension, labels.length / all];
        parts.push(labels.subarray(from * each, (from + count) * each));
      }
      at += templates.length;
      this.#size += count;
      yield encodeBundle({ kind: 'upload', encoding: encoding.id, dimension, first, count, parts });
    }
  }

  /** Algorithm 7, the client's first part: every coordinate of the query, encrypted. */
  query(vector: ArrayLike<number>): PaperQuery {
    const { encoding, dimension } = this;
    const rounded = roundVectors(this.#context.parameters, [vector], dimension);
    const parts = this.#encrypt(encoding.ciphertexts(dimension), (i) => encoding.writeQuery(this.#slots, rounded, i));
    const bytes = encodeBundle({ kind: 'query', encoding: encoding.id, dimension, first: 0, count: 1, parts });
    return { bytes, read: (response) => this.#read(response), close() {} };
  }

  /** Algorithm 7, the client's last part. Throws NOISE_EXHAUSTED instead of returning noise. */
  #read(response: Uint8Array): ScorePart {
    const { encoding, dimension, first, count, parts } = decodeBundle(response, 'response');
    if (encoding !== this.encoding.id || dimension !== this.dimension || parts.length !== 1) {
      throw new PaperError('MALFORMED', 'this response answers another kind of query');
    }
    const slots = this.#keys.decrypt(parts[0]);
    if (count > this.encoding.capacity(slots.length))
      throw new PaperError('MALFORMED', 'too many scores in a response');
    return { first, integers: Int32Array.from(slots.subarray(0, count), Number) };
  }

  /** Bits of noise that the ciphertext of a response could still have taken. */
  noiseBudget(response: Uint8Array): number {
    return this.#keys.noiseBudget(decodeBundle(response, 'response').parts[0]);
  }

  #encrypt(count: number, write: (i: number) => void): Uint8Array[] {
    try {
      return Array.from({ length: count }, (_, i) => {
        this.#slots.fill(0n);
        write(i);
        return this.#keys.encrypt(this.#slots);
      });
    } finally {
      this.#slots.fill(0n);
    }
  }

  close(): void {
    if (this.#ownsKeys) this.#keys[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export function checkDimension(dimension: number): void {
  if (!(Number.isInteger(dimension) && dimension >= 1)) {
    throw new PaperError('INVALID_ARGUMENT', 'dimension must be a whole number from 1');
  }
}
