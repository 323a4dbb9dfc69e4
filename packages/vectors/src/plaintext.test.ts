import assert from 'node:assert/strict';
import { test } from 'node:test';
import { identities } from '@hers/vectors/synthetic';
import { type Best, PlaintextSearch, top1 } from '../testing/plaintext.ts';

function naive(gallery: Float32Array, probes: Float32Array, dimension: number): Best {
  const count = probes.length / dimension;
  const index = new Int32Array(count).fill(-1);
  const score = new Float64Array(count).fill(Number.NEGATIVE_INFINITY);
  for (let probe = 0; probe < count; probe++) {
    for (let template = 0; template * dimension < gallery.length; template++) {
      let sum = 0;
      for (let i = 0; i < dimension; i++) sum += gallery[template * dimension + i] * probes[probe * dimension + i];
      if (sum > score[probe]) {
        score[probe] = sum;
        index[probe] = template;
      }
    }
  }
  return { index, score };
}

function vectors(count: number, dimension: number, seed: number): Float32Array {
  return identities(count, 1, dimension, { seed }).gallery().vectors;
}

for (const [templates, probes, dimension] of [
  [1, 1, 1],
  [1, 5, 3],
  [2, 4, 16],
  [333, 7, 31],
  [1001, 9, 128],
  [65, 3, 5000], // a single vector is larger than a block
] as const) {
  test(`${templates} templates, ${probes} probes, d = ${dimension}: the answers of the obvious loop`, () => {
    const gallery = vectors(templates, dimension, 1);
    const wanted = vectors(probes, dimension, 2);
    assert.deepEqual(top1(gallery, wanted, dimension), naive(gallery, wanted, dimension));
  });
}

test('a gallery in parts gives the answers of the whole', () => {
  const dimension = 24;
  const gallery = vectors(500, dimension, 3);
  const wanted = vectors(6, dimension, 4);
  const search = new PlaintextSearch(wanted, dimension);
  for (const [start, end] of [
    [0, 1],
    [1, 1],
    [1, 200],
    [200, 500],
  ]) {
    search.scan(gallery.subarray(start * dimension, end * dimension));
  }
  assert.deepEqual(search.best(), naive(gallery, wanted, dimension));
});

test('the first of equal templates wins', () => {
  const gallery = new Float32Array([0, 1, 1, 0, 1, 0, 1, 0, 0, 1]);
  assert.deepEqual([...top1(gallery, new Float32Array([1, 0, 0, 1]), 2).index], [1, 0]);
});

test('nothing to search in, and nothing to search for', () => {
  assert.deepEqual([...top1(new Float32Array(0), vectors(2, 4, 1), 4).index], [-1, -1]);
  assert.equal(top1(vectors(2, 4, 1), new Float32Array(0), 4).index.length, 0);
  assert.throws(() => top1(new Float32Array(7), new Float32Array(4), 4), RangeError);
});

test('with the default noise, rank-1 of 20 000 identities is high but not perfect', () => {
  const people = identities(20_000, 3, 128);
  const { vectors, labels } = people.gallery();
  const probes = people.probes(Int32Array.from({ length: 400 }, (_, i) => i * 50));
  const { index } = top1(vectors, probes.vectors, 128);
  const rank1 = probes.labels.filter((label, i) => labels[index[i]] === label).length / index.length;
  assert.ok(rank1 > 0.96 && rank1 < 1, `${rank1}`);
});
