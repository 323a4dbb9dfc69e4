// What a client with the key sees of a folder: it requests everything, and compares it with the
// truth. Nothing wrong may come without an error; errors are recorded.

import { type Collection, Database, HersError, type MasterSeed, type VersionMemory } from '@hers/client';
import { scoreOf } from '@hers/client/testing';
import { type FolderStore, openStore } from '@hers/store';
import type { Dice } from '../cheating/dice.ts';
import { idOf, type Plain, type Truth, type Truths } from './truth.ts';

/** When an error came: on opening the folder, on a request, or only from a scrub. */
export type Stage = 'open' | 'trouble' | 'use' | 'scrub';

export interface Said {
  readonly stage: Stage;
  readonly code: string;
  readonly message: string;
}

/** The first places where an error came through. */
export function briefly(error: unknown): string {
  const [first, ...places] = String((error as Error)?.stack ?? error).split('\n');
  const short = places.slice(0, 3).map((place) => place.replace(/^.*\/packages\//, '').replace(/\)$/, ''));
  return [first, ...short].join(' ← ');
}

export class Sight {
  readonly said: Said[] = [];
  readonly wrong: string[] = [];
  /**
   * Less than was acknowledged, or a foreign collection, without an error of its own: then
   * something else must have reported it.
   */
  readonly short: string[] = [];
  isOpen = false;
  isReadOnly = false;

  say(stage: Stage, error: unknown): void {
    if (error instanceof HersError) this.said.push({ stage, code: error.code, message: error.message });
    else this.wrong.push(`an error that is none of ours (${stage}): ${briefly(error)}`);
  }

  has(...stages: Stage[]): boolean {
    return this.said.some(({ stage }) => stages.includes(stage));
  }
}

/** Scores of `compact`, `small` and `open` are noisy, the others' are rounded. */
const TOLERANCE = { compact: 0.06, small: 0.06, open: 0.06, exact: 0.02 };
const QUIET_MS = 2 ** 30;
const PROBES = 3;
const LIMIT = 4;

export interface Access {
  readonly folder: string;
  readonly key: MasterSeed;
  readonly versions: VersionMemory;
  readonly mode: 'write' | 'read';
}

/** Opens a folder as a client does; undefined, and recorded, if it is refused. */
async function enter(
  { folder, key, versions, mode }: Access,
  sight: Sight,
): Promise<{ store: FolderStore; database: Database } | undefined> {
  try {
    const store = await openStore(folder, {
      mode,
      quietMs: QUIET_MS,
      onBackgroundError: (error) => sight.say('trouble', error),
    });
    sight.isOpen = true;
    sight.isReadOnly = store.isReadOnly;
    return { store, database: new Database(store, { key, versions, threads: 1, gallery: `file:${folder}` }) };
  } catch (error) {
    sight.say('open', error);
    return undefined;
  }
}

export async function look(access: Access, truths: Truths, dice: Dice): Promise<Sight> {
  const sight = new Sight();
  const entered = await enter(access, sight);
  if (!entered) return sight;
  const { store, database } = entered;
  try {
    for (const { damage } of store.damagedCollections()) sight.say('trouble', damage);
    for (const [name, truth] of truths) await ask(sight, () => lookInto(database, name, truth, dice, sight));
    await ask(sight, async () => {
      const seen = new Set((await database.listCollections()).map(({ name }) => name));
      for (const name of truths.keys()) if (!seen.has(name)) sight.short.push(`collection ${name} is not listed`);
      for (const name of seen)
        if (!truths.has(name)) sight.short.push(`there is a collection ${name}, and should not be`);
    });
    await ask(sight, async () => {
      for await (const { damage } of store.scrub({ threads: 1 })) if (damage) sight.say('scrub', damage);
    });
    for (const name of truths.keys())
      await ask(sight, async () => {
        for await (const _ of store.snapshot(name));
      });
  } finally {
    await ask(sight, () => database.close());
  }
  if (sight.short.length > 0 && sight.said.length === 0) sight.wrong.push(...sight.short);
  return sight;
}

async function ask(sight: Sight, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    sight.say('use', error);
  }
}

async function lookInto(database: Database, name: string, truth: Truth, dice: Dice, sight: Sight): Promise<void> {
  const collection = await database.collection(name);
  const certain = truth.certain();
  const say = (what: string) => sight.wrong.push(`${name}: ${what}`);
  const checkShort = (seen: { has(id: string): boolean }, how: string) => {
    const lost = certain.filter((person) => !seen.has(idOf(person)));
    if (lost.length > 0)
      sight.short.push(`${name}: ${lost.length} records are not ${how}, the first is ${idOf(lost[0])}`);
  };
  let listed: string[] = [];
  await ask(sight, async () => {
    listed = await Array.fromAsync(collection.list());
    for (const id of listed) if (truth.possible(id).length === 0) say(`${id} is listed, and is not there`);
    if (new Set(listed).size !== listed.length) say('a record is listed twice');
    checkShort(new Set(listed), 'listed');
    if ((await collection.count()) !== listed.length) say('the count is another than that of the list');
  });
  await ask(sight, async () => {
    const records = await collection.get(listed.length > 0 ? listed : certain.map(idOf));
    for (const record of records) if (!isPossible(truth, record)) say(`${record.id} is not as it was written`);
    checkShort(new Set(records.map(({ id }) => id)), 'given');
  });
  await ask(sight, () => searchIn(collection, truth, dice, sight));
}

function isPossible(truth: Truth, record: Omit<Plain, 'vector'> & { readonly vector: ArrayLike<number> }): boolean {
  return truth
    .possible(record.id)
    .some(
      ({ vector, payload }) =>
        vector.every((x, i) => x === record.vector[i]) && JSON.stringify(payload) === JSON.stringify(record.payload),
    );
}

async function searchIn(collection: Collection, truth: Truth, dice: Dice, sight: Sight): Promise<void> {
  const certain = truth.certain().filter((person) => truth.get(person).length === 1);
  if (certain.length === 0) return;
  const probes = Array.from({ length: PROBES }, () => truth.possible(idOf(dice.of(certain)))[0]);
  const profile = truth.options.profile ?? 'compact';
  const say = (what: string) => sight.wrong.push(`${collection.name}: ${what}`);
  const check = async (options: { payload?: true; rerank?: true }, some: readonly Plain[]) => {
    const results = await collection.searchBatch(
      some.map(({ vector }) => vector),
      { limit: LIMIT, ...options },
    );
    for (const [i, { matches, coverage }] of results.entries()) {
      for (const { id, score, payload } of matches) {
        const possible = truth.possible(id);
        const near = possible.some(
          ({ vector }) => Math.abs(score - scoreOf('cosine', vector, some[i].vector)) < TOLERANCE[profile],
        );
        if (possible.length === 0) say(`${id} is found, and is not there`);
        else if (!near) say(`${id} is found with the score ${score}, which is wrong`);
        if (options.payload && !possible.some((plain) => JSON.stringify(plain.payload) === JSON.stringify(payload)))
          say(`${id} is found with a wrong payload`);
      }
      if (!matches.some(({ id }) => id === some[i].id)) sight.short.push(`${some[i].id} is not found`);
      if (coverage.searched !== coverage.total || coverage.total < certain.length)
        sight.short.push(`a search covers ${coverage.searched} of ${coverage.total}`);
    }
  };
  await ask(sight, () => check({}, probes));
  await ask(sight, () => check({ payload: true, rerank: true }, probes.slice(0, 1)));
}

/** The ids that a folder lists, by collection; throws on errors. */
export async function listAll({ folder, key, versions, mode }: Access): Promise<Map<string, Set<string>>> {
  const store = await openStore(folder, { mode, quietMs: QUIET_MS, onBackgroundError: () => {} });
  const database = new Database(store, { key, versions, threads: 1, gallery: `file:${folder}` });
  try {
    const all = new Map<string, Set<string>>();
    for (const { name } of await database.listCollections())
      all.set(name, new Set(await Array.fromAsync((await database.collection(name)).list())));
    return all;
  } finally {
    await database.close();
  }
}

/**
 * Writes, replaces and deletes a few records in every collection. Afterwards `truths` has what was
 * acknowledged, and what may have been written.
 */
export async function change(access: Access, truths: Truths, dice: Dice, write: Change): Promise<Sight> {
  const sight = new Sight();
  const entered = await enter(access, sight);
  if (!entered) return sight;
  const { database } = entered;
  try {
    for (const [name, truth] of truths)
      await ask(sight, async () =>
        write(await database.collection(name), truth, dice, (error) => sight.say('use', error)),
      );
  } finally {
    await ask(sight, () => database.close());
  }
  return sight;
}

export type Change = (
  collection: Collection,
  truth: Truth,
  dice: Dice,
  onError: (error: unknown) => void,
) => Promise<void>;
