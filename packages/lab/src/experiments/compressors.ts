// The compressors that experiments compare, fitted on the training part of a data set.

import { fit, type MethodName, methods } from '@hers/compress';
import type { Part } from '../datasets.ts';
import { progress } from '../report.ts';
import type { Option, Values } from './experiment.ts';

export const COMPRESSORS_OPTION: Option = {
  type: 'string',
  help: 'which compressors, with commas between them; all unless given',
};

/** Uncompressed vectors, in tables and plots. */
export const FULL = 'full';

/** The same colour for the same compressor in every plot (Okabe and Ito's, as for the systems). */
const COLOURS: Readonly<Record<string, string>> = {
  [FULL]: '#000000',
  pca: '#999999',
  lda: '#E69F00',
  deepmds: '#CC79A7',
  'deepmds++': '#D55E00',
  auto: '#0072B2',
};
const SPARE = ['#009E73', '#56B4E9', '#F0E442'];

export function compressorScale(names: readonly string[]): { domain: string[]; range: string[] } {
  const spare = names.filter((name) => !Object.hasOwn(COLOURS, name));
  const colour = (name: string) => COLOURS[name] ?? SPARE[spare.indexOf(name) % SPARE.length];
  return { domain: [...names], range: names.map(colour) };
}

export function compressorsOf(
  { compressors }: Values,
  otherwise: readonly string[] = Object.keys(methods),
): MethodName[] {
  const names = typeof compressors === 'string' ? compressors.split(',') : otherwise;
  for (const name of names)
    if (!Object.hasOwn(methods, name))
      throw new RangeError(`There is no compressor '${name}': there are ${Object.keys(methods).join(', ')}`);
  return names as MethodName[];
}

/** The best there is, for experiments that need one. */
export function bestCompressor(values: Values): MethodName {
  return compressorsOf(values, [['auto', 'lda'].find((name) => Object.hasOwn(methods, name))!])[0];
}

export interface Fitting {
  readonly dimension: number;
  readonly seed?: number;
  readonly settings?: object;
}

/** Fits a compressor; returns what makes shorter vectors of others. */
export async function fitted(
  name: MethodName,
  { vectors, labels }: Part,
  { dimension, seed = 1, settings = {} }: Fitting,
): Promise<(vectors: Float32Array) => Promise<Float32Array>> {
  progress(`fitting ${name} to ${dimension} dimensions${seed === 1 ? '' : `, seed ${seed}`}`);
  let said = performance.now();
  const compressor = await fit(name, vectors, labels, {
    dimension,
    seed,
    settings,
    onProgress({ stage, done, secondsLeft, validation }) {
      if (performance.now() - said < 10_000) return;
      said = performance.now();
      const left = secondsLeft === undefined ? '' : `, ${Math.ceil(secondsLeft)} s left`;
      const found = validation === undefined ? '' : `, rank-1 on held-out people ${validation.toFixed(4)}`;
      progress(`  ${stage}: ${Math.round(100 * done)} %${left}${found}`);
    },
  });
  return (given) => compressor.transform(given);
}

/** A data set after a compressor. */
export async function compressed(
  part: Part,
  transform: (vectors: Float32Array) => Promise<Float32Array>,
): Promise<Part> {
  const vectors = await transform(part.vectors);
  return { vectors, dimension: vectors.length / part.labels.length, labels: part.labels };
}
