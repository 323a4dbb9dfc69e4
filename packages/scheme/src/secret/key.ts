// Keys: a 32-byte master seed, and derived from it, for every collection, parameter set and epoch,
// the gallery secrets s_1 … s_width, the weights that scores are checked with, the key of the
// canaries, and what queries are made with: the public seed of their masks, and the key that their
// seeds are hedged with.
//
// Secret material sits in private fields: it shows under no inspector, serialiser or clone, and can
// be wiped.

import { randomSeed, type Secrets } from '@hers/ring';
import { hkdf } from '@noble/hashes/hkdf.js';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { HersError } from '../errors.ts';
import { GALLERY_SECRETS, SCORE_WEIGHTS } from '../layout.ts';
import { type ParameterSet, PROFILES, type Profile, polyWords, ringOf } from '../parameters.ts';
import { METRICS, type Metric, type Plan } from '../plan.ts';
import { finishMessage, ID_BYTES, SEED_BYTES, startMessage } from '../wire.ts';
import type { Checksums } from './canaries.ts';

const SALT = new TextEncoder().encode('HERS v1');
/**
 * Transformed secrets are kept up to this many bytes; larger ones (4096 dimensions under `exact`)
 * are expanded at every use.
 */
const CACHE_BYTES = 1 << 25;
/** When less than this is left, the canaries of more blocks count as too many to keep. */
const CANARY_MARGIN = 1 << 20;

/**
 * Scores are checked with this many independent sets of weights, each weight below 2^WEIGHT_BITS
 * (README.md §6): as many bits as keep every sum exact in a double.
 */
export const WEIGHT_COPIES = 6;
export const WEIGHT_BITS = 18;

/** HKDF-SHA256 (RFC 5869) with info = label, a zero byte, context. */
export function derive(seed: Uint8Array, label: string, context: Uint8Array, length: number): Uint8Array {
  const name = new TextEncoder().encode(label);
  const info = new Uint8Array(name.length + 1 + context.length);
  info.set(name);
  info.set(context, name.length + 1);
  return hkdf(sha256, seed, SALT, info, length);
}

/**
 * What the keys of a collection depend on: its id, the parameter set, the epoch, and the plan. With
 * the plan in it, a block made under other norm bounds belongs to another key, and is refused
 * rather than scored wrongly.
 */
function keyContext(plan: Plan, collectionId: Uint8Array, epoch: number): Uint8Array {
  const context = new Uint8Array(64);
  const view = new DataView(context.buffer);
  context.set(collectionId);
  view.setUint32(16, epoch, true);
  view.setUint32(20, plan.dimension, true);
  view.setUint16(24, plan.parameters.id, true);
  view.setUint8(26, METRICS.indexOf(plan.metric));
  view.setUint8(27, PROFILES.indexOf(plan.profile));
  view.setFloat64(32, plan.galleryScale, true);
  view.setFloat64(40, plan.queryScale, true);
  view.setFloat64(48, plan.normBound, true);
  view.setFloat64(56, plan.queryNormBound, true);
  return context;
}

function wiped(): never {
  throw new HersError('WIPED', 'this key has been wiped; open it again');
}

/** The one secret a key holder keeps. */
export class MasterSeed {
  #bytes: Uint8Array | undefined;

  private constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /**
   * A new one from the platform's CSPRNG.
   *
   * @example
   * const key = MasterSeed.generate();
   * const db = await connect('https://gallery.example', { key, token });
   */
  static generate(): MasterSeed {
    return new MasterSeed(randomSeed());
  }

  /**
   * From 32 bytes that came from a CSPRNG; they are copied.
   *
   * @param bytes - 32 of them, from a CSPRNG.
   * @throws {HersError} INVALID_ARGUMENT: for another number of bytes.
   */
  static from(bytes: Uint8Array): MasterSeed {
    if (!(bytes instanceof Uint8Array) || bytes.length !== SEED_BYTES)
      throw new HersError('INVALID_ARGUMENT', `a master seed has ${SEED_BYTES} bytes`);
    return new MasterSeed(new Uint8Array(bytes)); // a Buffer's `slice` would share its memory
  }

