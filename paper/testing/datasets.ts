// For tests: data sets in a folder, as experiments read them.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Random } from '@hers/vectors/random';
import type { Part } from '../src/data/datasets.ts';

/** A NumPy file of any type and shape. */
export function npy(descr: string, shape: string, body: Uint8Array): Uint8Array {
  const text = Buffer.from(`{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape}), }\n`, 'latin1');
  return Buffer.concat([
    Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, text.length & 255, text.length >> 8]),
    text,
    body,
  ]);
}

const bytes = (array: Float32Array | Int32Array) => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

/** Writes vectors to a folder as the faces, and as the pictures. */
export async function writeDatasets(folder: string, { vectors, dimension, labels }: Part): Promise<void> {
  const matrix = npy('<f4', `${labels.length}, ${dimension}`, bytes(vectors));
  const list = npy('<i4', `${labels.length},`, bytes(labels));
  await writeFile(join(folder, 'faces-lfw-arcface128.npy'), matrix);
  await writeFile(join(folder, 'faces-lfw-arcface128.labels.npy'), list);
  const base = join(folder, 'images-tinyimagenet-resnet50-2048');
  await writeFile(`${base}.u8.npy`, matrix);
  await writeFile(`${base}.scale.npy`, npy('<f4', `${labels.length},`, bytes(new Float32Array(labels.length).fill(1))));
  await writeFile(`${base}.labels.npy`, list);
}

/** Vectors that have nothing to do with their labels. */
export function meaningless(labels: Int32Array, dimension: number, seed = 1): Part {
  const random = new Random();
  random.seed(seed);
  const numbers = new Float64Array(labels.length * dimension);
  random.fill(numbers, 1);
  return { vectors: Float32Array.from(numbers), dimension, labels };
}
