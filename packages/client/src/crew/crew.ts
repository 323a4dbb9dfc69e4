// What does the cryptography: this thread, or several. A crew seals records, encrypts blocks, and
// decrypts and ranks responses; a crew of workers does so on all cores.

import { type Plan, type PlanRequest, plan } from '@hers/scheme';
import {
  type CanaryPlace,
  type CollectionKey,
  canaryChecker,
  decodeScoreSums,
  encodeScoreSums,
  encryptBlock,
  MasterSeed,
  QuerySecret,
  scoreChecker,
  scoreSums,
  withCanaries,
} from '@hers/scheme/secret';
import { type QueryResponses, ResponseSecrets } from '@hers/scheme/secret/open';
import { freeBytes, HersError } from '@hers/service';
import { hashText } from '#sealing';
import type { Codes } from '../fields/column.ts';
import type { PlainBatch, SealedBatch } from '../formats/batch.ts';
import { RecordKeys, sealingKey } from '../formats/records.ts';
import { makeSealer } from '../sealing/sealing.ts';
import { type Candidate, type Order, Ranking } from './ranking.ts';
import type { Answer, Task } from './workers.ts';

/** What keys are derived from; workers derive their own. */
export interface KeyMaterial {
  readonly seed: Uint8Array;
  readonly request: PlanRequest;
  readonly collectionId: Uint8Array;
  readonly epoch: number;
}

/**
 * Decrypts the responses to one query: by its own secret, or for open queries by the collection's.
 */
export type Decryption = QuerySecret | OpenDecryption;

export interface OpenDecryption {
  readonly queryId: Uint8Array;
  readonly generation: number;
}

export interface DecryptTask {
  readonly response: Uint8Array;
  /** Of a packed response: which of its blocks. */
  readonly place?: number | undefined;
  /** The block's number among those of the search, for the candidates. */
  readonly block: number;
  readonly canaries: CanaryPlace;
  /** Records to leave out, by their number among those of the block. */
  readonly dead: readonly number[];
  /** Records that count, if not all do: bit j & 31 of word j >> 5 for record j. */
  readonly slots?: Uint32Array | undefined;
  /** The group of every record, if only the best of each counts. Those of 0 are groups of one. */
  readonly groups?: Codes | undefined;
  /** What its scores must add up to, where that is known. */
  readonly sums?: Uint8Array | undefined;
}

export interface RankOptions {
  readonly limit: number;
  readonly order: Order;
  readonly threshold?: number;
  /** The vector that was searched for, to check canaries and the sums of scores. */
  readonly query: Float32Array;
}

/** A block, and under `exact` what its scores add up to (`scoreSums` of scheme/secret). */
export interface EncryptedBlock {
  readonly block: Uint8Array;
  /** Its SHA-256, hexadecimal. */
  readonly hash: string;
  readonly sums?: Uint8Array;
}

export interface Crew {
  /** How many blocks it works on at a time. */
  readonly size: number;
  /** Names records and seals them under the crew's epoch. */
  seal(batch: PlainBatch): Promise<SealedBatch>;
  /**
   * A block of these vectors, with its canaries. Its id begins with the handle of its partition, if
   * that is given. Takes ownership of the vectors.
   */
  encrypt(vectors: Float32Array, handle?: Uint8Array): Promise<EncryptedBlock>;
  /**
   * The best of these responses to one query; with groups, the best of each block. INTEGRITY if a
   * canary has another score than it must have, or scores do not add up, which only the crew of
   * their space can check. The memory of the tasks may not change before the promise settles.
   */
  decrypt(secret: Decryption, tasks: readonly DecryptTask[], options: RankOptions): Promise<Candidate[]>;
  close(): Promise<void>;
}

export function keyFrom({ seed, request, collectionId, epoch }: KeyMaterial): CollectionKey {
  using master = MasterSeed.from(seed);
  return master.collectionKey(plan(request), collectionId, epoch);
}

export interface BatchSealer {
  seal(batch: PlainBatch): Promise<SealedBatch>;
  wipe(): void;
}

/** Copies the seed before it returns its promise. */
async function sealerFrom(material: KeyMaterial): Promise<BatchSealer> {
  const { collectionId, epoch } = material;
  const master = MasterSeed.from(material.seed);
  try {
    const keys = await RecordKeys.of(master, collectionId);
    const sealer = await makeSealer(sealingKey(master, collectionId, epoch));
    return {
      seal: (batch) => keys.seal(sealer, epoch, batch),
      wipe: () => {
        keys.wipe();
        sealer.wipe();
      },
    };
  } finally {
    master.wipe();
  }
}

export function encrypted(
  key: CollectionKey,
  vectors: Float32Array,
  handle?: Uint8Array,
): Omit<EncryptedBlock, 'hash'> {
  const blockId = crypto.getRandomValues(new Uint8Array(16));
  if (handle) blockId.set(handle);
  const all = withCanaries(key, vectors, blockId);
  const sums = key.plan.profile === 'exact' ? { sums: encodeScoreSums(scoreSums(key, all)) } : {};
  const block = encryptBlock(key, all, { blockId });
  if (all !== vectors) freeBytes(all);
  return { block, ...sums };
}

