// `npm run bench -- scan --kernel cuda`: the server's work on a GPU, one query and eight together,
// beside a copy within its memory. The gallery consists of random residues, which are made on the
// device. The program that `npm run build:cuda` makes measures it, without JavaScript in between.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { HersError } from '@hers/scheme';
import { machine } from '@hers/vectors/machine';
import { progress, type Report, type Result } from './report.ts';

const PROGRAM = join(import.meta.dirname, '../../scan/build/hers_cuda_check');
const TOGETHER = 8;

/** A line of `hers_cuda_check measure`. */
interface Measured {
  readonly multiplyMs: number;
  readonly ofCopy: number;
  readonly serverMs: number;
  readonly wholeMs: number;
  readonly galleryGB: number;
}

export interface ScanCudaOptions {
  readonly kernel: string;
  readonly count?: string;
  readonly dimension?: string;
}

/** The device's line, and the one of the gallery. */
function measure(count: number, dimension: number, queries: number): [Record<string, unknown>, Measured] {
  progress(`${queries === 1 ? 'one query' : `${queries} queries together`} of ${dimension} dimensions`);
  const args = ['measure', String(count / 1e6), String(dimension), String(queries)];
  const { status, stdout, error } = spawnSync(PROGRAM, args, { encoding: 'utf8' });
  const lines = stdout?.trim().split('\n') ?? [];
  if (status !== 0) throw new HersError('UNAVAILABLE', `the GPU cannot be measured: ${error?.message ?? lines.at(-1)}`);
  const [device, measured] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  if ('error' in measured) throw new HersError('UNSUPPORTED_PLAN', `${count} templates: ${String(measured.error)}`);
  return [device, measured as unknown as Measured];
}

export async function run(options: ScanCudaOptions): Promise<Report> {
  const { kernel, count: countText = '100000000', dimension: dimensionText = '128', ...others } = options;
  if (kernel !== 'cuda') throw new HersError('INVALID_ARGUMENT', '--kernel takes cuda: the others are all measured');
  const [other] = Object.keys(others).filter((name) => name !== 'json');
  if (other) throw new HersError('INVALID_ARGUMENT', `--${other} is not for --kernel cuda`);
  const [count, dimension] = [Number(countText), Number(dimensionText)];
  for (const [name, value] of Object.entries({ count, dimension }))
    if (!(Number.isInteger(value) && value > 0))
      throw new HersError('INVALID_ARGUMENT', `--${name} takes a positive whole number`);
  if (!existsSync(PROGRAM))
    throw new HersError('UNAVAILABLE', 'there is nothing to measure: `npm run build:cuda`, which takes nvcc, makes it');
  const [device, one] = measure(count, dimension, 1);
  const [, eight] = measure(count, dimension, TOGETHER);
  const results: Result[] = [
    { name: 'copy', value: Number(device.copyTBs) * 1000, unit: 'GB/s' },
    { name: 'multiply', value: one.multiplyMs, unit: 'ms' },
    { name: 'multiply-of-copy', value: one.ofCopy, unit: 'ratio' },
    { name: 'server', value: one.serverMs, unit: 'ms' },
    { name: 'server-and-copy-to-host', value: one.wholeMs, unit: 'ms' },
    { name: 'multiply-8', value: eight.multiplyMs, unit: 'ms' },
    { name: 'server-8', value: eight.serverMs, unit: 'ms' },
    { name: 'multiply-8-throughput', value: (TOGETHER * one.multiplyMs) / eight.multiplyMs, unit: 'ratio' },
    { name: 'server-8-throughput', value: (TOGETHER * one.serverMs) / eight.serverMs, unit: 'ratio' },
  ];
  const parameters = { count, dimension, profile: 'compact', kernel, device: String(device.device) };
  return { bench: 'scan', parameters, machine: machine(), results };
}