  /**
   * Another one of the same bytes, to be wiped by itself; nothing else holds them.
   *
   * @throws {HersError} WIPED: after `wipe`.
   */
  clone(): MasterSeed {
    return new MasterSeed((this.#bytes ?? wiped()).slice());
  }

  /**
   * A copy of the bytes, for sealing in a key file. Whoever holds them can decrypt everything.
   *
   * @throws {HersError} WIPED: after `wipe`.
   */
  reveal(): Uint8Array {
    return (this.#bytes ?? wiped()).slice();
  }

  /**
   * Another key from the same seed, for sealing, authentication, handles: independent of every
   * other purpose and context.
   *
   * @param purpose - A few words in lower case.
   * @param context - What else the key is for.
   * @param length - In bytes; 32 by default.
   * @throws {HersError} INVALID_ARGUMENT: for a purpose that is something else.
   * @throws {HersError} WIPED: after `wipe`.
   */
  deriveKey(purpose: string, context: Uint8Array, length = 32): Uint8Array {
    if (!/^[a-z][a-z -]*$/.test(purpose))
      throw new HersError('INVALID_ARGUMENT', 'a purpose is a few words in lower case');
    return derive(this.#bytes ?? wiped(), `client ${purpose}`, context, length);
  }

  /**
   * The key of one collection.
   *
   * @param plan - The parameters of the collection.
   * @param collectionId - 16 random bytes, not the name of the collection.
   * @param epoch - Grows by one with every rotation; 0 by default.
   * @throws {HersError} INVALID_ARGUMENT: for an id of another length, or an epoch that is no whole
   *   number of 32 bits.
   * @throws {HersError} WIPED: after `wipe`.
   */
  collectionKey(plan: Plan, collectionId: Uint8Array, epoch = 0): CollectionKey {
    if (!(collectionId instanceof Uint8Array) || collectionId.length !== ID_BYTES)
      throw new HersError('INVALID_ARGUMENT', `a collection id has ${ID_BYTES} bytes`);
    if (!(Number.isInteger(epoch) && epoch >= 0 && epoch <= 0xffffffff))
      throw new HersError('INVALID_ARGUMENT', 'an epoch is a whole number from 0 to 2^32 − 1');
    const context = keyContext(plan, collectionId, epoch);
    const bytes = this.#bytes ?? wiped();
    const seedOf = (label: string) => derive(bytes, label, context, SEED_BYTES);
    const keyId = derive(bytes, 'key id', context, ID_BYTES);
    return new CollectionKey(plan, new Uint8Array(collectionId), epoch, keyId, seedOf('query masks'), {
      gallery: seedOf('gallery secrets'),
      weights: seedOf('score weights'),
      canaries: seedOf('canaries'),
      queries: seedOf('query seeds'),
      ...('evaluation' in plan.parameters ? { open: seedOf('open secrets') } : {}),
    });
  }

  /** Overwrites the seed. Every later use fails with WIPED. */
  wipe(): void {
    this.#bytes?.fill(0);
    this.#bytes = undefined;
  }

  /** The same as `wipe`, for `using`. */
  [Symbol.dispose](): void {
    this.wipe();
  }

  /** Says that it is a secret, and nothing else. */
  toJSON(): string {
    return '[MasterSeed]';
  }
}

/** The gallery secrets s_1 … s_width. They belong to the key, which wipes them. */
export let secretsOf: (key: CollectionKey) => Secrets;

/**
 * The weights that scores are checked with, copy by copy, n each. They belong to the key, which
 * wipes them: keep no reference.
 */
export let scoreWeights: (key: CollectionKey) => Float64Array;

/** The canaries of a block, encoded: slots ascending, then for each its coordinates. */
export interface Canaries {
  readonly slots: Uint32Array;
  readonly values: Int32Array;
  /** Its checksum canaries, under `integrity: 'strong'`. */
  readonly checksums?: Checksums;
  /** The slots of all canaries, checksum canaries too, ascending. */
  readonly own: Uint32Array;
}

const bytesOf = ({ values, checksums }: Canaries): number => values.byteLength + (checksums?.order.byteLength ?? 0);

function wipeCanaries({ slots, values, checksums, own }: Canaries): void {
  slots.fill(0);
  values.fill(0);
  own.fill(0);
  checksums?.order.fill(0);
}

/** The canary key. It belongs to the collection's key, which wipes it. */
export let canarySeed: (key: CollectionKey) => Uint8Array;

/**
 * What the secrets of open queries are derived from; only keys of sets with evaluation keys have
 * it. It belongs to the key, which wipes it.
 */
export let openSeed: (key: CollectionKey) => Uint8Array;

/** What the seed of a query's result secret and errors is made of. */
export interface QueryDraw {
  readonly random: Uint8Array;
  readonly queryId: Uint8Array;
  /** The probe, encoded. */
  readonly values: Int32Array;
}

/**
 * Hedged: a generator that repeats itself gives another probe another seed all the same (README.md
 * §4, the rules).
 */
export let querySeed: (key: CollectionKey, draw: QueryDraw) => Uint8Array;

/** What `make` makes, the first time for each name. It belongs to the key, which wipes it. */
export let cachedCanaries: (key: CollectionKey, name: string, make: () => Canaries) => Canaries;

/** Whether no canaries had to make room for others: then those of every block are kept. */
export let hasRoomForCanaries: (key: CollectionKey) => boolean;

/** What the secrets of a key are expanded from, 32 bytes each (docs/formats.md §4). */
export interface KeySeeds {
  readonly gallery: Uint8Array;
  readonly weights: Uint8Array;
  readonly canaries: Uint8Array;
  readonly queries: Uint8Array;
  readonly open?: Uint8Array;
}

/**
 * The public part of a collection's key: what a store keeps to know which blocks and queries belong
 * together. Nothing in it helps to decrypt.
 */
export interface KeyInfo {
  readonly parameters: ParameterSet;
  readonly keyId: Uint8Array;
  readonly collectionId: Uint8Array;
  readonly epoch: number;
  readonly dimension: number;
  readonly metric: Metric;
  readonly profile: Profile;
  readonly width: number;
  readonly galleryScale: number;
}

export function encodeKeyInfo(info: KeyInfo): Uint8Array {
  const draft = startMessage({ kind: 'key', parameterSetId: info.parameters.id, keyId: info.keyId }, 0);
  const { bytes, view } = draft;
  bytes.set(info.collectionId, 32);
  view.setUint32(48, info.epoch, true);
  view.setUint32(52, info.dimension, true);
  view.setUint8(56, METRICS.indexOf(info.metric));
  view.setUint8(57, PROFILES.indexOf(info.profile));
  view.setUint32(60, info.width, true);
  view.setFloat64(64, info.galleryScale, true);
  return finishMessage(draft);
}

/** What encrypts and decrypts for one collection, parameter set and epoch. */
export class CollectionKey {
  readonly plan: Plan;
  readonly collectionId: Uint8Array;
  readonly epoch: number;
  /** Public: tells keys apart and gives nothing away. */
  readonly keyId: Uint8Array;
  /** Public: what the masks of all its queries are expanded from. */
  readonly queryMasks: Uint8Array;
  #seeds: KeySeeds | undefined;
  #weights: Float64Array | undefined;
  readonly #canaries = new Map<string, Canaries>();
  readonly #canaryNames: string[] = [];
  #canaryBytes = 0;
  #cache: Uint32Array | undefined;
  #cached: Uint8Array | undefined;

  static {
    secretsOf = (key) => key.#secrets();
    scoreWeights = (key) => key.#expandWeights();
    canarySeed = (key) => key.#unwiped().canaries;
    openSeed = (key) => key.#unwiped().open ?? wiped();
    querySeed = (key, { random, queryId, values }) => {
      const probe = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      return hmac.create(sha256, key.#unwiped().queries).update(random).update(queryId).update(probe).digest();
    };
    cachedCanaries = (key, name, make) => key.#cachedCanaries(name, make);
    hasRoomForCanaries = (key) => key.#canaryBytes < CACHE_BYTES - CANARY_MARGIN;
  }

  /** Takes the seeds over, and wipes them. */
  constructor(
    plan: Plan,
    collectionId: Uint8Array,
    epoch: number,
    keyId: Uint8Array,
    queryMasks: Uint8Array,
    seeds: KeySeeds,
  ) {
    this.plan = plan;
    this.collectionId = collectionId;
    this.epoch = epoch;
    this.keyId = keyId;
    this.queryMasks = queryMasks;
    this.#seeds = seeds;
    const words = plan.width * polyWords(plan.parameters);
    if (4 * words <= CACHE_BYTES) {
      this.#cache = new Uint32Array(words);
      this.#cached = new Uint8Array(plan.width);
    }
  }

  #unwiped(): KeySeeds {
    return this.#seeds ?? wiped();
  }

  #secrets(): Secrets {
    return { key: this.#unwiped().gallery, domain: GALLERY_SECRETS, kept: this.#cache, isKept: this.#cached };
  }

  /** Uses and wipes the memory of the ring, the first time. */
  #expandWeights(): Float64Array {
    if (this.#weights) return this.#weights;
    const seed = this.#unwiped().weights;
    const { parameters } = this.plan;
    const { n } = parameters;
    const ring = ringOf(parameters);
    const [{ residues }] = ring.polys;
    const weights = new Float64Array(WEIGHT_COPIES * n);
    const below = 2 ** WEIGHT_BITS;
    try {
      for (let c = 0; c < WEIGHT_COPIES; c++) {
        ring.uniform(ring.polys[0], { key: seed, domain: SCORE_WEIGHTS, index: c });
        // Of the first prime, which is so close below 2^30 that no remainder is likelier than
        // 2^−18·(1 + 2^−13).
        for (let j = 0; j < n; j++) weights[c * n + j] = residues[j] % below;
      }
    } finally {
      ring.wipe();
    }
    this.#weights = weights;
    return weights;
  }

  /** The oldest make room: those of blocks that are no more are never asked for again. */
  #cachedCanaries(name: string, make: () => Canaries): Canaries {
    const known = this.#canaries.get(name);
    if (known) return known;
    const made = make();
    // Any of them goes when there is no room, not the oldest: every search asks for all blocks in
    // the same order, so the oldest is the next to be asked for.
    while (this.#canaryNames.length > 0 && this.#canaryBytes + bytesOf(made) > CACHE_BYTES) {
      const at = Math.floor(Math.random() * this.#canaryNames.length);
      this.#forgetCanaries(this.#canaryNames[at]);
      this.#canaryNames[at] = this.#canaryNames[this.#canaryNames.length - 1];
      this.#canaryNames.pop();
    }
    this.#canaries.set(name, made);
    this.#canaryNames.push(name);
    this.#canaryBytes += bytesOf(made);
    return made;
  }

  #forgetCanaries(name: string): void {
    const canaries = this.#canaries.get(name)!;
    this.#canaryBytes -= bytesOf(canaries);
    wipeCanaries(canaries);
    this.#canaries.delete(name);
  }

  /** The public part, for the store. */
  info(): Uint8Array {
    const { plan, keyId, collectionId, epoch } = this;
    const { parameters, dimension, metric, profile, width, galleryScale } = plan;
    const collection = { collectionId, epoch, dimension, metric, profile, width, galleryScale };
    return encodeKeyInfo({ parameters, keyId, ...collection });
  }

  wipe(): void {
    for (const seed of Object.values(this.#seeds ?? {})) seed.fill(0);
    this.#weights?.fill(0);
    for (const canaries of this.#canaries.values()) wipeCanaries(canaries);
    this.#canaries.clear();
    this.#cache?.fill(0);
    this.#seeds = undefined;
    this.#weights = undefined;
    this.#cache = undefined;
    this.#cached = undefined;
  }

  [Symbol.dispose](): void {
    this.wipe();
  }

  toJSON(): string {
    return '[CollectionKey]';
  }
}
