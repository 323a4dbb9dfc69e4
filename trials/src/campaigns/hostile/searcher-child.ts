// Many searchers in one process. They search for records that were acknowledged before they began.
// For busy.ts alone.

import { type Collection, connect } from '@hers/client';
import { Dice } from '../cheating/dice.ts';
import { dot, TOLERANCE, vectorOf } from './vectors.ts';

export interface SearcherOrder {
  readonly url: string;
  readonly token: string;
  readonly key: string;
  readonly collection: string;
  readonly seed: number;
  readonly number: number;
  readonly searchers: number;
  /** How many connections to the database they share. */
  readonly handles: number;
}

export type SearcherSignal = { readonly acknowledged: number } | 'stop';

/** That they begin, and what they found. */
export type SearcherTold = { readonly ready: true } | Found;

export interface Found {
  readonly times: readonly number[];
  readonly wrong: readonly string[];
  readonly failed: readonly string[];
  readonly retries: number;
}

/** Every second search is for one of the latest records. */
const LAST = 1000;

let acknowledged = 0;
let isRunning = true;
const told = { times: [] as number[], wrong: [] as string[], failed: [] as string[], retries: 0 };
process.on('disconnect', () => process.exit());
process.on('message', async (order: SearcherOrder | SearcherSignal) => {
  if (order === 'stop') isRunning = false;
  else if ('acknowledged' in order) acknowledged = order.acknowledged;
  else {
    await work(order);
    process.send!(told satisfies SearcherTold);
  }
});

async function work(order: SearcherOrder): Promise<void> {
  const { url, token, key, collection: name, seed, number, searchers, handles } = order;
  const onRetry = () => {
    told.retries++;
  };
  const open = async () => {
    const db = await connect(url, { key: Buffer.from(key, 'hex'), token, threads: 1, onRetry });
    return db.collection(name);
  };
  const collections = await Promise.all(Array.from({ length: handles }, open));
  const search = async (i: number) => {
    const dice = new Dice(seed, number, i);
    while (isRunning) await searchOnce(collections[i % handles], dice, seed);
  };
  process.send!({ ready: true } satisfies SearcherTold);
  await Promise.all(Array.from({ length: searchers }, (_, i) => search(i)));
}

async function searchOnce(collection: Collection, dice: Dice, seed: number): Promise<void> {
  const known = acknowledged;
  const i = dice.happens(0.5) ? dice.below(known) : known - 1 - dice.below(Math.min(LAST, known));
  const probe = vectorOf(seed, i);
  const since = performance.now();
  try {
    const { matches, coverage } = await collection.search(probe, { limit: 3 });
    told.times.push(performance.now() - since);
    if (coverage.searched !== coverage.total) told.wrong.push('a search did not cover everything');
    if (coverage.total < known) told.wrong.push(`${known} records were there, and ${coverage.total} were searched`);
    if (matches[0]?.id !== String(i)) told.wrong.push(`${i} was looked for, and ${matches[0]?.id} was found`);
    for (const { id, score } of matches) {
      const right = dot(probe, vectorOf(seed, Number(id)));
      if (Math.abs(score - right) > TOLERANCE) told.wrong.push(`${id} has the score ${right}, not ${score}`);
    }
  } catch (error) {
    told.failed.push(String(error));
  }
}
