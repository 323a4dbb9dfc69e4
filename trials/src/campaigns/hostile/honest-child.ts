// The honest client, in its own process: enrols a collection, then searches, reads and changes it,
// and checks every answer. For campaign.ts alone.

import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Collection, connect, MasterSeed } from '@hers/client';
import { Dice } from '../cheating/dice.ts';
import { DIMENSION, dot, TOLERANCE, vectorOf } from './vectors.ts';

export type HonestOrder =
  | {
      readonly url: string;
      readonly token: string;
      readonly collection: string;
      readonly records: number;
      readonly seed: number;
    }
  | 'go'
  | 'stop';

export interface Done {
  readonly what: 'search' | 'get' | 'upsert' | 'delete' | 'knock';
  /** `Date.now()`. */
  readonly began: number;
  readonly ms: number;
  /** What was wrong with the answer, or the error that came instead. */
  readonly wrong?: string;
  readonly failed?: string;
}

export type HonestTold =
  | { readonly ready: true }
  | { readonly done: Done }
  | { readonly retry: true }
  | { readonly stopped: true };

const PAUSE_MS = 30;
const KNOCK_MS = 20_000;

const tell = (told: HonestTold) => process.send!(told);
process.on('disconnect', () => process.exit());

class Honest {
  readonly #collection: Collection;
  readonly #dice: Dice;
  readonly #order: Exclude<HonestOrder, string>;
  /** Which vector each record has. */
  readonly #truth: Map<string, number>;
  /** Records whose last change failed: it may have been executed. */
  readonly #doubtful = new Set<string>();
  #fresh: number;

  private constructor(collection: Collection, order: Exclude<HonestOrder, string>) {
    const { seed, records } = order;
    this.#collection = collection;
    this.#dice = new Dice(seed, 77);
    this.#order = order;
    this.#truth = new Map(Array.from({ length: records }, (_, i) => [`r${i}`, i]));
    this.#fresh = records;
  }

  static async open(order: Exclude<HonestOrder, string>): Promise<Honest> {
    const { url, token, collection: name, records } = order;
    const onRetry = () => tell({ retry: true });
    const db = await connect(url, { key: MasterSeed.generate(), token, threads: 1, onRetry });
    const collection = await db.createCollection(name, { dimension: DIMENSION });
    const honest = new Honest(collection, order);
    await collection.upsert(Array.from({ length: records }, (_, i) => honest.#record(`r${i}`, i)));
    await collection.optimize();
    return honest;
  }

  #vector(i: number): Float32Array {
    return vectorOf(this.#order.seed, i);
  }

  #record(id: string, i: number) {
    return { id, vector: this.#vector(i), payload: { number: i } };
  }

  #anyId(): string {
    for (;;) {
      const id = `r${this.#dice.below(this.#truth.size)}`;
      if (!this.#doubtful.has(id)) return id;
    }
  }

  async #change<T>(id: string, call: () => Promise<T>): Promise<T> {
    this.#doubtful.add(id);
    const result = await call();
    this.#doubtful.delete(id);
    return result;
  }

  async step(): Promise<Done> {
    const what = this.#dice.weighted([
      [85, 'search'],
      [5, 'get'],
      [5, 'knock'],
      [3, 'upsert'],
      [2, 'delete'],
    ] as const);
    const began = Date.now();
    const since = performance.now();
    try {
      const wrong = await this[what]();
      return { what, began, ms: performance.now() - since, ...(wrong ? { wrong } : {}) };
    } catch (error) {
      const { code = (error as Error).name, message } = error as Error & { code?: string };
      return { what, began, ms: performance.now() - since, failed: `${code}: ${message}` };
    }
  }

  async search(): Promise<string | undefined> {
    const id = this.#anyId();
    const i = this.#truth.get(id);
    const probe = this.#vector(i ?? this.#dice.below(this.#fresh));
    const { matches, coverage } = await this.#collection.search(probe, { limit: 3 });
    if (coverage.searched !== coverage.total) return 'a search did not cover everything';
    if (i !== undefined && matches[0]?.id !== id && !this.#doubtful.has(matches[0]?.id))
      return `${id} was looked for, and ${matches[0]?.id} was found`;
    for (const match of matches) {
      if (this.#doubtful.has(match.id)) continue;
      const own = this.#truth.get(match.id);
      if (own === undefined) return `${match.id} was found, and is not there`;
      const score = dot(probe, this.#vector(own));
      if (Math.abs(match.score - score) > TOLERANCE) return `${match.id} has the score ${score}, not ${match.score}`;
    }
    return undefined;
  }

  async get(): Promise<string | undefined> {
    const id = this.#anyId();
    const i = this.#truth.get(id);
    if (i === undefined) return undefined;
    const [record] = await this.#collection.get(id);
    const { number } = record.payload as { number: number };
    if (number !== i) return `${id} has the payload ${number}, not ${i}`;
    return dot(record.vector, this.#vector(i)) < 0.999 ? `${id} has another vector` : undefined;
  }

  /** A new client has no connection to the server yet. */
  async knock(): Promise<string | undefined> {
    const status = await new Promise<number>((resolve, reject) => {
      const headers = { authorization: `Bearer ${this.#order.token}` };
      const asked = request(`${this.#order.url}/v1`, { agent: false, timeout: KNOCK_MS, headers });
      asked.on('response', (answer) => resolve(answer.resume().statusCode ?? 0));
      asked.on('timeout', () => asked.destroy(new Error('no answer on a new line')));
      asked.on('error', reject);
      asked.end();
    });
    return status === 200 ? undefined : `a new client was answered with ${status}`;
  }

  async upsert(): Promise<string | undefined> {
    // A new record, a deleted one, or a replacement.
    const id = this.#dice.happens(0.3) ? `n${this.#fresh}` : this.#anyId();
    const i = this.#fresh++;
    await this.#change(id, () => this.#collection.upsert(this.#record(id, i)));
    this.#truth.set(id, i);
    return undefined;
  }

  async delete(): Promise<string | undefined> {
    const id = this.#anyId();
    const wasThere = this.#truth.has(id);
    const count = await this.#change(id, () => this.#collection.delete(id));
    this.#truth.delete(id);
    return count === (wasThere ? 1 : 0) ? undefined : `${count} records were deleted as ${id}`;
  }
}

let honest: Honest;
let isRunning = false;
process.on('message', async (order: HonestOrder) => {
  if (order === 'stop') {
    isRunning = false;
  } else if (order === 'go') {
    isRunning = true;
    while (isRunning) {
      tell({ done: await honest.step() });
      await sleep(PAUSE_MS);
    }
    tell({ stopped: true });
  } else {
    honest = await Honest.open(order);
    tell({ ready: true });
  }
});
