// Decryption and ranking where the responses are: in the memory of a device, to which a store in
// the same process has left them (`keep` of service). What the host does there is the same for any
// number of blocks. What is known of the blocks, their canaries above all, is on the device too,
// from the first search of a view on.

import type { CanaryPlace, CollectionKey, DeviceRing, QuerySecret } from '@hers/scheme/secret';
import { canaryRows, decryptsOnDevice, deviceQuery, deviceRing } from '@hers/scheme/secret';
import { HersError, type KeptResponses } from '@hers/service';
import { fromHex } from '../bytes.ts';
import type { RankOptions } from '../crew/crew.ts';
import type { ManifestBlock } from '../formats/manifest.ts';
import { type Candidate, floorOf } from '../search/ranking.ts';

declare const kind: unique symbol;
type Opaque<Name extends string> = { readonly [kind]: Name };
type DecryptorRef = Opaque<'decryptor'>;
type GalleryRef = Opaque<'gallery'>;

/** packages/client/cuda/addon.cc. Numbers begin each answer: the state, and what was wrong. */
export interface DeviceAddon {
  openDecryptor(device: number, ring: DeviceRing): DecryptorRef;
  closeDecryptor(decryptor: DecryptorRef): void;
  loadGallery(
    decryptor: DecryptorRef,
    blocks: object,
    before: GalleryRef | undefined,
  ): Promise<[state: number, message: string, gallery: GalleryRef]>;
  unloadGallery(gallery: GalleryRef): void;
  rankResponses(
    gallery: GalleryRef,
    responses: object,
    query: object,
  ): Promise<
    [
      state: number,
      message: string,
      blocks: Uint32Array,
      records: Uint32Array,
      scores: Float32Array,
      decryptMs: number,
      selectMs: number,
    ]
  >;
}

// States of packages/client/cuda/hers_decrypt.h.
const OK = 0;
const NO_MEMORY = 2;
const HEAD = 32;
const NONSENSE = 33;
const CANARY = 34;
const UNKNOWN = 35;
const TWICE = 36;
const MISSING = 37;

/** Canaries are made for so many blocks before the event loop runs again. */
const BLOCKS_AT_A_TIME = 64;

/** The blocks of one space in one view, by the numbers that candidates have. */
export interface DeviceBlocks {
  readonly blocks: readonly ManifestBlock[];
  /** The number of each among all blocks of the search. */
  readonly numbers: readonly number[];
  /** Where the canaries of a block are. */
  readonly canariesOf: (block: ManifestBlock) => CanaryPlace;
}

/** What is on the device of some blocks. */
interface Loaded {
  readonly of: DeviceBlocks;
  readonly gallery: GalleryRef;
  /** Rows by the id of the block. */
  readonly rows: ReadonlyMap<string, number>;
}

/** Ranks the responses to queries under one key. */
export class DeviceRanking {
  readonly #addon: DeviceAddon;
  readonly #key: CollectionKey;
  #decryptor: { readonly device: number; readonly ref: DecryptorRef } | undefined;
  #loaded: Promise<Loaded> | undefined;
  #isSpent = false;
  #closed = false;
  /** Milliseconds that the device took for the last one, for measurements. */
  lastMs: { readonly decrypt: number; readonly select: number } | undefined;

  constructor(addon: DeviceAddon, key: CollectionKey) {
    this.#addon = addon;
    this.#key = key;
  }

  /** Whether it can do what is asked for. */
  static takes({ plan }: CollectionKey, isGrouped: boolean): boolean {
    return decryptsOnDevice(plan) && !isGrouped;
  }

  /**
   * The best of the kept responses to one of the queries, `query` by its number among them. With
   * `slots`, records that count, for each block of `of`; otherwise those that are not dead.
   */
  async rank(
    kept: KeptResponses,
    query: number,
    secret: QuerySecret,
    of: DeviceBlocks,
    slots: readonly (Uint32Array | undefined)[] | undefined,
    { limit, order, threshold, query: vector }: RankOptions,
  ): Promise<Candidate[]> {
    const { gallery } = await this.#load(kept.device, of);
    const about = deviceQuery(this.#key, secret, vector);
    const distances = order === 'ascending';
    const { n } = this.#key.plan.parameters;
    try {
      const [state, message, blocks, records, scores, decrypt, select] = await this.#addon.rankResponses(
        gallery,
        kept.handle,
        {
          ...about,
          canaryOffset: about.offset,
          probe: new Uint32Array(about.probe.buffer),
          ...{ query, n, limit, distances, only: kept.only },
          floor: floorOf(distances ? -1 : 1, threshold),
          chosen: slots && aliveOf(of.blocks, n, slots),
        },
      );
      if (state !== OK) throw this.#refusal(state, message);
      this.lastMs = { decrypt, select };
      const candidates: Candidate[] = [];
      for (let i = 0; i < blocks.length; i++)
        candidates.push({ block: of.numbers[blocks[i]], slot: records[i], score: scores[i] });
      scores.fill(0);
      return candidates;
    } finally {
      about.secret.fill(0);
      about.probe.fill(0);
    }
  }

