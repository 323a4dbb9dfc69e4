// The galleries to be damaged: made once per run, each in a state after some event, with an earlier
// state of itself.
//
//   rest      closed in good order
//   killed    the process was killed in the middle of writing: there is a log
//   rotating  killed while keys were rotated: two epochs

import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MasterSeed } from '@hers/client';
import { Dice } from '../cheating/dice.ts';
import { apply, DIMENSION, people, type Step, Truth, type Truths } from './truth.ts';
import type { Kill, Task } from './writer-child.ts';

export const GALLERIES = ['rest', 'killed', 'rotating'] as const;
export type GalleryName = (typeof GALLERIES)[number];

export interface Gallery {
  readonly name: GalleryName;
  readonly folder: string;
  /** The same gallery, some versions before. */
  readonly older: string;
  /** What its client has seen. */
  readonly versions: string;
  readonly truths: Truths;
}

interface Recipe {
  readonly before: readonly Step[];
  readonly after: readonly Step[];
  /** How far the last step may get before the process is killed; undefined if it is not killed. */
  readonly kills?: readonly Kill[];
  /** The same for the last step of `before`. */
  readonly killBefore?: Kill;
}

const write = (name: string, who: readonly number[], revision = 0): Step => ({
  do: 'write',
  name,
  people: who,
  revision,
});
const remove = (name: string, who: readonly number[]): Step => ({ do: 'delete', name, people: who });

const COMPACT = { dimension: DIMENSION };
const EXACT = { dimension: DIMENSION, profile: 'exact' } as const;
/**
 * Records that fill a block under `compact`, and so few that galleries are made and read quickly.
 */
const FULL = 2048;
const FEW = 120;

/**
 * After the first transaction of a rotation, which begins an epoch, and before the second, which
 * moves blocks to it.
 */
const BETWEEN_EPOCHS = { transactions: 1 };

const recipes = (full: number): Record<GalleryName, Recipe> => ({
  rest: {
    before: [
      { do: 'create', name: 'gone', options: COMPACT },
      write('gone', people(0, 20)),
      { do: 'create', name: 'faces', options: COMPACT },
      { do: 'create', name: 'prints', options: EXACT },
      // Two blocks in a segment, and one that is not full.
      write('faces', people(0, 2 * full + 100)),
      remove('faces', [3, 40, 2100]),
      { do: 'optimize', name: 'faces' },
      ...[0, 1, 2].map((part) => write('prints', people(20 * part, 20))),
      remove('prints', [7, 45]),
      { do: 'drop', name: 'gone' },
    ],
    after: [
      remove('faces', [5, 6]),
      // Another pack, a loose block, some pending records, and some replaced ones.
      write('faces', people(5000, full - 40)),
      { do: 'purge', name: 'faces' },
      { do: 'purge', name: 'faces' },
      write('faces', [8, 9, 10, 5001, 5002], 1),
      write('faces', people(8000, 60)),
      remove('faces', [11, 5003, 8001]),
      write('prints', people(100, 9)),
      write('prints', [8, 9, 101], 1),
      remove('prints', [10, 102]),
    ],
  },
  killed: {
    before: [
      { do: 'create', name: 'prints', options: EXACT },
      { do: 'create', name: 'totals', options: EXACT },
      write('prints', people(0, 200)),
      remove('prints', [3, 4]),
      { do: 'optimize', name: 'prints' },
      write('totals', people(0, 99)),
      { do: 'optimize', name: 'totals' },
      remove('totals', [5, 33]),
      { do: 'purge', name: 'totals' },
      write('prints', people(900, 20)),
      // Killed here too, so that lost+found has something.
      write('totals', people(200, 10)),
    ],
    killBefore: { transactions: 0, steps: 4 },
    after: [
      write('prints', people(1000, 80)),
      write('prints', [5, 6, 1000, 1001], 1),
      remove('prints', [7, 8, 1002]),
      { do: 'purge', name: 'prints' },
      write('totals', people(300, 11)),
      remove('totals', [9, 300]),
      write('totals', [11, 12, 301], 1),
      write('prints', people(2000, 50)),
      write('prints', [5, 2000], 2),
      remove('prints', [9, 2001]),
      write('prints', [...people(2100, 30), 10, 2002], 3),
    ],
    kills: [0, 1, 2, 3, 4, 5, 6, 7, 8, 100].map((steps) => ({ transactions: 0, steps })),
  },
  rotating: {
    before: [
      { do: 'create', name: 'faces', options: COMPACT },
      { do: 'create', name: 'prints', options: EXACT },
      write('faces', people(0, full + 30)),
      remove('faces', [1, 2]),
      ...[0, 1].map((part) => write('prints', people(20 * part, 20))),
      remove('prints', [4]),
    ],
    after: [
      write('faces', [3, 4], 1),
      write('faces', people(3000, 40)),
      { do: 'rotate', name: 'prints' },
      write('prints', people(100, 10)),
      remove('faces', [5, 3001]),
      { do: 'rotate', name: 'faces' },
    ],
    kills: [0, 1, 2, 3, 4, 5, 6].map((steps) => ({ ...BETWEEN_EPOCHS, steps })),
  },
});

