// Kills processes that write to a folder, at every fault point and at random moments, and checks
// the folder: it holds everything acknowledged, at most the one step that was running, completely
// or not at all, and nothing else.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { ReferenceKernel } from '@hers/scan';
import { PARTITION_BYTES } from '@hers/service';
import { openStore } from '../src/store.ts';
import { PARTITIONED, Script, stepsHeld } from './crash-script.ts';

const CHILD = fileURLToPath(new URL('./crash-child.ts', import.meta.url));

export interface ChildRun {
  /** Steps acknowledged, from the first of the script on. */
  readonly acknowledged: number;
  /** Whether it exited by itself. */
  readonly finished: boolean;
  readonly signal: NodeJS.Signals | null;
}

export interface ChildOptions {
  readonly folder: string;
  readonly seed: number;
  /** How much of everything, as in `Script`. */
  readonly share: number;
  readonly first?: number;
  readonly steps: number;
  /** Whether the folder holds shards. */
  readonly shards?: boolean;
  /** A fault point, with a count. */
  readonly fault?: string;
  /** Milliseconds after opening the folder at which it is killed. */
  readonly killAfter?: number;
}

/** Runs the child until it exits or is killed. */
export async function runChild(options: ChildOptions): Promise<ChildRun> {
  const { folder, seed, share, first = 0, steps, shards, fault, killAfter } = options;
  const env = { ...process.env, HERS_FAULT: fault ?? '', NODE_V8_COVERAGE: '' };
  const args = [CHILD, folder, ...[seed, share, first, steps].map(String), ...(shards ? ['shards'] : [])];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  child.stdout.setEncoding('utf8').on('data', (text) => {
    if (output === '' && killAfter !== undefined) setTimeout(() => child.kill('SIGKILL'), killAfter);
    output += text;
  });
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (...how) => resolve(how));
  });
  if (code !== 0 && signal !== 'SIGKILL') throw new Error(`the child failed by itself:\n${errors}`);
  const done = [...output.matchAll(/^done (\d+)$/gm)].length;
  return { acknowledged: first + done, finished: code === 0, signal };
}

/** Opens a folder after a crash, checks it, and returns how many steps of the script it holds. */
export async function checkFolder(folder: string, script: Script, acknowledged: number): Promise<number> {
  const store = await openStore(folder, { kernel: async () => new ReferenceKernel() });
  try {
    const held = await stepsHeld(store, script, acknowledged);
    // It continues: the next two steps work as well.
    await script.step(held).run(store);
    await script.step(held + 1).run(store);
    await stepsHeld(store, script, held + 2);
    return held + 2;
  } finally {
    await store.close();
    await checkTidy(folder);
    if (script.hasPartitions) checkApart(folder);
  }
}

/** No segment holds blocks of two partitions, but one that was made from a snapshot. */
function checkApart(folder: string): void {
  using catalogue = new DatabaseSync(join(folder, 'catalogue.db'), { readOnly: true });
  const rows = catalogue.prepare('SELECT file, id FROM blocks_1 WHERE position IS NOT NULL').all();
  const partitions = new Map<unknown, string>();
  for (const { file, id } of rows) {
    const handle = Buffer.from(id as Uint8Array).toString('hex', 0, PARTITION_BYTES);
    assert.equal(partitions.get(file) ?? handle, handle, 'a segment of two partitions');
    partitions.set(file, handle);
  }
}

/** The folder holds nothing that only a crash can explain. */
async function checkTidy(folder: string): Promise<void> {
  const files = (await readdir(folder, { recursive: true })).filter((file) => /\.(?:tmp|building)$/.test(file));
  assert.deepEqual(files, [], 'files left over');
}

/**
 * A killed process loses nothing that is in the operating system's memory. So the folder may be in
 * memory, where syncing is free.
 */
const PARENT = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

export function makeFolder(): Promise<string> {
  return mkdtemp(join(PARENT, 'hers-store-'));
}

export async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await makeFolder();
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const STEPS_PER_FOLDER = 60;

/**
 * Kills a writing process `count` times at random moments, several times on the same folder, and
 * checks the folder after each.
 *
 * @example await crashCampaign(300, (done) => console.log(done));
 */
export async function crashCampaign(
  count: number,
  onProgress: (done: number) => void = () => {},
): Promise<{ readonly kills: number; readonly steps: number }> {
  let kills = 0;
  let steps = 0;
  while (kills < count) {
    const seed = 1 + Math.floor(Math.random() * 2 * PARTITIONED);
    const share = Math.random();
    const script = new Script(seed, share);
    await withFolder(async (folder) => {
      let held = 0;
      while (kills < count && held < STEPS_PER_FOLDER) {
        const killAfter = Math.random() * 250;
        const run = await runChild({ folder, seed, share, first: held, steps: STEPS_PER_FOLDER, killAfter });
        const before = held;
        try {
          held = await checkFolder(folder, script, run.acknowledged);
        } catch (error) {
          throw new Error(
            `after ${run.acknowledged} steps of seed ${seed} and share ${share}, killed after ${killAfter} ms`,
            {
              cause: error,
            },
          );
        }
        steps += held - before;
        if (run.signal === 'SIGKILL') onProgress(++kills);
      }
    });
  }
  return { kills, steps };
}
