// The machine that figures belong to.

import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem, type } from 'node:os';

export type Machine = { cpu: string; cores: number; memoryGiB: number; node: string; os: string; flags: string[] };

export function machine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round((totalmem() / 2 ** 30) * 10) / 10,
    node: process.version,
    os: `${type()} ${release()} ${process.arch}`,
    flags: vectorFlags(),
  };
}

// The instruction sets that decide how fast a scan or a transform can be; the other hundred flags
// explain nothing here.
const relevant = new Set(
  'avx avx2 fma bmi2 avx512f avx512dq avx512bw avx512vl avx512ifma avx512_vnni avx_vnni asimd asimddp sve sve2'.split(
    ' ',
  ),
);

function vectorFlags(): string[] {
  let text: string;
  try {
    text = readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    return []; // Not Linux: the model has to say it.
  }
  const flags = /^(?:flags|Features)\s*:(.*)$/m.exec(text)?.[1] ?? '';
  return flags.split(' ').filter((flag) => relevant.has(flag));
}
