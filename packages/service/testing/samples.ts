// Blocks, queries and sealed things that follow from a seed, made without any key: a store cannot
// tell them from real ones. For tests.

import {
  type Block,
  blockMatrix,
  encodeBlock,
  encodeQuery,
  encodeResponse,
  expandedQuery,
  type ParameterSet,
  parameterSet,
  polyWords,
  type Query,
  rowsOf,
  scanBlock,
} from '@hers/scheme';
import { type EnvelopeHead, encodeEnvelopeHead, joinEnvelope } from '../src/envelope.ts';
import { HANDLE_BYTES, type SealedRecord } from '../src/service.ts';

const GALLERY_SCALE = 1024;

export interface SampleShape {
  /** The name of a parameter set; a small one by default. */
  readonly set?: string;
  readonly width?: number;
  readonly keyId?: Uint8Array;
  readonly first?: number;
  readonly count?: number;
}

/** An envelope that nobody has signed: of device 1, now, unless it says otherwise. */
export function sampleEnvelope({
  body,
  ...about
}: Partial<EnvelopeHead> & Pick<EnvelopeHead, 'collection' | 'nonce'> & { readonly body: Uint8Array }): Uint8Array {
  const head = { kind: 'question', device: 1, epoch: 0, time: Date.now(), ...about } as const;
  return joinEnvelope(encodeEnvelopeHead(head, body), body, new Uint8Array(64));
}

export class Samples {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** mulberry32 */
  #word(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  /** A whole number below `limit`. */
  below(limit: number): number {
    return this.#word() % limit;
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.#word() & 255);
  }

  id(): Uint8Array {
    return this.bytes(16);
  }

  record(bytes = 60 + this.below(100)): SealedRecord {
    return { handle: this.bytes(HANDLE_BYTES), sealed: this.bytes(bytes) };
  }

  records(count: number): SealedRecord[] {
    return Array.from({ length: count }, () => this.record());
  }

  #residues(parameters: ParameterSet, polys: number): Uint32Array {
    const { n, primes } = parameters;
    const words = polyWords(parameters);
    return Uint32Array.from({ length: polys * words }, (_, i) => this.#word() % primes[Math.floor((i % words) / n)]);
  }

  block(shape: SampleShape = {}): Block {
    const { set = 'insecure_n_64_logq_30_wide_5', width = 3, keyId = new Uint8Array(16).fill(1), first = 0 } = shape;
    const parameters = parameterSet(set);
    return {
      parameters,
      keyId,
      blockId: this.id(),
      width,
      first,
      count: shape.count ?? parameters.n - first,
      galleryScale: GALLERY_SCALE,
      seed: this.bytes(32),
      rows: this.#residues(parameters, width),
    };
  }

  query(shape: SampleShape = {}): Query {
    const { set = 'insecure_n_64_logq_30_wide_5', width = 3, keyId = new Uint8Array(16).fill(1) } = shape;
    const parameters = parameterSet(set);
    return {
      parameters,
      keyId,
      queryId: this.id(),
      width,
      galleryScale: GALLERY_SCALE,
      bits0: 11,
      bits1: 16,
      seed: this.bytes(32),
      rows: this.#residues(parameters, rowsOf(parameters, width)),
    };
  }
}

/** What a search must answer, in no order, as scheme's own scan computes it. */
export function expectedResponses(blocks: Iterable<Block>, queries: readonly Query[]): Uint8Array[] {
  const expanded = queries.map(expandedQuery);
  const alike = (block: Block, query: Query) => block.keyId.every((byte, i) => byte === query.keyId[i]);
  return [...blocks].flatMap((block) => {
    const matrix = blockMatrix(block);
    return expanded.filter(({ query }) => alike(block, query)).map((query) => encodeResponse(scanBlock(matrix, query)));
  });
}

export { encodeBlock, encodeQuery };
