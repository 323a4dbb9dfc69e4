// Two-stage search (the paper's section of that name): a HERS scan of few dimensions over
// everything finds K candidates, and Boddeti's encoding, which can score single templates, ranks
// these again at full dimension. The gallery is therefore encrypted twice, under one key.
//
// The second stage tells the server which K templates are candidates. The paper accepts that;
// whoever cannot must not use this.

import { decodeBundle, encodeBundle } from './bundle.ts';
import { PaperClient, type PaperQuery, type ScorePart } from './client.ts';
import type { Context } from './context.ts';
import { BODDETI, HERS } from './encodings.ts';
import { PaperError } from './errors.ts';
import { ClientKeys, type Encryption } from './keys.ts';
import type { PaperVectors } from './rounding.ts';
import { PaperServer, type ServerOptions } from './server.ts';

export interface TwoStageOptions {
  readonly coarseDimension: number;
  readonly fineDimension: number;
}

/**
 * Both forms of the same templates, or of a query: how the short one comes from the long one is not
 * this system's business.
 */
export interface Forms<T> {
  readonly coarse: T;
  readonly fine: T;
}

export interface PaperMatch {
  readonly index: number;
  readonly score: number;
}

/** The K best of all scores, best first; the earlier template of equals. */
export function best(parts: Iterable<ScorePart>, k: number): PaperMatch[] {
  const matches: PaperMatch[] = [];
  for (const { first, integers } of parts) integers.forEach((score, j) => matches.push({ index: first + j, score }));
  return matches.sort((a, b) => b.score - a.score || a.index - b.index).slice(0, k);
}

export class TwoStageClient implements Disposable {
  readonly #keys: ClientKeys;
  readonly #coarse: PaperClient;
  readonly #fine: PaperClient;

  constructor(context: Context, options: TwoStageOptions & { readonly encryption?: Encryption }) {
    const { coarseDimension, fineDimension, encryption } = options;
    BODDETI.check(fineDimension, context.parameters.n);
    const rotations = BODDETI.rotations(fineDimension);
    this.#keys = new ClientKeys(context, { rotations, ...(encryption ? { encryption } : {}) });
    this.#coarse = new PaperClient(context, HERS, { dimension: coarseDimension, keys: this.#keys });
    this.#fine = new PaperClient(context, BODDETI, { dimension: fineDimension, keys: this.#keys });
  }

  get keys(): Uint8Array {
    return this.#keys.evaluationKeys;
  }

  /** Uploads of the same templates for both stages. The ids, if any, go with the coarse form. */
  enrol(vectors: Forms<PaperVectors>, ids?: readonly number[]): Forms<Generator<Uint8Array>> {
    return { coarse: this.#coarse.enrol(vectors.coarse, ids), fine: this.#fine.enrol(vectors.fine) };
  }

  query(vectors: Forms<ArrayLike<number>>): TwoStageQuery {
    return new TwoStageQuery(this.#coarse.query(vectors.coarse), this.#fine, vectors.fine);
  }

  [Symbol.dispose](): void {
    this.#keys[Symbol.dispose]();
  }
}

export class TwoStageQuery {
  /** What the server gets first. */
  readonly coarse: Uint8Array;
  readonly #coarse: PaperQuery;
  readonly #client: PaperClient;
  readonly #vector: ArrayLike<number>;
  #fine: PaperQuery | undefined;

  constructor(coarse: PaperQuery, client: PaperClient, vector: ArrayLike<number>) {
    this.#coarse = coarse;
    this.#client = client;
    this.#vector = vector;
    this.coarse = coarse.bytes;
  }

  /** Decrypts the scores of the first stage and asks for the K best again. */
  refine(responses: Iterable<Uint8Array>, k: number): Uint8Array {
    const candidates = best(
      Array.from(responses, (response) => this.#coarse.read(response)),
      k,
    );
    this.#fine = this.#client.query(this.#vector);
    // In the order of the gallery: their ranks are nobody's business.
    const indices = Uint32Array.from(candidates, ({ index }) => index).sort();
    const parts = [new Uint8Array(indices.buffer), this.#fine.bytes];
    return encodeBundle({
      kind: 'candidates',
      encoding: 0,
      dimension: this.#client.dimension,
      first: 0,
      count: indices.length,
      parts,
    });
  }

  /** Decrypts the scores of the second stage: the candidates, best first. */
  rank(responses: Iterable<Uint8Array>): PaperMatch[] {
    const query = this.#fine;
    if (!query) throw new PaperError('INVALID_ARGUMENT', 'the first stage comes first: call refine');
    return best(
      Array.from(responses, (response) => query.read(response)),
      Number.POSITIVE_INFINITY,
    );
  }
}

export class TwoStageServer implements Disposable {
  readonly coarse: PaperServer;
  readonly fine: PaperServer;

  constructor(context: Context, keys: Uint8Array, options: TwoStageOptions & Omit<ServerOptions, 'dimension'>) {
    const { coarseDimension, fineDimension, ...rest } = options;
    this.coarse = new PaperServer(context, HERS, keys, { ...rest, dimension: coarseDimension });
    try {
      this.fine = new PaperServer(context, BODDETI, keys, { ...rest, dimension: fineDimension });
    } catch (error) {
      this.coarse.close();
      throw error;
    }
  }

  /** Scores the candidates of a request that `refine` made. */
  *rescore(request: Uint8Array): Generator<Uint8Array> {
    const { parts, count } = decodeBundle(request, 'candidates');
    if (parts.length !== 2 || parts[0].length !== 4 * count)
      throw new PaperError('MALFORMED', 'this request lists no candidates');
    const view = new DataView(parts[0].buffer, parts[0].byteOffset, parts[0].length);
    const blocks = Array.from({ length: count }, (_, i) => view.getUint32(4 * i, true));
    yield* this.fine.search(parts[1], { blocks });
  }

  [Symbol.dispose](): void {
    this.coarse.close();
    this.fine.close();
  }
}
