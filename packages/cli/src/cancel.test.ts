// Every long command ends soon after SIGTERM, says so by its exit code, and leaves the gallery
// whole and nothing half written.
//
// Long: process.test.ts is the short form.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { childEnv, DIMENSION, hers, hersJson, launcher, npy, Prepared, vectorOf } from '../testing/cli.ts';

const COUNT = 6 * 2048;
/**
 * How long an orderly end may take: a second, and more where the cores are busy with other tests.
 */
const ENDS_MS = 5000;
/** When the signal comes: while the gallery is opened, and in the middle of the work. */
const OPENING_MS = 500;
const WORKING_MS = 1000;
const FILLING_MS = 300;
/** All commands open a gallery by the same code: these are stopped there, too. */
const STOPPED_AT_ONCE = ['doctor', 'restore', 'import', 'get'];

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeLargeGallery);
});
after(() => prepared.remove());

async function writeLargeGallery(folder: string): Promise<void> {
  const vectors = Array.from({ length: COUNT }, (_, i) => vectorOf(i));
  const ids = Array.from({ length: COUNT }, (_, i) => `r${i}`);
  await writeFile(join(folder, 'vectors.npy'), npy(vectors));
  await writeFile(join(folder, 'ids.txt'), `${ids.join('\n')}\n`);
  await writeFile(join(folder, 'some.txt'), `${ids.filter((_, i) => i % 50 === 0).join('\n')}\n`);
  for (const args of [
    ['init', '--unsealed'],
    ['collections', 'create', 'large', '--dimension', String(DIMENSION)],
    ['import', 'vectors.npy', '--ids', 'ids.txt'],
    ['snapshot', 'large.snapshot'],
    ['train', 'vectors.npy', '-m', 'pca', '-d', '16', '-o', 'pca.onnx'],
    ['collections', 'create', 'other', '--dimension', String(DIMENSION)],
  ]) {
    const { exit, err } = await hers(folder, args);
    assert.equal(exit, 0, `${args.join(' ')}: ${err}`);
  }
}

interface Ended {
  readonly exit: number | null;
  readonly signal: string | null;
  readonly err: string;
  /** Since the first SIGTERM. */
  readonly ms: number;
}

/**
 * Runs a command, and sends it SIGTERM after so long. Without a time, nobody reads what it prints,
 * and the signal comes when the pipe has had the time to fill.
 */
async function terminated(cwd: string, args: readonly string[], delay?: number): Promise<Ended> {
  const child = spawn(process.execPath, [launcher, ...args], { cwd, env: childEnv('/bin'), stdio: 'pipe' });
  let err = '';
  child.stderr.setEncoding('utf8').on('data', (text) => (err += text));
  if (delay !== undefined) child.stdout.resume();
  const ended = once(child, 'exit');
  const begun = delay === undefined ? once(child.stdout, 'readable').then(() => pause(FILLING_MS)) : pause(delay);
  await Promise.race([begun, ended]);
  const start = performance.now();
  child.kill('SIGTERM');
  const killer = setTimeout(() => child.kill('SIGKILL'), 4 * ENDS_MS);
  const [exit, signal] = await ended;
  clearTimeout(killer);
  return { exit, signal, err, ms: performance.now() - start };
}

/** Ended in good time: stopped, or finished before the signal, or not yet begun. */
function assertEnded({ exit, signal, err, ms }: Ended): void {
  assert.ok(ms < ENDS_MS, `ended after ${Math.round(ms)} ms: ${err}`);
  assert.ok(exit === 143 || exit === 0 || signal === 'SIGTERM', `exit ${exit}, ${signal}: ${err}`);
  if (exit === 143) assert.match(err, /^hers: stopped[^\n]*\.\n$/);
}

/** A name that no run before had: one that is stopped may have done everything. */
const NEW = 'new';

const COMMANDS: readonly (readonly string[])[] = [
  ['doctor', '--scrub'],
  ['snapshot', 'new.snapshot', '-c', 'large'],
  ['restore', 'large.snapshot', '--as', NEW, '--accept-older'],
  ['optimize', '-c', 'large'],
  ['import', 'vectors.npy', '--ids', 'ids.txt', '-c', 'other'],
  ['search', 'vectors.npy', '--batch', '-c', 'large'],
  ['keys', 'rotate', '-c', 'large'],
  ['reindex', 'pca.onnx', '-c', 'large'],
  ['get', '--all', '-o', 'copy.npy', '-c', 'large'],
];

/** What each command makes, and a file of the same size that was there before. */
const MADE: ReadonlyMap<string, string> = new Map([
  ['new.snapshot', 'large.snapshot'],
  ['copy.npy', 'vectors.npy'],
]);

function assertWhole(folder: string, made: readonly string[]): void {
  for (const name of made) {
    const like = MADE.get(name);
    assert.ok(like, `${name} was left`);
    assert.equal(statSync(join(folder, name)).size, statSync(join(folder, like)).size, `${name} is half written`);
  }
}

describe('SIGTERM', () => {
  for (const args of COMMANDS)
    test(`ends hers ${args.slice(0, 2).join(' ')}, and leaves everything whole`, async () => {
      const folder = await prepared.copy();
      if (args[0] === 'optimize') await hersJson(folder, ['delete', '--ids', 'some.txt', '-c', 'large']);
      const { records } = await hersJson(folder, ['count', '-c', 'large']);
      const before = readdirSync(folder).sort();
      for (const delay of STOPPED_AT_ONCE.includes(args[0]!) ? [OPENING_MS, WORKING_MS] : [WORKING_MS]) {
        const given = args.map((arg) => (arg === NEW ? `${NEW}-${delay}` : arg));
        const ended = await terminated(folder, given, delay);
        assertEnded(ended);
        const made = readdirSync(folder).filter((name) => !before.includes(name) && !name.startsWith('hers.key'));
        // The signal may come between the last byte and the end of the process: then all of the
        // file is there.
        assertWhole(folder, made);
        if (ended.exit === 0 || made.length > 0) break;
      }
      assert.equal((await hersJson(folder, ['count', '-c', 'large'])).records, records);
      assert.equal((await hersJson(folder, ['doctor', '--scrub'])).healthy, true);
    });

  for (const args of [
    ['snapshot', '-', '-c', 'large'],
    ['get', '--all', '-c', 'large'],
  ])
    test(`ends hers ${args.slice(0, 2).join(' ')} though nobody reads what it prints`, async () => {
      const { exit, ms } = await terminated(await prepared.copy(), args);
      assert.equal(exit, 143);
      assert.ok(ms < ENDS_MS, `ended after ${Math.round(ms)} ms`);
    });
});