/** With the hash: where a block is made, because whoever wants it has more to do. */
export async function hashed(made: Omit<EncryptedBlock, 'hash'>): Promise<EncryptedBlock> {
  return { ...made, hash: await hashText(made.block) };
}

/** Decrypts and ranks. Decryption gives squared distances; candidates have plain ones. */
export function rankResponses(
  key: CollectionKey,
  secret: Pick<QueryResponses, 'decrypt'>,
  tasks: readonly DecryptTask[],
  { limit, order, threshold, query }: RankOptions,
): Candidate[] {
  const all = new Ranking(limit, order, threshold);
  // What belongs together is only known within a block, so there each block has its own best.
  const grouped: Candidate[] = [];
  const checked = canaryChecker(key, query);
  // One for all: to collect a thousand arrays takes longer than to fill them.
  const room = new Float32Array(key.plan.parameters.n);
  let addUp: ReturnType<typeof scoreChecker> | undefined;
  for (const { response, place, block, canaries, dead, slots, groups, sums } of tasks) {
    const decrypted = secret.decrypt(response, room, place);
    const { integers } = decrypted;
    try {
      const scores = checked(canaries, decrypted);
      if (!scores)
        throw new HersError(
          'INTEGRITY',
          'the canaries of a block have other scores than they must: the store answered from other data, or altered something',
        );
      if (sums && integers) {
        addUp ??= scoreChecker(key, query);
        if (!addUp(decodeScoreSums(key.plan, sums), integers))
          throw new HersError(
            'INTEGRITY',
            'the scores of a block do not add up to what they must: the store altered something, or mixed it up',
          );
      }
      if (order === 'ascending') toDistances(scores);
      for (const slot of dead) scores[slot] = Number.NaN;
      if (groups && slots) leaveOut(scores, slots);
      if (groups) keepBest(scores, groups, order);
      const ranking = groups ? new Ranking(limit, order, threshold) : all;
      ranking.offer(block, 0, scores, slots);
      if (groups) grouped.push(...ranking.best());
    } finally {
      decrypted.scores.fill(0);
      integers?.fill(0);
    }
  }
  return [...grouped, ...all.best()];
}

type Scores = Float32Array | Float64Array;

/** NaN for those that do not count. */
function leaveOut(scores: Scores, slots: Uint32Array): void {
  for (let slot = 0; slot < scores.length; slot++)
    if (((slots[slot >> 5] >>> (slot & 31)) & 1) === 0) scores[slot] = Number.NaN;
}

/** NaN for all but the best of each group. */
function keepBest(scores: Scores, groups: Codes, order: Order): void {
  const best = new Map<number, number>();
  for (let slot = 0; slot < scores.length; slot++) {
    const group = groups[slot];
    if (group === 0 || Number.isNaN(scores[slot])) continue;
    const other = best.get(group);
    const isBetter =
      other === undefined || (order === 'descending' ? scores[slot] > scores[other] : scores[slot] < scores[other]);
    if (isBetter) best.set(group, slot);
    const worse = isBetter ? other : slot;
    if (worse !== undefined) scores[worse] = Number.NaN;
  }
}

/** Noise can make the square of a small distance negative. */
export function toDistances(squares: Float32Array | Float64Array): void {
  for (let j = 0; j < squares.length; j++) squares[j] = Math.sqrt(Math.max(0, squares[j]));
}

/** A crew of one: this thread. It does not keep or overwrite the material. */
export class InProcessCrypto implements Crew {
  readonly size = 1;
  readonly #key: CollectionKey;
  /** By generation, made when first needed. */
  readonly #open = new Map<number, ResponseSecrets>();
  readonly #sealing: Promise<BatchSealer>;

  constructor(material: KeyMaterial) {
    this.#key = keyFrom(material);
    this.#sealing = sealerFrom(material);
  }

  get plan(): Plan {
    return this.#key.plan;
  }

