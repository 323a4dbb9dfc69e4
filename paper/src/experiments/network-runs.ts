// Networks that take hours to train, in a folder: several processes at a time, for as long as there
// is time, and from where they stopped when they are started again. This file and the one of the
// process need `compress` and nothing else, so that a copy of the folder can be trained anywhere:
//
//   node network-runs.ts <folder> <processes> <minutes>

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { type Compressor, load, type MethodName } from '@hers/training';
import { progress } from '../lab/report.ts';

/** One training: a network to the last of its dimensions, with those on its way. */
export interface Run {
  /** Of the folder that it is kept in. */
  readonly name: string;
  readonly method: MethodName;
  readonly dimension: number;
  readonly seed: number;
  /** The share of the identities that are held out. */
  readonly validation: number;
  readonly settings: object;
  /** Cores. The result is the same. */
  readonly threads: number;
}

export interface Plan {
  /** Of the vectors to learn from. */
  readonly dimension: number;
  readonly runs: readonly Run[];
}

/** How far a run is, and what it took. */
export interface Standing {
  /** From 0 to 1. */
  readonly done: number;
  readonly stage: string;
  readonly seconds: number;
  /** CPU time, which other work on the machine does not change. */
  readonly cpuSeconds?: number;
  /** What it runs on, which need not be the machine that measures; older ones do not say. */
  readonly cpu?: string;
}

const PLAN = 'plan.json';
const CHILD = fileURLToPath(new URL('./network-run-child.ts', import.meta.url));

/** Brings a plan and its vectors into a folder, unless they are there; other ones are refused. */
export async function prepare(
  folder: string,
  plan: Plan,
  { vectors, labels }: { vectors: Float32Array; labels: Int32Array },
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const files = [
    ['vectors.f32', new Uint8Array(vectors.buffer, vectors.byteOffset, vectors.byteLength)],
    ['labels.i32', new Uint8Array(labels.buffer, labels.byteOffset, labels.byteLength)],
  ] as const;
  if (existsSync(join(folder, PLAN))) {
    // How many cores a run has makes no difference to it.
    const bare = ({ dimension, runs }: Plan) => ({ dimension, runs: runs.map((run) => ({ ...run, threads: 1 })) });
    const same = isDeepStrictEqual(bare(await planOf(folder)), bare(JSON.parse(JSON.stringify(plan))));
    const kept = await Promise.all(
      files.map(async ([name, bytes]) => bytes.every(equals(await readFile(join(folder, name))))),
    );
    if (!same || kept.includes(false))
      throw new RangeError(
        `${folder} holds the training of other networks; name another folder, or give the same options`,
      );
    return;
  }
  for (const [name, bytes] of files) await writeFile(join(folder, name), bytes);
  await writeFile(join(folder, PLAN), `${JSON.stringify(plan, null, 2)}\n`);
}

const equals = (other: Uint8Array) => (byte: number, i: number) => byte === other[i];

export async function planOf(folder: string): Promise<Plan> {
  return JSON.parse(await readFile(join(folder, PLAN), 'utf8'));
}

/** Of a run that has begun. */
export async function standingOf(folder: string, { name }: Run): Promise<Standing | undefined> {
  const text = await readFile(join(folder, name, 'standing.json'), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : JSON.parse(text);
}

/** The compressors that a run has made so far, the largest first. */
export async function compressorsIn(folder: string, { name }: Run): Promise<Compressor[]> {
  const files = (await readdir(join(folder, name)).catch(() => [])).filter((file) => file.endsWith('.onnx'));
  const found = await Promise.all(files.map(async (file) => load(await readFile(join(folder, name, file)))));
  return found.sort((a, b) => b.outputDimension - a.outputDimension);
}

const isOver = (folder: string, { name, dimension }: Run) => existsSync(join(folder, name, `${dimension}.onnx`));

/** Trains what is not trained yet, until it is or the time is over. Returns whether all is done. */
export async function trainRuns(folder: string, parallel: number, minutes: number): Promise<boolean> {
  const { runs } = await planOf(folder);
  const until = Date.now() + minutes * 60_000;
  const left = runs.filter((run) => !isOver(folder, run));
  const failed: string[] = [];
  const worker = async () => {
    for (let run = left.shift(); run && Date.now() < until; run = left.shift()) {
      if ((await trainRun(folder, run.name, until)) !== 0) failed.push(run.name);
      const { done = 0, stage = '', seconds = 0 } = (await standingOf(folder, run)) ?? {};
      progress(`${run.name}: ${Math.round(100 * done)} % (${stage}), ${Math.round(seconds)} s of training so far`);
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
  if (failed.length > 0) throw new Error(`The training of ${failed.join(', ')} failed; what they said stands above.`);
  return runs.every((run) => isOver(folder, run));
}

/** A process of its own, which looks at the time by itself. Returns its exit code. */
function trainRun(folder: string, name: string, until: number): Promise<number | null> {
  const child = spawn(process.execPath, [CHILD, folder, name, String(until)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', resolve);
  });
}

if (process.argv[1] === import.meta.filename) {
  const [folder, parallel, minutes] = process.argv.slice(2);
  const done = await trainRuns(folder, Number(parallel), Number(minutes));
  progress(done ? 'all networks are trained' : 'the time is over; the same command goes on');
}
