// The secrets of open queries beside those of the gallery: the chain t_1 … that queries are
// switched along, the result secret s, the response secrets z_v, and one t_0 for every device. All
// follow from the master seed, the collection, the plan and a generation (README.md §9).

import { HersError } from '../../errors.ts';
import { DEVICE_SECRET, GALLERY_SECRETS, OPEN_SECRETS } from '../../layout.ts';
import { LARGEST_SPECTRUM, type OpenPlan } from '../../open/plan.ts';
import { EvaluationRing, type Residues } from '../../open/ring.ts';
import type { OpenSet } from '../../parameters.ts';
import { SEED_BYTES } from '../../wire.ts';
import { type CollectionKey, derive, openSeed, secretsOf } from '../key.ts';

/** Ternary coefficients, and their residues in NTT form. */
export interface Secret {
  readonly small: Int32Array;
  readonly residues: Residues;
}

const LARGEST_NUMBER = 0xffffffff;

/** Places of the secrets in their stream. The result secret is drawn from RESULT on. */
const RESPONSE = 64;
const RESULT = 128;

function isNumber(x: number): boolean {
  return Number.isInteger(x) && x >= 0 && x <= LARGEST_NUMBER;
}

function numbered(seed: Uint8Array, label: string, number: number): Uint8Array {
  const context = new Uint8Array(4);
  new DataView(context.buffer).setUint32(0, number, true);
  return derive(seed, label, context, SEED_BYTES);
}

/** A ternary secret modulo all primes. The caller wipes it. */
function expand(set: OpenSet, key: Uint8Array, domain: number, index: number): Secret {
  const ring = EvaluationRing.of(set);
  const draw = ring.ring(0);
  draw.ternary(draw.words[0], { key, domain, index });
  const small = draw.words[0].values.slice();
  const residues = ring.primes.map((_, l) => ring.ntt(l, ring.embed(l, small)));
  return { small, residues };
}

/** The plan of a key that was made with `openPlan`. */
export function openPlanOf(key: CollectionKey): OpenPlan {
  if (!('levels' in key.plan))
    throw new HersError('UNSUPPORTED_PLAN', 'this key has no open queries; make one with openPlan');
  return key.plan as OpenPlan;
}

/** The 32 bytes that a device's t_0 is expanded from. Number 0 is that of the public key. */
export function deviceSeed(key: CollectionKey, generation: number, number: number): Uint8Array {
  if (!isNumber(number)) throw new HersError('INVALID_ARGUMENT', 'the number of a device is from 0 to 2^32 − 1');
  const seed = generationSeed(key, generation);
  try {
    return numbered(seed, 'device', number);
  } finally {
    seed.fill(0);
  }
}

function generationSeed(key: CollectionKey, generation: number): Uint8Array {
  openPlanOf(key);
  if (!isNumber(generation)) throw new HersError('INVALID_ARGUMENT', 'a generation is from 0 to 2^32 − 1');
  return numbered(openSeed(key), 'generation', generation);
}

/** t_0, from the seed of a device. */
export function deviceSecret(set: OpenSet, seed: Uint8Array): Secret {
  try {
    return expand(set, seed, DEVICE_SECRET, 0);
  } finally {
    EvaluationRing.of(set).wipe();
  }
}

/** All of them, for one generation. As secret as the key; wipe them after use. */
export class OpenSecrets {
  readonly #set: OpenSet;
  readonly #key: CollectionKey;
  readonly #seed: Uint8Array;
  readonly #made: Secret[] = [];
  readonly generation: number;

  constructor(key: CollectionKey, generation: number) {
    this.#set = openPlanOf(key).parameters;
    this.#key = key;
    this.#seed = generationSeed(key, generation);
    this.generation = generation;
  }

  #keep(secret: Secret): Secret {
    this.#made.push(secret);
    return secret;
  }

  /** t_k, k from 1 on: what a query is under after step k − 1. */
  chain(k: number): Secret {
    return this.#keep(expand(this.#set, this.#seed, OPEN_SECRETS, k));
  }

  /** t_0 of a device. */
  device(number: number): Secret {
    const seed = deviceSeed(this.#key, this.generation, number);
    const secret = this.#keep(deviceSecret(this.#set, seed));
    seed.fill(0);
    return secret;
  }

  /** s_j. */
  gallery(j: number): Secret {
    return this.#keep(expand(this.#set, secretsOf(this.#key).key, GALLERY_SECRETS, j));
  }

  /** z_v: what body v of a response is under. */
  response(v: number): Secret {
    return this.#keep(expand(this.#set, this.#seed, OPEN_SECRETS, RESPONSE + v));
  }

  /**
   * s: what expanded queries and the results of scans are under. It lives as long as its generation
   * and meets every gallery, so one with a peak in its spectrum is passed over: one in sixty.
   */
  result(): Secret {
    for (let index = RESULT; ; index++) {
      const secret = this.#keep(expand(this.#set, this.#seed, OPEN_SECRETS, index));
      if (spectralPeak(secret.small) <= LARGEST_SPECTRUM) return secret;
    }
  }

  wipe(): void {
    for (const { small, residues } of this.#made) for (const words of [small, ...residues]) words.fill(0);
    this.#made.length = 0;
    this.#seed.fill(0);
    EvaluationRing.of(this.#set).wipe();
  }

  [Symbol.dispose](): void {
    this.wipe();
  }

  toJSON(): string {
    return '[OpenSecrets]';
  }
}

/** cos and sin of π·j/n for j = 0 … n−1. */
function rootsOf(n: number): { readonly re: Float64Array; readonly im: Float64Array } {
  const re = new Float64Array(n).fill(1);
  const im = new Float64Array(n);
  // The root of angle π/2, halved until it is π/n: bit b of j stands for the angle π·2^b/n.
  let [c, s] = [0, 1];
  for (let bit = n / 2; bit >= 1; bit /= 2) {
    for (let j = 0; j < n; j++) {
      if ((j & bit) === 0) continue;
      const [x, y] = [re[j], im[j]];
      re[j] = x * c - y * s;
      im[j] = x * s + y * c;
    }
    const half = Math.sqrt((1 + c) / 2);
    s /= 2 * half;
    c = half;
  }
  return { re, im };
}

/** max |ŝ(ζ)|², divided by its mean 2n/3 for uniform ternary coefficients. */
export function spectralPeak(secret: Int32Array): number {
  const n = secret.length;
  const roots = rootsOf(n);
  const re = Float64Array.from(secret, (x, j) => x * roots.re[j]);
  const im = Float64Array.from(secret, (x, j) => x * roots.im[j]);
  // Decimation in frequency: the order of the outputs does not matter.
  for (let size = n; size > 1; size /= 2) {
    const half = size / 2;
    const step = (2 * n) / size;
    for (let from = 0; from < n; from += size)
      for (let j = 0; j < half; j++) {
        const [u, v] = [from + j, from + j + half];
        const [x, y] = [re[u] - re[v], im[u] - im[v]];
        re[u] += re[v];
        im[u] += im[v];
        const [c, s] = [roots.re[j * step], roots.im[j * step]];
        re[v] = x * c - y * s;
        im[v] = x * s + y * c;
      }
  }
  let largest = 0;
  for (let j = 0; j < n; j++) largest = Math.max(largest, re[j] * re[j] + im[j] * im[j]);
  re.fill(0);
  im.fill(0);
  return largest / ((2 * n) / 3);
}