/**
 * Makes the galleries in a folder, and records their content. Small ones have a segment too, but no
 * full blocks.
 */
export async function makeGalleries(folder: string, seed: number, areSmall = false): Promise<void> {
  const key = Buffer.from(MasterSeed.generate().reveal()).toString('hex');
  for (const name of GALLERIES) {
    const own = join(folder, name);
    mkdirSync(own);
    const { before, after, kills, killBefore } = recipes(areSmall ? FEW : FULL)[name];
    const kill = kills && new Dice(seed, GALLERIES.indexOf(name), 11).of(kills);
    const truths: Truths = new Map();
    const task = { folder: join(own, 'now'), key, versions: join(own, 'versions') };
    await run({ ...task, steps: before, ...(killBefore ? { kill: killBefore } : {}) }, truths);
    cpSync(task.folder, join(own, 'older'), { recursive: true });
    await run({ ...task, steps: after, ...(kill ? { kill } : {}) }, truths);
    writeFileSync(join(own, 'truth.json'), JSON.stringify([...truths]));
  }
  writeFileSync(join(folder, 'key'), key);
}

/** The galleries that were made in a folder. */
export function readGalleries(folder: string): { key: MasterSeed; galleries: Gallery[] } {
  const galleries = GALLERIES.map((name): Gallery => {
    const own = join(folder, name);
    const rows = JSON.parse(readFileSync(join(own, 'truth.json'), 'utf8')) as [
      string,
      Parameters<typeof Truth.from>[0],
    ][];
    return {
      name,
      folder: join(own, 'now'),
      older: join(own, 'older'),
      versions: join(own, 'versions'),
      truths: new Map(rows.map(([collection, truth]) => [collection, Truth.from(truth)])),
    };
  });
  return { key: MasterSeed.from(Buffer.from(readFileSync(join(folder, 'key'), 'utf8'), 'hex')), galleries };
}

/** Has a child run the steps, and follows its messages. */
async function run(task: Task, truths: Truths): Promise<void> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./writer-child.ts', import.meta.url))]);
  child.stdin.end(JSON.stringify(task));
  let said = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (said += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (errors += text));
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (...how) => resolve(how));
  });
  if (task.kill ? signal !== 'SIGKILL' : code !== 0) throw new Error(`a gallery could not be made:\n${errors}`);
  const lines = new Set(said.split('\n'));
  for (const [i, step] of task.steps.entries()) {
    if (lines.has(`done ${i}`)) apply(truths, step, true);
    else if (lines.has(`begin ${i}`)) apply(truths, step, false);
  }
}
