// What the tests of this package share: vectors, scores in the clear, and a client and a server
// that talk to each other.

import { type ClientOptions, PaperClient, type ScorePart } from '../src/system/client.ts';
import type { Context } from '../src/system/context.ts';
import type { Encoding } from '../src/system/encoding.ts';
import { roundVectors } from '../src/system/rounding.ts';
import { type PaperSearchOptions, PaperServer, type ServerOptions } from '../src/system/server.ts';

/** Unit vectors, the same on every run, no two alike. */
export function unitVectors(count: number, dimension: number, seed = 1): Float64Array {
  const out = new Float64Array(count * dimension);
  for (let j = 0; j < count; j++) {
    let squares = 0;
    for (let i = 0; i < dimension; i++) {
      const value = Math.sin(12.9898 * (i + 1) + 78.233 * (j + 1) + 37.719 * seed + 0.37 * i * j);
      out[j * dimension + i] = value;
      squares += value * value;
    }
    for (let i = 0; i < dimension; i++) out[j * dimension + i] /= Math.sqrt(squares);
  }
  return out;
}

/** The integers that an encrypted search must give. */
export function plainScores(context: Context, gallery: Float64Array, query: Float64Array): number[] {
  const d = query.length;
  const templates = roundVectors(context.parameters, gallery, d);
  const probe = roundVectors(context.parameters, query, d);
  return Array.from({ length: templates.length / d }, (_, j) => {
    let sum = 0;
    for (let i = 0; i < d; i++) sum += templates[j * d + i] * probe[i];
    return sum;
  });
}

/** Client and server of one encoding. They share SEAL's heap, and nothing else. */
export class Pair implements Disposable {
  readonly client: PaperClient;
  readonly server: PaperServer;

  constructor(context: Context, encoding: Encoding, options: ClientOptions & ServerOptions) {
    const { dimension, encryption, keys, ...rest } = options;
    this.client = new PaperClient(context, encoding, {
      dimension,
      ...(encryption ? { encryption } : {}),
      ...(keys ? { keys } : {}),
    });
    this.server = new PaperServer(context, encoding, this.client.keys, { dimension, ...rest });
  }

  enrol(vectors: Float64Array): void {
    for (const upload of this.client.enrol(vectors)) this.server.enrol(upload);
  }

  search(vector: Float64Array, options?: PaperSearchOptions): number[] {
    const query = this.client.query(vector);
    const scores: number[] = [];
    for (const response of this.server.search(query.bytes, options)) place(scores, query.read(response));
    return scores;
  }

  [Symbol.dispose](): void {
    this.server.close();
    this.client.close();
  }
}

function place(scores: number[], { first, integers }: ScorePart): void {
  integers.forEach((score, j) => {
    scores[first + j] = score;
  });
}
