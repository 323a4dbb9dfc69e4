// The process that trains one network: `network-run-child.ts <folder> <run> <until>`. It stops at
// that time (milliseconds since 1970), or when told to, with everything saved.

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, getPriority, setPriority } from 'node:os';
import { join } from 'node:path';
import { CompressError, fit, load, type Progress } from '@hers/training';
import { planOf, type Standing, standingOf } from './network-runs.ts';

const [folder, name, until] = process.argv.slice(2);
const run = (await planOf(folder)).runs.find((each) => each.name === name);
if (!run) throw new RangeError(`There is no run '${name}' in ${folder}`);
const own = join(folder, name);
mkdirSync(own, { recursive: true });

const read = (file: string) => new Uint8Array(readFileSync(join(folder, file))).buffer;
/** Writes a file atomically. */
function write(file: string, bytes: Uint8Array | string): void {
  writeFileSync(join(own, `${file}.part`), bytes);
  renameSync(join(own, `${file}.part`), join(own, file));
}

if (getPriority() < 10) setPriority(10); // leaves the cores to other work
const stop = new AbortController();
const timer = setTimeout(() => stop.abort(), Math.max(0, Number(until) - Date.now()));
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop.abort());

const earlier = await standingOf(folder, run);
const begun = performance.now();
const CHECKPOINT = 'checkpoint';
let last: Progress | undefined;
function note(): void {
  const seconds = (earlier?.seconds ?? 0) + (performance.now() - begun) / 1000;
  const { user, system } = process.cpuUsage();
  const standing: Standing = {
    done: last?.done ?? earlier?.done ?? 0,
    stage: last ? `${last.stage}, step ${last.step ?? 0}` : (earlier?.stage ?? 'not begun'),
    seconds,
    cpuSeconds: (earlier?.cpuSeconds ?? 0) + (user + system) / 1e6,
    cpu: cpus()[0]?.model ?? 'unknown',
  };
  write('standing.json', `${JSON.stringify(standing)}\n`);
}
let noted = begun;

const stages: Promise<void>[] = [];
async function keepStage(bytes: Uint8Array): Promise<void> {
  write(`${(await load(bytes)).outputDimension}.onnx`, bytes);
}

try {
  const compressor = await fit(run.method, new Float32Array(read('vectors.f32')), new Int32Array(read('labels.i32')), {
    ...{ dimension: run.dimension, seed: run.seed, validation: run.validation, threads: run.threads },
    ...{ settings: run.settings, signal: stop.signal },
    ...(existsSync(join(own, CHECKPOINT)) && { resume: readFileSync(join(own, CHECKPOINT)) }),
    onProgress(now) {
      last = now;
      if (performance.now() - noted < 5000) return;
      noted = performance.now();
      note();
    },
    onCheckpoint: (bytes) => write(CHECKPOINT, bytes),
    onStage: (bytes) => void stages.push(keepStage(bytes)),
  });
  write(`${run.dimension}.onnx`, compressor.save());
  rmSync(join(own, CHECKPOINT), { force: true });
} catch (error) {
  if (!(error instanceof CompressError && error.code === 'ABORTED')) throw error;
} finally {
  await Promise.all(stages);
  clearTimeout(timer);
  note();
}