  async seal(batch: PlainBatch): Promise<SealedBatch> {
    return (await this.#sealing).seal(batch);
  }

  async encrypt(vectors: Float32Array, handle?: Uint8Array): Promise<EncryptedBlock> {
    return hashed(encrypted(this.#key, vectors, handle));
  }

  async decrypt(secret: Decryption, tasks: readonly DecryptTask[], options: RankOptions): Promise<Candidate[]> {
    const decryption = secret instanceof QuerySecret ? secret : this.#opening(secret, options.query);
    return rankResponses(this.#key, decryption, tasks, options);
  }

  #opening({ queryId, generation }: OpenDecryption, vector: Float32Array): QueryResponses {
    let secrets = this.#open.get(generation);
    if (!secrets) this.#open.set(generation, (secrets = new ResponseSecrets(this.#key, generation)));
    return secrets.of(queryId, vector);
  }

  async close(): Promise<void> {
    for (const secrets of this.#open.values()) secrets.wipe();
    this.#open.clear();
    this.#key.wipe();
    (await this.#sealing.catch(() => undefined))?.wipe();
  }
}

/** Where an array lies, and how many bytes an element has. */
type Place = readonly [at: number, length: number, width: number];

interface PackedTask extends Omit<DecryptTask, 'response' | 'slots' | 'groups' | 'sums'> {
  readonly places: readonly (Place | undefined)[];
}

export interface PackedTasks {
  readonly memory: ArrayBuffer;
  readonly tasks: readonly PackedTask[];
}

/** Arrays of any type begin at a multiple of this. */
const ALIGNMENT = 8;

const aligned = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/**
 * Lays what belongs to one message into one piece of memory, which moves: a message that copies
 * hundreds of small arrays costs more than decrypting them. The memory is new, or some that is no
 * longer needed, if it is large enough.
 */
export function packTasks(tasks: readonly DecryptTask[], spare?: ArrayBuffer): PackedTasks {
  const arraysOf = ({ response, slots, groups, sums }: DecryptTask) => [response, slots, groups, sums];
  // Several tasks may be about one packed response.
  const all = new Set(tasks.flatMap((task) => arraysOf(task).filter((array) => array !== undefined)));
  let total = 0;
  for (const array of all) total += aligned(array.byteLength);
  const bytes = new Uint8Array(spare && spare.byteLength >= total ? spare : new ArrayBuffer(total));
  const places = new Map<Codes, Place>();
  let at = 0;
  const pack = (array: Codes | undefined): Place | undefined => {
    if (!array) return undefined;
    const known = places.get(array);
    if (known) return known;
    const place: Place = [at, array.length, array.BYTES_PER_ELEMENT];
    places.set(array, place);
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), at);
    at += aligned(array.byteLength);
    return place;
  };
  const packed = tasks.map((task) => {
    const { place, block, canaries, dead } = task;
    return { ...(place === undefined ? {} : { place }), block, canaries, dead, places: arraysOf(task).map(pack) };
  });
  return { memory: bytes.buffer, tasks: packed };
}

export function unpackTasks({ memory, tasks }: PackedTasks): DecryptTask[] {
  const known = new Map<number, Codes>();
  const unpack = (place: Place | undefined): Codes | undefined => {
    if (!place) return undefined;
    const [at, length, width] = place;
    const found = known.get(at);
    if (found && length > 0) return found;
    const array =
      width === 1
        ? new Uint8Array(memory, at, length)
        : width === 2
          ? new Uint16Array(memory, at, length)
          : new Uint32Array(memory, at, length);
    if (length > 0) known.set(at, array);
    return array;
  };
  return tasks.map(({ places, ...rest }) => {
    const [response, slots, groups, sums] = places.map(unpack);
    return { ...rest, response, slots, groups, sums } as DecryptTask;
  });
}

export interface Done {
  readonly answer: Answer;
  /** Memory that moves back instead of being copied. */
  readonly transfer: ArrayBuffer[];
}

/** Takes ownership of the seed, and overwrites it once the keys are derived. */
export function workFor(material: KeyMaterial): (task: Task) => Promise<Done> {
  const crew = crewFrom(material);

  async function perform(task: Task): Promise<unknown> {
    if (task.kind === 'wipe') {
      await crew.close();
      return {};
    }
    if (task.kind === 'seal') return crew.seal(task.batch);
    if (task.kind === 'encrypt') return crew.encrypt(task.vectors, task.handle);
    const tasks = unpackTasks(task.packed);
    if (!('secret' in task.secret)) return crew.decrypt(task.secret, tasks, task.options);
    using secret = QuerySecret.from(crew.plan, task.secret);
    return await crew.decrypt(secret, tasks, task.options); // awaited: the secret is wiped on the way out
  }

  return async (task) => {
    try {
      const value = await perform(task);
      // These came for the task alone.
      if (task.kind === 'seal') freeBytes(...Object.values(task.batch).filter(ArrayBuffer.isView));
      if (task.kind === 'encrypt') freeBytes(task.vectors);
      // What responses came in goes back, for others: memory of every search would be garbage here.
      const spare = task.kind === 'decrypt' ? task.packed.memory : undefined;
      return { answer: { value, spare }, transfer: spare ? [spare] : memoryOf(value) };
    } catch (error) {
      // Only the typed ones are meant for people; a worker's stack would help nobody.
      const { code, message } = error instanceof HersError ? error : { code: 'INTEGRITY', message: 'a worker failed' };
      return { answer: { code, message }, transfer: [] };
    }
  };
}

function crewFrom(material: KeyMaterial): InProcessCrypto {
  try {
    return new InProcessCrypto(material);
  } finally {
    material.seed.fill(0);
  }
}

function memoryOf(value: unknown): ArrayBuffer[] {
  const arrays = value instanceof Uint8Array ? [value] : Object.values(value as object);
  return arrays.filter((array) => ArrayBuffer.isView(array)).map((array) => array.buffer as ArrayBuffer);
}
