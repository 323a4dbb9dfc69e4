// What `hers doctor` says about the machine: versions, processor, kernel, memory, disk.

import { once } from 'node:events';
import { open, statfs, unlink } from 'node:fs/promises';
import { availableParallelism, freemem, totalmem } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { ringCode } from '@hers/scheme';
import { FORMAT } from '@hers/store';
import { machine } from '@hers/vectors/machine';
import { messageOf } from './exit.ts';
import { kernelOpener } from './gallery.ts';
import { duration, size } from './output.ts';
import type { Settings } from './settings.ts';
import { VERSION } from './version.ts';

export function versions(): Finding {
  const { node, os } = machine();
  return ok('versions', `hers ${VERSION}, store format ${FORMAT}, Node ${node}, ${os}`);
}

export function processor(): Finding {
  const { cpu, cores, flags } = machine();
  const found = `${cpu}, ${cores} ${cores === 1 ? 'core' : 'cores'}${flags.length > 0 ? `, ${flags.join(' ')}` : ''}`;
  const wide = flags.some((flag) => ['avx2', 'avx512f', 'asimd'].includes(flag));
  return flags.length === 0 || wide
    ? ok('processor', found)
    : note(
        'processor',
        found,
        'it has no AVX2, so scans are several times slower than they could be: prefer a newer machine',
      );
}

export async function kernel(settings: Settings): Promise<Finding> {
  try {
    const choice = await (await kernelOpener(settings, () => {}))();
    const device = choice.kernel.device?.();
    const found = device
      ? `${choice.chosen}; ${size(device.free)} of its memory free, copied at ${size(device.copySpeed())}/s, reached from here at ${size(device.linkSpeed())}/s`
      : choice.chosen;
    await choice.kernel.close();
    if (choice.rejected.length === 0) return ok('kernel', found);
    const isNative = choice.kernel.name === 'native';
    return note(
      'kernel',
      `${found}; ${choice.rejected.join('; ')}`,
      isNative
        ? 'it works, slower; for the GPU install its driver and run npm run build:cuda'
        : 'it works, slower; for the native one install a C++ compiler (on Debian: apt-get install g++) and run npm run build',
    );
  } catch (error) {
    return problem('kernel', messageOf(error), 'take --kernel or HERS_KERNEL back, or reinstall with npm ci');
  }
}

/** What computes the client's cryptography. */
export function cryptography(): Finding {
  return ok('cryptography', ringCode());
}

export async function memory(galleryBytes: number): Promise<Finding> {
  const rate = await memoryBandwidth();
  const free = freemem();
  const found = `${size(totalmem())}, ${size(free)} free, read at ${size(rate)}/s`;
  return galleryBytes > free
    ? note(
        'memory',
        `${found}; the gallery takes ${size(galleryBytes)}`,
        'searches have to read from the disk: more memory, or fewer dimensions, would make them faster',
      )
    : ok('memory', found);
}

const SYNCED_BYTES = 2 ** 20;
const SLOW_SYNC_MS = 30;

/** Room, and the time until something is really on disk: acknowledged writes wait for that. */
export async function disk(folder: string, galleryBytes: number): Promise<Finding> {
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  let sync: number;
  try {
    sync = await syncTime(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A copy on a read-only disk, or one that belongs to somebody else, may be meant to be so.
    if (code === 'EROFS' || code === 'EACCES' || code === 'EPERM')
      return note(
        'disk',
        `${folder} is read-only, or belongs to another user`,
        'it can be searched; where it should be written as well, check its owner and its permissions',
      );
    return problem('disk', `${folder} cannot be written: ${messageOf(error)}`, 'check whether the disk is full');
  }
  const found = `${size(free)} free, a synced write of ${size(SYNCED_BYTES)} takes ${duration(sync)}`;
  // A rewrite of everything needs the old and the new beside each other.
  if (free < Math.max(1e9, galleryBytes))
    return note(
      'disk',
      found,
      'optimize and keys rotate need as much room as the gallery takes: make some before running them',
    );
  if (sync > SLOW_SYNC_MS) return note('disk', found, 'imports wait for it: a local SSD would make them faster');
  return ok('disk', found);
}

async function syncTime(folder: string): Promise<number> {
  const path = join(folder, `.hers-doctor-${process.pid}`);
  const file = await open(path, 'wx', 0o600);
  try {
    let best = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 3; i++) {
      const start = performance.now();
      await file.write(Buffer.alloc(SYNCED_BYTES, i), 0, SYNCED_BYTES, 0);
      await file.datasync();
      best = Math.min(best, performance.now() - start);
    }
    return best;
  } finally {
    await file.close();
    await unlink(path);
  }
}

export type Level = 'ok' | 'note' | 'problem';

export interface Finding {
  readonly check: string;
  /** `problem`: something does not work or is not safe. `note`: it works, and could be better. */
  readonly level: Level;
  readonly found: string;
  readonly advice?: string;
}

export const ok = (check: string, found: string): Finding => ({ check, level: 'ok', found });
type Advised = (check: string, found: string, advice: string) => Finding;

const advised =
  (level: Level): Advised =>
  (check, found, advice) => ({ check, level, found, advice });
export const note: Advised = advised('note');
export const problem: Advised = advised('problem');

/** Beyond any cache. */
const BYTES_EACH = 2 ** 26;
const MEASURED_MS = 200;

/** Bytes per second over all threads. */
async function memoryBandwidth(threads: number = availableParallelism()): Promise<number> {
  const workers = Array.from(
    { length: threads },
    () =>
      new Worker(new URL('./bandwidth-worker.ts', import.meta.url), {
        workerData: { bytes: BYTES_EACH, ms: MEASURED_MS },
      }),
  );
  try {
    // All begin together, or the last would have the memory to itself.
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    const rates = workers.map((worker) => once(worker, 'message'));
    for (const worker of workers) worker.postMessage('begin');
    return (await Promise.all(rates)).reduce((sum, [rate]) => sum + rate, 0);
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}
