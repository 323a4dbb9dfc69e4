// `npm run bench -- scan --kernel cuda`: the server's work on a GPU, one query and eight together,
// beside a copy within its memory. The gallery consists of random residues, which are made on the
// device. The program that `npm run build:cuda` makes measures it, without JavaScript in between.
// Then the same once more through the kernel, for what JavaScript adds where responses leave the
// device.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { progress, type Report, type Result } from '@hers/paper/lab/report';
import { batchesOf, openKernel, segmentBytes } from '@hers/scan';
import { mixed, specimenBlock, specimenQuery } from '@hers/scan/testing/specimen';
import { HersError, type Profile, plan } from '@hers/scheme';
import { quantile } from '@hers/service/testing/phases';
import { machine } from '@hers/vectors/machine';

const PROGRAM = fileURLToPath(import.meta.resolve('@hers/cuda/check'));
const TOGETHER = 8;
const PROFILES = ['compact', 'small', 'exact'];
/** Of a gallery that stays in the memory of the host. */
const MOST_IN_TURNS = 10_000_000;
/** Blocks of the segment that a large gallery repeats, and scans of it. */
const BLOCKS = 64;
const SCANS = 5;

interface Measured {
  readonly multiplyMs: number;
  readonly ofCopy: number;
  readonly restMs: number;
  readonly serverMs: number;
  readonly wholeMs: number;
  readonly galleryGB: number;
}

export interface ScanCudaOptions {
  readonly kernel: string;
  readonly count?: string;
  readonly dimension?: string;
  readonly profile?: string;
}

interface Gallery {
  readonly count: number;
  readonly dimension: number;
  readonly profile: string;
}

/** The device's line, and the one of the gallery. */
function measure(how: 'measure' | 'turns', of: Gallery, queries: number): [Record<string, unknown>, Measured] {
  const { count, dimension, profile } = of;
  progress(`${queries === 1 ? 'one query' : `${queries} queries together`} of ${dimension} dimensions`);
  const args = [how, String(count / 1e6), String(dimension), String(queries), profile];
  const { status, stdout, error } = spawnSync(PROGRAM, args, { encoding: 'utf8' });
  const lines = stdout?.trim().split('\n') ?? [];
  if (status !== 0) throw new HersError('UNAVAILABLE', `the GPU cannot be measured: ${error?.message ?? lines.at(-1)}`);
  const [device, measured] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  if ('error' in measured) throw new HersError('UNSUPPORTED_PLAN', `${count} templates: ${String(measured.error)}`);
  return [device, measured as unknown as Measured];
}

/** Milliseconds of a scan through the kernel, with all responses: of one segment, many times. */
async function throughJavaScript({ count, dimension, profile }: Gallery): Promise<number> {
  const { parameters, width, responseBits } = plan({ dimension, profile: profile as Profile });
  progress('through JavaScript');
  const residue = mixed(1);
  const blocks = Array.from({ length: BLOCKS }, (_, index) => specimenBlock({ parameters, width, index, residue }));
  const { kernel } = await openKernel({ kernel: 'cuda' });
  try {
    const handle = await kernel.load({ bytes: segmentBytes(blocks), name: 'segment' });
    const handles = new Array(Math.ceil(count / parameters.n / BLOCKS)).fill(handle);
    const query = specimenQuery({ parameters, width, index: 0, residue }, responseBits.c0, responseBits.c1);
    const times: number[] = [];
    for (let i = 0; i <= SCANS; i++) {
      const began = performance.now();
      let responses = 0;
      for await (const batch of batchesOf(kernel, handles, [query]))
        for (const { response } of batch) if (response.length > 0) responses++;
      if (i > 0) times.push(performance.now() - began);
      if (responses !== handles.length * BLOCKS) throw new Error(`${responses} responses came`);
    }
    return quantile(times, 0.5);
  } finally {
    await kernel.close();
  }
}

export async function run(options: ScanCudaOptions): Promise<Report> {
  const { kernel, profile = 'compact', ...more } = options;
  const { count: countText = '100000000', dimension: dimensionText = '128', ...others } = more;
  if (kernel !== 'cuda') throw new HersError('INVALID_ARGUMENT', '--kernel takes cuda: the others are all measured');
  const [other] = Object.keys(others).filter((name) => name !== 'json');
  if (other) throw new HersError('INVALID_ARGUMENT', `--${other} is not for --kernel cuda`);
  const [count, dimension] = [Number(countText), Number(dimensionText)];
  for (const [name, value] of Object.entries({ count, dimension }))
    if (!(Number.isInteger(value) && value > 0))
      throw new HersError('INVALID_ARGUMENT', `--${name} takes a positive whole number`);
  if (!PROFILES.includes(profile))
    throw new HersError('INVALID_ARGUMENT', `--profile takes ${PROFILES.join(', ')} with --kernel cuda`);
  if (!existsSync(PROGRAM))
    throw new HersError('UNAVAILABLE', 'there is nothing to measure: `npm run build:cuda`, which takes nvcc, makes it');
  const of = { count, dimension, profile };
  const [device, one] = measure('measure', of, 1);
  const [, eight] = measure('measure', of, TOGETHER);
  const [, turns] = measure('turns', { ...of, count: Math.min(count, MOST_IN_TURNS) }, 1);
  const results: Result[] = [
    { name: 'copy', value: Number(device.copyTBs) * 1000, unit: 'GB/s' },
    { name: 'link', value: Number(device.linkGBs), unit: 'GB/s' },
    { name: 'multiply', value: one.multiplyMs, unit: 'ms' },
    { name: 'multiply-of-copy', value: one.ofCopy, unit: 'ratio' },
    { name: 'rest', value: one.restMs, unit: 'ms' },
    { name: 'server', value: one.serverMs, unit: 'ms' },
    { name: 'server-and-copy-to-host', value: one.wholeMs, unit: 'ms' },
    { name: 'through-javascript', value: await throughJavaScript(of), unit: 'ms' },
    { name: 'in-turns', value: (turns.galleryGB / turns.serverMs) * 1000, unit: 'GB/s' },
    { name: 'multiply-8', value: eight.multiplyMs, unit: 'ms' },
    { name: 'server-8', value: eight.serverMs, unit: 'ms' },
    { name: 'multiply-8-throughput', value: (TOGETHER * one.multiplyMs) / eight.multiplyMs, unit: 'ratio' },
    { name: 'server-8-throughput', value: (TOGETHER * one.serverMs) / eight.serverMs, unit: 'ratio' },
  ];
  const parameters = { count, dimension, profile, kernel, device: String(device.device) };
  return { bench: 'scan', parameters, machine: machine(), results };
}
