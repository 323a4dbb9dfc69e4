// Data for tests: synthetic identities, and the faces where the folder with the data sets is.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '@hers/vectors/random';

export interface Sample {
  vectors: Float32Array<ArrayBuffer>;
  labels: Int32Array;
}

/**
 * Unit vectors of `classes` identities: a centre in few dimensions that matter, and noise in all.
 */
export function synthetic({ classes = 40, each = 5, dimension = 16, noise = 0.6, seed = 1 } = {}): Sample {
  const random = new Random(seed);
  const vectors = new Float32Array(classes * each * dimension);
  const labels = new Int32Array(classes * each);
  for (let c = 0, row = 0; c < classes; c++) {
    const centre = Array.from({ length: dimension }, (_, k) => random.normal() * (k < dimension / 2 ? 1 : 0.2));
    for (let i = 0; i < each; i++, row++) {
      labels[row] = c;
      const vector = centre.map((x) => x + noise * random.normal());
      const length = Math.hypot(...vector);
      vectors.set(
        vector.map((x) => x / length),
        row * dimension,
      );
    }
  }
  return { vectors, labels };
}

function npyBody(path: string): ArrayBuffer {
  const file = readFileSync(path);
  const start = 10 + file.readUInt16LE(8);
  return file.buffer.slice(file.byteOffset + start, file.byteOffset + file.length) as ArrayBuffer;
}

/** The faces: people with odd labels to learn from, people with even labels to report on. */
export function faces(folder: string): { learn: Sample; report: Sample } {
  const vectors = new Float32Array(npyBody(join(folder, 'faces-lfw-arcface128.npy')));
  const labels = new Int32Array(npyBody(join(folder, 'faces-lfw-arcface128.labels.npy')));
  const dimension = vectors.length / labels.length;
  const half = (parity: number): Sample => {
    const rows = Array.from(labels.keys()).filter((i) => labels[i] % 2 === parity);
    const chosen = new Float32Array(rows.length * dimension);
    rows.forEach((row, i) => chosen.set(vectors.subarray(row * dimension, (row + 1) * dimension), i * dimension));
    return { vectors: chosen, labels: Int32Array.from(rows, (row) => labels[row]) };
  };
  return { learn: half(1), report: half(0) };
}
