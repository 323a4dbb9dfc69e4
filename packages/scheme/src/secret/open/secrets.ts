// The secrets of open queries beside those of the gallery: the chain t_1 … that queries are
// switched along, the result secret s, the response secrets z_v, and one t_0 for every device. All
// follow from the master seed, the collection, the plan and a generation (README.md §9).

import { hkdf } from '@noble/hashes/hkdf.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { DEVICE_SECRET, GALLERY_SECRETS, OPEN_SECRETS } from '../../domains.ts';
import { HersError } from '../../errors.ts';
import type { OpenSet } from '../../open/parameters.ts';
import { LARGEST_SPECTRUM, type OpenPlan } from '../../open/plan.ts';
import { EvaluationRing, type Residues } from '../../open/ring.ts';
import { SEED_BYTES } from '../../wire.ts';
import { type CollectionKey, openSeed, secretsOf } from '../key.ts';
import { spectralPeak } from './spectrum.ts';

/** Ternary coefficients, and their residues in NTT form. */
export interface Secret {
  readonly small: Int32Array;
  readonly residues: Residues;
}

const LARGEST_NUMBER = 0xffffffff;
const SALT = new TextEncoder().encode('HERS v1');

/** Places of the secrets in their stream. The result secret is drawn from RESULT on. */
const RESPONSE = 64;
const RESULT = 128;

function isNumber(x: number): boolean {
  return Number.isInteger(x) && x >= 0 && x <= LARGEST_NUMBER;
}

function derive(seed: Uint8Array, label: string, number: number): Uint8Array {
  const name = new TextEncoder().encode(label);
  const info = new Uint8Array(name.length + 5);
  info.set(name);
  new DataView(info.buffer).setUint32(name.length + 1, number, true);
  return hkdf(sha256, seed, SALT, info, SEED_BYTES);
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

function wipeSecret({ small, residues }: Secret): void {
  small.fill(0);
  for (const words of residues) words.fill(0);
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
    return derive(seed, 'device', number);
  } finally {
    seed.fill(0);
  }
}

function generationSeed(key: CollectionKey, generation: number): Uint8Array {
  openPlanOf(key);
  if (!isNumber(generation)) throw new HersError('INVALID_ARGUMENT', 'a generation is from 0 to 2^32 − 1');
  return derive(openSeed(key), 'generation', generation);
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

  /** Gallery secret s_j. */
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
    for (const secret of this.#made) wipeSecret(secret);
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
