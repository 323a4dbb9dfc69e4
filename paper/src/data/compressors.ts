// The compressors that experiments compare, fitted on the training part of a data set.

import { createHash, randomBytes } from 'node:crypto';
import { mkdir, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { isFileThere, renameOverFile } from '@hers/service/target';
import { type Compressor, fit, load, type MethodName, methods } from '@hers/training';
import { progress } from '../lab/report.ts';
import { type RunnerOption, type Values, wholeNumber } from '../lab/runner.ts';
import type { Part } from './datasets.ts';

export const COMPRESSORS_OPTION: RunnerOption = {
  type: 'string',
  help: 'which compressors, with commas between them; all unless given',
};

export const MODELS_OPTION: RunnerOption = {
  type: 'string',
  help: 'a folder to keep fitted compressors in, and to take them from when they were fitted on the same vectors with the same settings before; empty it when the code that fits changes',
};

export const STEPS_OPTION: RunnerOption = {
  type: 'string',
  help: `steps to train each stage of a network for (${methods['deepmds++'].defaults.steps})`,
};

export function compressorsOf(
  { compressors }: Values,
  otherwise: readonly string[] = Object.keys(methods),
): MethodName[] {
  const names = typeof compressors === 'string' ? compressors.split(',') : otherwise;
  for (const name of names)
    if (!Object.hasOwn(methods, name))
      throw new RangeError(`There is no compressor '${name}': there are ${Object.keys(methods).join(', ')}`);
  return [...new Set(names)] as MethodName[];
}

/** Those of the paper, trained step by step. */
const isNetwork = (name: MethodName) => name.startsWith('deepmds');

/** The best one, for experiments that need just one. */
export function bestCompressor(values: Values): MethodName {
  return compressorsOf(values, [['auto', 'lda'].find((name) => Object.hasOwn(methods, name))!])[0];
}

interface Fitting {
  readonly dimension: number;
  readonly seed?: number;
  readonly settings?: object;
  /** Where fitted compressors are kept. */
  readonly models?: string | undefined;
}

/** Fits a compressor; returns the function that compresses other vectors. */
export async function fitted(
  name: MethodName,
  training: Part,
  fitting: Fitting,
): Promise<(vectors: Float32Array) => Promise<Float32Array>> {
  const compressor = await fittedCompressor(name, training, fitting);
  return (given) => compressor.transform(given);
}

export async function fittedCompressor(name: MethodName, training: Part, fitting: Fitting): Promise<Compressor> {
  const { dimension, seed = 1, models } = fitting;
  const kept = models === undefined ? undefined : join(models, keptName(name, training, fitting));
  const found = kept === undefined ? undefined : await keptCompressor(kept, name, fitting);
  progress(`${found ? 'taking' : 'fitting'} ${name} to ${dimension} dimensions${seed === 1 ? '' : `, seed ${seed}`}`);
  if (found) return found;
  if (kept !== undefined) isFileThere(kept); // fitting may take hours
  const compressor = await train(name, training, fitting);
  if (kept !== undefined) {
    await mkdir(models!, { recursive: true });
    await keep(kept, compressor.save());
  }
  return compressor;
}

/** After a crash there is nothing of that name, or all of it. */
export async function keep(path: string, bytes: Uint8Array): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.part`;
  try {
    await writeFile(temporary, bytes, { flag: 'wx' });
    renameOverFile(temporary, path);
  } finally {
    await unlink(temporary).catch(() => {});
  }
}

/**
 * The compressor in a file, unless it is damaged or was fitted with other settings than now. The
 * file's name reflects the settings that were given, not the defaults.
 */
async function keptCompressor(file: string, name: MethodName, fitting: Fitting): Promise<Compressor | undefined> {
  const bytes = await readFile(file).catch(() => undefined);
  if (bytes === undefined) return undefined;
  const compressor = await load(bytes).catch(() => undefined);
  if (compressor && fittedSo(compressor, name, fitting)) return compressor;
  progress(`${file} is ${compressor ? 'of other settings' : 'damaged'}`);
  return undefined;
}

/**
 * Whether the file has the method and the settings, defaults included, that fitting would use now.
 */
export function fittedSo(
  { method, outputDimension, metadata }: Pick<Compressor, 'method' | 'outputDimension' | 'metadata'>,
  name: MethodName,
  { dimension, seed = 1, settings = {} }: Fitting,
): boolean {
  const said = metadata.settings;
  if (outputDimension !== dimension || said.seed !== seed) return false;
  // The settings of auto are beside those of the method it chose, which has a name of its own.
  const own = said.auto === undefined ? { name: method, settings: said } : { name: 'auto', settings: said.auto };
  // If the default is null, fitting replaces it by what it chose.
  return (
    own.name === name &&
    Object.entries({ ...methods[name].defaults, ...settings }).every(
      ([key, value]) => value === null || isDeepStrictEqual((own.settings as Record<string, unknown>)[key], value),
    )
  );
}

/** The same name for the same method, settings and training vectors, and for no others. */
export function keptName(
  name: string,
  { vectors, labels }: Part,
  { dimension, seed = 1, settings = {} }: Fitting,
): string {
  const hash = createHash('sha256').update(new Uint8Array(vectors.buffer, vectors.byteOffset, vectors.byteLength));
  hash.update(new Uint8Array(labels.buffer, labels.byteOffset, labels.byteLength)).update(JSON.stringify(settings));
  return `${name}-${dimension}-seed${seed}-${hash.digest('hex').slice(0, 12)}.onnx`;
}

function train(
  name: MethodName,
  { vectors, labels }: Part,
  { dimension, seed = 1, settings = {} }: Fitting,
): Promise<Compressor> {
  let said = performance.now();
  return fit(name, vectors, labels, {
    dimension,
    seed,
    settings,
    // How long a network is trained was chosen before, by the experiment `networks`.
    ...(isNetwork(name) && { validation: 0 }),
    onProgress({ stage, done, secondsLeft, validation }) {
      if (performance.now() - said < 10_000) return;
      said = performance.now();
      const left = secondsLeft === undefined ? '' : `, ${Math.ceil(secondsLeft)} s left`;
      const found = validation === undefined ? '' : `, rank-1 on held-out people ${validation.toFixed(4)}`;
      progress(`  ${stage}: ${Math.round(100 * done)} %${left}${found}`);
    },
  });
}

/** Steps for each stage of a network. An invalid number is refused even if there is no network. */
export function stepsOf(values: Values): number {
  return wholeNumber(values, 'steps', methods['deepmds++'].defaults.steps);
}

/** The options for fitting. Only networks take a number of steps. */
export function fittingOf(values: Values, name: MethodName): { models: string | undefined; settings: object } {
  const models = typeof values.models === 'string' ? values.models : undefined;
  return { models, settings: isNetwork(name) ? { steps: stepsOf(values) } : {} };
}

/** A data set after a compressor. */
export async function compressed(
  part: Part,
  transform: (vectors: Float32Array) => Promise<Float32Array>,
): Promise<Part> {
  const vectors = await transform(part.vectors);
  return { vectors, dimension: vectors.length / part.labels.length, labels: part.labels };
}