  async #load(device: number, of: DeviceBlocks): Promise<Loaded> {
    const before = this.#loaded;
    const known = await before?.catch(() => undefined);
    if (known?.of === of) return known;
    if (this.#loaded !== before) return this.#load(device, of); // another search has begun to
    const loading = this.#loadAfter(device, of, known);
    this.#loaded = loading;
    return loading;
  }

  async #loadAfter(device: number, of: DeviceBlocks, before: Loaded | undefined): Promise<Loaded> {
    const { canaries, width, parameters } = this.#key.plan;
    const { n } = parameters;
    this.#decryptor ??= { device, ref: this.#addon.openDecryptor(device, deviceRing(parameters)) };
    if (this.#decryptor.device !== device)
      throw new HersError('UNSUPPORTED_PLAN', 'responses of one collection are on several devices');
    const { blocks } = of;
    const known = Uint32Array.from(blocks, ({ id }) => before?.rows.get(id) ?? 0xffffffff);
    const fresh = blocks.filter((_, i) => known[i] === 0xffffffff);
    const slots = new Uint32Array(fresh.length * canaries);
    const values = new Int32Array(fresh.length * canaries * width);
    try {
      for (let at = 0; at < fresh.length; at += BLOCKS_AT_A_TIME) {
        const made = canaryRows(this.#key, fresh.slice(at, at + BLOCKS_AT_A_TIME).map(of.canariesOf));
        slots.set(made.slots, at * canaries);
        values.set(made.values, at * canaries * width);
        made.slots.fill(0);
        made.values.fill(0);
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
      const ids = new Uint8Array(16 * blocks.length);
      for (const [i, { id }] of blocks.entries()) ids.set(fromHex(id), 16 * i);
      const [state, message, gallery] = await this.#addon.loadGallery(
        this.#decryptor.ref,
        {
          ...{ n, canaries, width, known, ids, slots },
          blocks: blocks.length,
          counts: Uint32Array.from(blocks, ({ count }) => count),
          fresh: fresh.length,
          values: new Uint32Array(values.buffer),
          alive: blocks.some(({ dead }) => dead.length > 0) ? aliveOf(blocks, n) : undefined,
        },
        before?.gallery,
      );
      if (state !== OK) throw this.#refusal(state, message);
      // A search that still uses it holds its memory.
      if (before) this.#addon.unloadGallery(before.gallery);
      if (this.#closed) {
        this.#addon.unloadGallery(gallery);
        throw new HersError('CLOSED', 'this collection is closed');
      }
      return { of, gallery, rows: new Map(blocks.map(({ id }, i) => [id, i])) };
    } finally {
      slots.fill(0);
      values.fill(0);
    }
  }

  /** The device has failed, or has no memory for this: the next search goes over the host. */
  get isSpent(): boolean {
    return this.#isSpent;
  }

  #refusal(state: number, message: string): HersError {
    const error = refusal(state, message);
    if (error.code !== 'INTEGRITY') this.#isSpent = true;
    return error;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const loaded = await this.#loaded?.catch(() => undefined);
    if (loaded) this.#addon.unloadGallery(loaded.gallery);
    if (this.#decryptor) this.#addon.closeDecryptor(this.#decryptor.ref);
    this.#loaded = undefined;
    this.#decryptor = undefined;
  }
}

/** A bit for every record that counts, n / 32 words a block. */
function aliveOf(
  blocks: readonly ManifestBlock[],
  n: number,
  slots?: readonly (Uint32Array | undefined)[],
): Uint32Array {
  const each = n / 32;
  const words = new Uint32Array(blocks.length * each).fill(0xffffffff);
  for (const [i, { dead }] of blocks.entries()) {
    const own = words.subarray(i * each, (i + 1) * each);
    const chosen = slots?.[i];
    if (chosen) own.fill(0).set(chosen.subarray(0, each));
    for (const record of dead) own[record >> 5] &= ~(1 << (record & 31));
  }
  return words;
}

/** As the way over the host says it. */
function refusal(state: number, message: string): HersError {
  const integrity = (text: string) => new HersError('INTEGRITY', text);
  if (state === CANARY)
    return integrity(
      'the canaries of a block have other scores than they must: the store answered from other data, or altered something',
    );
  if (state === NONSENSE)
    return integrity('this decrypts to values no score can have: it was altered, or comes from another block or key');
  if (state === HEAD)
    return integrity('the store answered for another query, key or number of records than it was asked for');
  if (state === UNKNOWN) return integrity('the store answered for a block or a query that is not part of this search');
  if (state === TWICE) return integrity('the store answered twice for one block');
  if (state === MISSING) return integrity(`the store left out ${message} blocks`);
  if (state === NO_MEMORY)
    return new HersError('UNSUPPORTED_PLAN', `${message}; use a smaller gallery, or another kernel`);
  return new HersError('UNAVAILABLE', `${message}; open the collection again, or use another kernel`);
}
