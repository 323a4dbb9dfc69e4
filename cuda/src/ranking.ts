// Decryption and ranking where the responses are: in the memory of a device, to which a store in
// the same process has left them (`keep` of service). What the host does there is the same for any
// number of blocks. What is known of the blocks, their canaries above all, is on the device too,
// from the first search of a view on.

import {
  type Candidate,
  type Codes,
  type DeviceBlocks,
  type DeviceGrouping,
  type DeviceRanking,
  floorOf,
  fromHex,
  type ManifestBlock,
  type RankOptions,
} from '@hers/client/ranking';
import type { CollectionKey, QuerySecret } from '@hers/scheme/secret';
import { HersError, type KeptResponses } from '@hers/service';
import {
  type DeviceQuery,
  type DeviceRing,
  type DeviceRows,
  deviceQuery,
  deviceRing,
  deviceRows,
  deviceWeights,
  fillDeviceRow,
} from './ranking-data.ts';

declare const kind: unique symbol;
type Opaque<Name extends string> = { readonly [kind]: Name };
type DecryptorRef = Opaque<'decryptor'>;
type GalleryRef = Opaque<'gallery'>;
type GroupsRef = Opaque<'groups'>;

/** cuda/ranking/addon.cc. Numbers begin each answer: the state, and what was wrong. */
export interface DeviceAddon {
  openDecryptor(device: number, ring: DeviceRing): DecryptorRef;
  closeDecryptor(decryptor: DecryptorRef): void;
  loadGallery(
    decryptor: DecryptorRef,
    blocks: object,
    before: GalleryRef | undefined,
  ): Promise<[state: number, message: string, gallery: GalleryRef]>;
  unloadGallery(gallery: GalleryRef): void;
  loadGroups(gallery: GalleryRef, groups: object): Promise<[state: number, message: string, groups: GroupsRef]>;
  unloadGroups(groups: GroupsRef): void;
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

// States of cuda/ranking/hers_decrypt.h.
const OK = 0;
const NO_MEMORY = 2;
const HEAD = 32;
const NONSENSE = 33;
const CANARY = 34;
const UNKNOWN = 35;
const TWICE = 36;
const MISSING = 37;
const SUMS = 38;

/** Canaries are made for so many blocks before the event loop runs again. */
const BLOCKS_AT_A_TIME = 64;
/** Of groups, so many candidates are asked for at first for each, and so many times more then. */
const CANDIDATES_FOR_EACH = 4;
const MORE_CANDIDATES = 16;

/** Something on the device that searches use: it is freed after the last of them. */
class Used {
  readonly #free: () => void;
  #uses = 0;
  #isDropped = false;

