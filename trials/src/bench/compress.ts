// `npm run bench -- compress`: what a compressor costs its user. Linear maps run in plain
// TypeScript. Networks run in plain TypeScript for one vector, and in onnxruntime, on one core, for
// many.

import { compared, progress, type Report, type Result } from '@hers/paper/lab/report';
import { type Effort, minimumAsync } from '@hers/paper/lab/timing';
import { type Compressor, fit, load } from '@hers/training';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';

const from = 512;
const to = 64;
const batch = 4096;
/** The steps of a stage in the authors' configuration. */
const published = 200_000;

interface Values {
  quick?: boolean;
  training?: boolean;
  count?: string;
  steps?: string;
}

export async function run({
  quick = false,
  training = false,
  count = '100000',
  steps = '100',
}: Values): Promise<Report> {
  const effort: Effort = quick
    ? { atLeastMs: 0, atLeastRuns: 1, warmups: 1 }
    : { atLeastMs: 1000, atLeastRuns: 10, warmups: 3 };
  const { vectors, labels } = identities(512, 4, from).gallery();
  progress('fitting a linear map and a network');
  const settings = { steps: 1 };
  const linear = await fit('pca', vectors, labels, { dimension: to, validation: 0 });
  const network = await fit('deepmds++', vectors, labels, { dimension: to, validation: 0, settings });
  const results: Result[] = [];
  for (const [name, compressor] of [
    ['linear', linear],
    ['network', network],
  ] as const) {
    progress(`${name}: one vector, and ${batch}`);
    const one = vectors.slice(0, from);
    const many = new Float32Array(batch * from);
    for (let at = 0; at < many.length; at += vectors.length) many.set(vectors.subarray(0, many.length - at), at);
    results.push({ name: `one-${name}`, value: await milliseconds(compressor, one, effort), unit: 'ms' });
    const rate: Result = {
      name: `batch-${name}`,
      value: perSecond(await milliseconds(compressor, many, effort)),
      unit: 'vectors/s',
    };
    if (name === 'linear') results.push(rate);
    else {
      progress('network: in plain TypeScript');
      const plain = await load(compressor.save(), { runtime: null });
      const slow = await milliseconds(plain, many, { ...effort, atLeastRuns: 2, warmups: 0 });
      const baseline: Result = { name: 'batch-network-plain', value: perSecond(slow), unit: 'vectors/s' };
      results.push(compared(rate, baseline), baseline);
    }
    results.push({ name: `bytes-${name}`, value: compressor.save().length, unit: 'bytes' });
  }
  if (training) results.push(...(await trainingTime(Number(count), Number(steps))));
  return {
    bench: 'compress',
    parameters: {
      linear: `${from} to ${to}`,
      network: `DeepMDS++, ${(network.metadata.settings.chain as number[]).join('-')}`,
      batch,
      threads: 'one',
      ...(training && { training: `${count} vectors, ${steps} steps of each method measured, one thread` }),
      quick,
    },
    machine: machine(),
    results,
  };
}

async function milliseconds(compressor: Compressor, vectors: Float32Array, effort: Effort): Promise<number> {
  return (await minimumAsync(() => compressor.transform(vectors), effort)).min;
}

function perSecond(ms: number): number {
  return (batch * 1000) / ms;
}

/**
 * The CPU time of one step of each of the paper's networks, all stages together, and of the steps
 * of a stage in the authors' configuration.
 */
async function trainingTime(count: number, steps: number): Promise<Result[]> {
  const { vectors, labels } = identities(Math.ceil(count / 4), 4, from).gallery();
  const results: Result[] = [];
  for (const method of ['deepmds', 'deepmds++', 'deepmds++authors'] as const) {
    progress(`training: ${method}, ${count} vectors, ${steps} steps`);
    let begun: { step: number; cpu: NodeJS.CpuUsage } | undefined;
    await fit(method, vectors, labels, {
      ...{ dimension: to, validation: 0, threads: 1, settings: { steps: steps + 1, warmStart: false } },
      onProgress: ({ step = 0 }) => {
        begun ??= { step, cpu: process.cpuUsage() };
      },
    });
    const { user, system } = process.cpuUsage(begun!.cpu);
    const ms = (user + system) / 1000 / (steps + 1 - begun!.step);
    results.push(
      { name: `training-step-${method}`, value: ms, unit: 'ms' },
      { name: `training-stage-${method}-extrapolated`, value: (ms * published) / 3.6e6, unit: 'h' },
    );
  }
  return results;
}
