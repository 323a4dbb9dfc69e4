// Known answers: every wire format, computed from fixed seeds. known-answers.json holds what must
// come out, in Node and in browsers alike, so nothing here needs either. It lies on the secret side
// because it encrypts and decrypts; nothing exports it.

import { rootOfUnity } from '@hers/ring';
import { sha256 } from '@noble/hashes/sha2.js';
import { decodeBlock, encodeBlock } from '../src/block.ts';
import { PARAMETER_SETS } from '../src/parameters.ts';
import { type Plan, type PlanRequest, plan } from '../src/plan.ts';
import { decodeQuery } from '../src/query.ts';
import { blockMatrix, encodeResponse, expandedQuery, scanBlock } from '../src/response.ts';
import type { QuerySecret } from '../src/secret/decrypt.ts';
import { type Entropy, encryptBlockFrom, encryptQueryFrom } from '../src/secret/encrypt.ts';
import { MasterSeed } from '../src/secret/key.ts';
import { ID_BYTES } from '../src/wire.ts';
import { decryptBlock } from './decrypt-block.ts';

interface Case {
  readonly name: string;
  readonly request: PlanRequest;
  readonly epoch: number;
  /** Slots of the block. */
  readonly first: number;
  readonly count: number;
}

const compact = { parameters: 'insecure_n_64_logq_30_wide_5', allowInsecure: true } as const;
const exact = { parameters: 'insecure_n_64_logq_30_30_wide_4', allowInsecure: true, profile: 'exact' } as const;
const small = { parameters: 'insecure_n_64_logq_24_wide_5', allowInsecure: true, profile: 'small' } as const;

/**
 * Every profile and all three metrics on the tiny sets, which anyone can follow by hand; then the
 * sets that are in use.
 */
const CASES: readonly Case[] = [
  { name: 'tiny compact cosine', request: { ...compact, dimension: 4 }, epoch: 0, first: 5, count: 9 },
  {
    name: 'tiny compact euclidean',
    request: { ...compact, dimension: 4, metric: 'euclidean', normBound: 2 },
    epoch: 1,
    first: 0,
    count: 64,
  },
  {
    name: 'tiny exact dot',
    request: { ...exact, dimension: 4, metric: 'dot', normBound: 1, queryNormBound: 3 },
    epoch: 0xffffffff,
    first: 40,
    count: 21,
  },
  {
    name: 'tiny exact euclidean',
    request: { ...exact, dimension: 4, metric: 'euclidean' },
    epoch: 3,
    first: 1,
    count: 6,
  },
  { name: 'tiny small cosine', request: { ...small, dimension: 4 }, epoch: 4, first: 2, count: 30 },
  { name: 'compact cosine', request: { dimension: 32 }, epoch: 6, first: 0, count: 48 },
  {
    name: 'exact euclidean',
    request: { profile: 'exact', dimension: 8, metric: 'euclidean', normBound: 2 },
    epoch: 7,
    first: 4000,
    count: 96,
  },
  { name: 'small cosine', request: { profile: 'small', dimension: 32 }, epoch: 8, first: 2000, count: 48 },
];

/** SHA-256 of a text: where every "random" byte of the known answers comes from. */
function hashOf(text: string): Uint8Array {
  return sha256(new TextEncoder().encode(text));
}

const hex = (bytes: Uint8Array): string => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
const base64 = (bytes: Uint8Array): string => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''));

/** The largest message of the tiny sets has 4200 bytes. */
const WHOLE_BYTES = 5000;

/** Whole where it is small; else a hash, and the ends to see where a difference begins. */
export type Message =
  | { readonly base64: string }
  | { readonly bytes: number; readonly sha256: string; readonly head: string; readonly tail: string };

function message(bytes: Uint8Array): Message {
  if (bytes.length <= WHOLE_BYTES) return { base64: base64(bytes) };
  return {
    bytes: bytes.length,
    sha256: hex(sha256(bytes)),
    head: hex(bytes.subarray(0, 32)),
    tail: hex(bytes.subarray(-32)),
  };
}

/**
 * Entropy that can be drawn again: the k-th draw is the hash of the case, the use and k. Keeps what
 * it gave, since callers wipe their copies.
 */