  constructor(free: () => void) {
    this.#free = free;
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#uses++;
    try {
      return await work();
    } finally {
      if (--this.#uses === 0 && this.#isDropped) this.#free();
    }
  }

  get isDropped(): boolean {
    return this.#isDropped;
  }

  drop(): void {
    if (this.#isDropped) return;
    this.#isDropped = true;
    if (this.#uses === 0) this.#free();
  }
}

/** The groups of a field. */
interface Groups {
  readonly field: string;
  readonly source: object;
  readonly ref: Promise<GroupsRef>;
  readonly used: Used;
}

/** What is on the device of some blocks. */
interface Loaded {
  readonly used: Used;
  readonly of: DeviceBlocks;
  readonly gallery: GalleryRef;
  /** Rows by the id of the block. */
  readonly rows: ReadonlyMap<string, number>;
  /** Of the field that was asked for last. */
  groups?: Groups | undefined;
}

/** Ranks the responses to queries under one key. */
export class CudaRanking implements DeviceRanking {
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

  async rank(
    kept: KeptResponses,
    query: number,
    secret: QuerySecret,
    of: DeviceBlocks,
    slots: readonly (Uint32Array | undefined)[] | undefined,
    options: RankOptions,
    grouping?: DeviceGrouping,
  ): Promise<Candidate[]> {
    const loaded = await this.#load(kept.device, of);
    // Another view may have taken its place just now.
    if (loaded.used.isDropped) return this.rank(kept, query, secret, of, slots, options, grouping);
    return loaded.used.during(async () => {
      if (!grouping) return this.#rank(loaded, kept, query, secret, slots, options);
      const groups = this.#groups(loaded, grouping);
      return groups.used.during(async () =>
        this.#rank(loaded, kept, query, secret, slots, options, grouping, await groups.ref),
      );
    });
  }

  async #rank(
    loaded: Loaded,
    kept: KeptResponses,
    query: number,
    secret: QuerySecret,
    slots: readonly (Uint32Array | undefined)[] | undefined,
    options: RankOptions,
    grouping?: DeviceGrouping,
    groups?: GroupsRef,
  ): Promise<Candidate[]> {
    const { of } = loaded;
    const about = deviceQuery(this.#key, secret, options.query);
    const chosen = slots && aliveOf(of.blocks, this.#key.plan.parameters.n, slots);
    try {
      const ask = (limit: number) => this.#ask(loaded, kept, query, about, { ...options, limit }, chosen, groups);
      if (!grouping) return await ask(options.limit);
      // Blocks have their best of each group, so a group may come once for each of them. Those that
      // are here are better than those that are not: enough groups among them are the best ones.
      let limit = CANDIDATES_FOR_EACH * options.limit;
      for (;;) {
        const candidates = await ask(limit);
        const found = new Set(candidates.map((candidate) => grouping.groupOf(candidate) ?? candidate));
        if (candidates.length < limit || found.size >= options.limit) return candidates;
        limit *= MORE_CANDIDATES;
      }
    } finally {
      about.secret.fill(0);
      about.probe.fill(0);
    }
  }

  async #ask(
    { of, gallery }: Loaded,
    kept: KeptResponses,
    query: number,
    about: DeviceQuery,
    { limit, order, threshold }: RankOptions,
    chosen: Uint32Array | undefined,
    groups: GroupsRef | undefined,
  ): Promise<Candidate[]> {
    const distances = order === 'ascending';
    const { n } = this.#key.plan.parameters;
    const [state, message, blocks, records, scores, decrypt, select] = await this.#addon.rankResponses(
      gallery,
      kept.handle,
      {
        ...about,
        canaryOffset: about.offset,
        probe: new Uint32Array(about.probe.buffer),
        ...{ query, n, distances, chosen, groups, only: kept.only },
        limit: Math.min(limit, of.blocks.length * n),
        floor: floorOf(distances ? -1 : 1, threshold),
      },
    );
    if (state !== OK) throw this.#refusal(state, message);
    this.lastMs = { decrypt, select };
    const candidates: Candidate[] = [];
    for (let i = 0; i < blocks.length; i++)
      candidates.push({ block: of.numbers[blocks[i]], slot: records[i], score: scores[i] });
    scores.fill(0);
    return candidates;
  }

  /** The groups of a field, on the device. */
  #groups(loaded: Loaded, { field, source, codesOf }: DeviceGrouping): Groups {
    const before = loaded.groups;
    if (before?.field === field && before.source === source) return before;
    const { of, gallery } = loaded;
    const { n } = this.#key.plan.parameters;
    before?.used.drop();
    const load = async () => {
      const codes = new Uint16Array(of.blocks.length * n);
      try {
        for (const [i, number] of of.numbers.entries()) {
          codes.set(codesUpTo(n, codesOf(number)), i * n);
          if (i % BLOCKS_AT_A_TIME === BLOCKS_AT_A_TIME - 1) await new Promise((resolve) => setTimeout(resolve, 0));
        }
        const bytes = new Uint8Array(codes.buffer);
        const [state, message, ref] = await this.#addon.loadGroups(gallery, { n, codes: bytes });
        if (state !== OK) throw this.#refusal(state, message);
        return ref;
      } finally {
        codes.fill(0);
      }
    };
    const ref = load();
    const free = () =>
      void ref.then(
        (loadedRef) => this.#addon.unloadGroups(loadedRef),
        () => {},
      );
    const groups = { field, source, ref, used: new Used(free) };
    loaded.groups = groups;
    ref.catch(() => {
      if (loaded.groups === groups) loaded.groups = undefined;
    });
    return groups;
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
    const { canaries, width, parameters, checksumGroup, dimension, profile } = this.#key.plan;
    const { n } = parameters;
    this.#decryptor ??= { device, ref: this.#addon.openDecryptor(device, deviceRing(parameters)) };
    if (this.#decryptor.device !== device)
      throw new HersError('UNSUPPORTED_PLAN', 'responses of one collection are on several devices');
    const { blocks } = of;
    const known = Uint32Array.from(blocks, ({ id }) => before?.rows.get(id) ?? 0xffffffff);
    const fresh = blocks.filter((_, i) => known[i] === 0xffffffff);
    const rows = deviceRows(this.#key, fresh.length);
    const weights = deviceWeights(this.#key);
    try {
      for (const [i, block] of fresh.entries()) {
        const place = of.canariesOf(block);
        fillDeviceRow(this.#key, rows, i, place, of.sumsOf(block));
        if (i % BLOCKS_AT_A_TIME === BLOCKS_AT_A_TIME - 1) await new Promise((resolve) => setTimeout(resolve, 0));
      }
      const ids = new Uint8Array(16 * blocks.length);
      for (const [i, { id }] of blocks.entries()) ids.set(fromHex(id), 16 * i);
      const [state, message, gallery] = await this.#addon.loadGallery(
        this.#decryptor.ref,
        {
          ...{ n, canaries, width, known, ids, weights },
          ...{ group: checksumGroup, dimension: profile === 'exact' ? dimension : 0 },
          ...{ slots: rows.slots, ordered: rows.ordered, summed: rows.summed, sums: rows.sums },
          orders: new Uint8Array(rows.orders.buffer),
          blocks: blocks.length,
          counts: Uint32Array.from(blocks, ({ count }) => count),
          totals: Uint32Array.from(blocks, (block) => of.canariesOf(block).slots),
          fresh: fresh.length,
          values: new Uint32Array(rows.values.buffer),
          alive: blocks.some(({ dead }) => dead.length > 0) ? aliveOf(blocks, n) : undefined,
        },
        before?.gallery,
      );
      if (state !== OK) throw this.#refusal(state, message);
      before?.groups?.used.drop();
      before?.used.drop();
      const used = new Used(() => this.#addon.unloadGallery(gallery));
      const loaded = { used, of, gallery, rows: new Map(blocks.map(({ id }, i) => [id, i])) };
      if (this.#closed) {
        used.drop();
        throw new HersError('CLOSED', 'this collection is closed');
      }
      return loaded;
    } finally {
      wipeRows(rows);
      weights?.fill(0);
    }
  }

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
    await loaded?.groups?.ref.catch(() => undefined);
    loaded?.groups?.used.drop();
    loaded?.used.drop();
    if (this.#decryptor) this.#addon.closeDecryptor(this.#decryptor.ref);
    this.#loaded = undefined;
    this.#decryptor = undefined;
  }
}

function wipeRows({ slots, values, orders, ordered, summed, sums }: DeviceRows): void {
  for (const each of [slots, values, orders, ordered, summed, sums]) each.fill(0);
}

/** Codes of a block, which has no more of them than slots: numbered again if they are larger. */
function codesUpTo(n: number, codes: Codes): Codes {
  if (codes.every((code) => code <= n)) return codes;
  const numbers = new Map([[0, 0]]);
  return codes.map((code) => {
    let number = numbers.get(code);
    if (number === undefined) numbers.set(code, (number = numbers.size));
    return number;
  });
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
  if (state === SUMS)
    return integrity(
      'the scores of a block do not add up to what they must: the store altered something, or mixed it up',
    );
  if (state === HEAD)
    return integrity('the store answered for another query, key or number of records than it was asked for');
  if (state === UNKNOWN) return integrity('the store answered for a block or a query that is not part of this search');
  if (state === TWICE) return integrity('the store answered twice for one block');
  if (state === MISSING) return integrity(`the store left out ${message} blocks`);
  if (state === NO_MEMORY)
    return new HersError('UNSUPPORTED_PLAN', `${message}; use a smaller gallery, or another kernel`);
  return new HersError('UNAVAILABLE', `${message}; open the collection again, or use another kernel`);
}
