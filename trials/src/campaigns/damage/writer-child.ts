// Runs steps on a gallery, and prints what it begins and what was acknowledged. Then it closes the
// gallery, or is killed. For galleries.ts alone.

import { readFileSync, writeSync } from 'node:fs';
import { type Collection, Database, MasterSeed } from '@hers/client';
import { VersionFile } from '@hers/client/versions';
import type { FolderStore } from '@hers/store';
import { openWatched } from '@hers/store/testing/watched';
import { idOf, plainOf, type Step } from './truth.ts';

/**
 * In the last step: after this many transactions of the catalogue, and then this many file
 * operations.
 */
export interface Kill {
  readonly transactions: number;
  readonly steps: number;
}

export interface Task {
  readonly folder: string;
  readonly key: string;
  readonly versions: string;
  readonly steps: readonly Step[];
  /** Ends by SIGKILL: here, or when everything is done. */
  readonly kill?: Kill;
}

/** Kills the process when the last step has got this far. */
class Fuse {
  #transactions: number;
  #steps: number;
  isLit = false;

  constructor({ transactions, steps }: Kill) {
    this.#transactions = transactions;
    this.#steps = steps;
  }

  burn(kind: string): void {
    if (!this.isLit) return;
    if (this.#transactions > 0) {
      if (kind === 'commit') this.#transactions--;
      if (this.#transactions > 0) return;
    }
    if (this.#steps-- > 0) return;
    die();
  }
}

function die(): void {
  process.kill(process.pid, 'SIGKILL');
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

async function perform(store: FolderStore, db: Database, step: Step): Promise<void> {
  if (step.do === 'create') await db.createCollection(step.name, step.options);
  else if (step.do === 'drop') await db.deleteCollection(step.name);
  else if (step.do === 'purge') await store.purge(step.name);
  else await change(await db.collection(step.name), step);
}

async function change(collection: Collection, step: Exclude<Step, { do: 'create' | 'drop' | 'purge' }>): Promise<void> {
  if (step.do === 'write') await collection.upsert(step.people.map((person) => plainOf(person, step.revision)));
  else if (step.do === 'delete') await collection.delete(step.people.map(idOf));
  else if (step.do === 'optimize') await collection.optimize();
  else await collection.rotateKey();
}

/** Synchronous, because the process may not live long enough to print it later. */
const say = (line: string) => writeSync(1, `${line}\n`);

const { folder, key, versions, steps, kill }: Task = JSON.parse(readFileSync(0, 'utf8'));
const fuse = new Fuse(kill ?? { transactions: 0, steps: 0 });
const store = await openWatched(folder, { quietMs: 2 ** 30 }, { after: ({ kind }) => fuse.burn(kind) });
const db = new Database(store, {
  key: MasterSeed.from(Buffer.from(key, 'hex')),
  threads: 1,
  gallery: `file:${folder}`,
  versions: new VersionFile(versions),
});
for (const [i, step] of steps.entries()) {
  say(`begin ${i}`);
  fuse.isLit = kill !== undefined && i === steps.length - 1;
  await perform(store, db, step);
  say(`done ${i}`);
}
if (kill) die();
await db.close();