class FixedEntropy implements Entropy {
  readonly drawn: string[] = [];
  readonly #label: string;

  constructor(label: string) {
    this.#label = label;
  }

  seed(): Uint8Array {
    const bytes = hashOf(`${this.#label} ${this.drawn.length}`);
    this.drawn.push(hex(bytes));
    return bytes;
  }

  id(): Uint8Array {
    const bytes = hashOf(`${this.#label} ${this.drawn.length}`).slice(0, ID_BYTES);
    this.drawn.push(hex(bytes));
    return bytes;
  }
}

/** In the order in which encryption draws them. */
function blockSeeds({ drawn: [maskSeed, errorSeed, blockId] }: FixedEntropy) {
  return { maskSeed, errorSeed, blockId };
}

function queryDraws({ drawn: [queryId, random] }: FixedEntropy) {
  return { queryId, random };
}

/**
 * Coordinate i of vector j. Multiples of 1/64, so that every number format holds it; no vector is
 * zero, and norms stay below √dimension/2.
 */
export function coordinate(j: number, i: number): number {
  return (((37 * j + 101 * i + 11) % 63) - 31) / 64;
}

function vectorsOf(first: number, count: number, dimension: number): number[][] {
  return Array.from({ length: count }, (_, j) => Array.from({ length: dimension }, (_, i) => coordinate(first + j, i)));
}

/** The numbers of a plan that the messages depend on. */
function planAnswers(p: Plan) {
  const { width, galleryScale, queryScale, steps, appended, squares, unit, responseBits } = p;
  const { name } = p.parameters;
  return { parameters: name, width, galleryScale, queryScale, steps, appended, squares, unit, responseBits };
}

/** Single precision, little-endian. */
function vectorsIn({ vectors }: { readonly vectors: Float32Array }): Message {
  return message(new Uint8Array(vectors.buffer, vectors.byteOffset, vectors.byteLength));
}

function scoresOf(secret: QuerySecret, bytes: Uint8Array) {
  const { first, scores, integers } = secret.decrypt(bytes);
  return { first, scores: [...scores], ...(integers ? { integers: [...integers] } : {}) };
}

function answer({ name, request, epoch, first, count }: Case) {
  const p = plan(request);
  const masterSeed = hashOf(`${name}, master seed`);
  const collectionId = hashOf(`${name}, collection`).slice(0, ID_BYTES);
  const key = MasterSeed.from(masterSeed).collectionKey(p, collectionId, epoch);

  const blockEntropy = new FixedEntropy(`${name}, block`);
  const block = encodeBlock(encryptBlockFrom(blockEntropy, key, vectorsOf(0, count, p.dimension), { first }));
  const queryEntropy = new FixedEntropy(`${name}, query`);
  const { query, secret } = encryptQueryFrom(queryEntropy, key, vectorsOf(3, 1, p.dimension)[0]);
  const expanded = expandedQuery(decodeQuery(query));
  const response = encodeResponse(scanBlock(blockMatrix(decodeBlock(block)), expanded));
  const decrypted = decryptBlock(key, block);

  return {
    name,
    request,
    plan: planAnswers(p),
    epoch,
    masterSeed: hex(masterSeed),
    collectionId: hex(collectionId),
    keyId: hex(key.keyId),
    keyInfo: message(key.info()),
    block: { first, count, ...blockSeeds(blockEntropy), message: message(block), vectors: vectorsIn(decrypted) },
    query: { ...queryDraws(queryEntropy), maskSeed: hex(key.queryMasks), message: message(query) },
    response: { message: message(response), ...scoresOf(secret, response) },
  };
}

function parameterSets() {
  return Object.values(PARAMETER_SETS).map(({ name, id, n, primes, digits, digitBits, wideBits, wordBytes }) => {
    const roots = primes.map((p) => Number(rootOfUnity(p, n)));
    return { name, id, n, primes, roots, digits, digitBits, wideBits, wordBytes };
  });
}

/** All of them, as plain JSON. */
export function knownAnswers() {
  return { parameterSets: parameterSets(), cases: CASES.map(answer) };
}
