// Training that was interrupted, as bytes: the state of the optimizer, the best weights so far, and
// what they belong to. An ONNX file without nodes: one format is enough.

import type { CurvePoint } from '@hers/compress';
import { CompressError } from '@hers/compress';
import { decodeModel, encodeModel } from '@hers/compress/onnx';
import type { Task } from '../methods/method.ts';
import type { Matrices } from './session.ts';

export interface Checkpoint {
  /** The method, the vectors and the options it belongs to. */
  fingerprint: string;
  /** What is known of the courses that are over. */
  settled: unknown;
  step: number;
  figures: Record<string, number>;
  curve: CurvePoint[];
  state: Matrices;
  /** Of the weights that were validated. */
  best: Float32Array | undefined;
}

const KEY = 'hers.checkpoint';
const BEST = 'best';

export function encodeCheckpoint({ state, best, ...rest }: Checkpoint): Uint8Array<ArrayBuffer> {
  const named = Object.entries({ ...state, ...(best && { [BEST]: { data: best, shape: [best.length] } }) });
  const tensors = named.map(([name, { data, shape }]) => ({ name, data: data as Float32Array, shape }));
  return encodeModel({ nodes: [], tensors, inputs: [], outputs: [], metadata: { [KEY]: JSON.stringify(rest) } });
}

/** Reads a checkpoint, and refuses one that belongs to other vectors or options. */
export function decodeCheckpoint(bytes: Uint8Array, fingerprint: string): Checkpoint {
  const { tensors, metadata } = decodeModel(bytes);
  const refuse = (why: string) =>
    new CompressError('INVALID_ARGUMENT', `This is not a checkpoint to resume from: ${why}.`);
  if (metadata?.[KEY] === undefined) throw refuse('it was not written by fit');
  let rest: Omit<Checkpoint, 'state' | 'best'>;
  try {
    rest = JSON.parse(metadata[KEY]);
  } catch {
    throw new CompressError('MALFORMED', 'The checkpoint is damaged: what it belongs to cannot be read.');
  }
  if (rest.fingerprint !== fingerprint) throw refuse('the method, the vectors, the seed or the settings have changed');
  const state: Matrices = {};
  for (const { name, shape, data } of tensors) {
    if (!(data instanceof Float32Array)) throw refuse('it is damaged');
    state[name] = { data, shape };
  }
  const { [BEST]: best, ...others } = state;
  return { ...rest, state: others, best: best?.data as Float32Array | undefined };
}

/** Names a task: 53 bits of the vectors (FNV-1a in two lanes), and everything else in words. */
export function fingerprintOf(method: string, { set, dimension, seed, validation, settings }: Task<object>): string {
  let [low, high] = [0x811c9dc5, 0x01000193];
  for (const words of [new Uint32Array(set.vectors.buffer), new Uint32Array(set.classes.buffer)])
    for (let i = 0; i < words.length; i++) {
      low = Math.imul(low ^ words[i], 0x01000193);
      high = Math.imul(high ^ (words[i] + i), 0x85ebca6b);
    }
  const vectors = `${(low >>> 0).toString(16)}${(high >>> 0).toString(16)}`;
  return JSON.stringify({
    method,
    vectors,
    count: set.count,
    from: set.dimension,
    dimension,
    seed,
    validation,
    settings,
  });
}
