import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '@hers/vectors/random';
import fc from 'fast-check';
import { synthetic } from '../../testing/identities.ts';
import { trainingSet } from '../training/training-set.ts';
import { deepmdsPlus, deepmdsPlusAuthors, hardCount } from './deepmds.ts';
import { chainFor } from './network.ts';
import {
  HardestPairs,
  largest,
  type Pairs,
  poolsOf,
  randomGenuine,
  randomImpostor,
  randomPairs,
  several,
} from './pairs.ts';

test('the hardest pairs are those a full sort puts first', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 30 }), fc.nat(40), fc.nat(), (n, count, seed) => {
      const random = new Random(seed);
      const classes = Int32Array.from({ length: n }, () => random.below(6));
      const errors = new Float32Array(n * n);
      // Few different values, so that many are equal.
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) errors[i * n + j] = random.below(12) - 6;
      const sorted = (genuine: boolean): number[] => {
        const sizes: number[] = [];
        for (let i = 0; i < n; i++)
          for (let j = i + 1; j < n; j++)
            if ((classes[i] === classes[j]) === genuine) sizes.push(Math.abs(errors[i * n + j]));
        return sizes.sort((a, b) => b - a).slice(0, count);
      };
      const found = new HardestPairs(classes, count);
      for (let first = 0; first < n; first += 7) {
        const rows = Array.from({ length: Math.min(7, n - first) }, (_, r) =>
          errors.subarray((first + r) * n + first, (first + r + 1) * n),
        );
        found.scan(Float32Array.from(rows.flatMap((row) => [...row])), first, rows.length);
      }
      const sizes = ({ left, right }: Pairs) => left.map((l, p) => Math.abs(errors[l * n + right[p]]));
      assert.deepEqual(sizes(found.genuine), sorted(true));
      assert.deepEqual(sizes(found.impostor), sorted(false));
      const { genuine, impostor } = found;
      genuine.left.forEach((l, p) => assert.equal(classes[l], classes[genuine.right[p]]));
      const pairs = impostor.left.map((l, p) => `${l} ${impostor.right[p]}`);
      assert.equal(new Set(pairs).size, pairs.length);
    }),
  );
  assert.deepEqual(largest([3, -9, 0, 4, 9], 3), [1, 4, 3]);
});

test('random pairs are of the kind they are said to be, and never of one vector with itself', () => {
  const classes = Int32Array.of(0, 0, 1, 2, 2, 2);
  const random = new Random(1);
  const genuine = randomGenuine(several(classes), 100, random);
  genuine.left.forEach((l, p) => assert.ok(l !== genuine.right[p] && classes[l] === classes[genuine.right[p]]));
  const impostor = randomImpostor(classes, 100, random);
  impostor.left.forEach((l, p) => assert.notEqual(classes[l], classes[impostor.right[p]]));
  const any = randomPairs(6, 100, random);
  any.left.forEach((l, p) => assert.notEqual(l, any.right[p]));
  assert.equal(randomGenuine(several(Int32Array.of(0, 1)), 5, random).left.length, 0);
  assert.equal(randomImpostor(Int32Array.of(1, 1), 5, random).left.length, 0);
});

test('pools hold every vector once in a pass, at most so many at a time, and depend on their number alone', () => {
  const { vectors, labels } = synthetic({ classes: 21, each: 5, dimension: 4 });
  const set = trainingSet(vectors, labels);
  assert.deepEqual(
    [0, 1].map((step) => poolsOf(set, 100, 7)(step).length),
    [53, 53],
  );
  const poolAt = poolsOf(set, 40, 7);
  const pass = [3, 4, 5].map((step) => [...poolAt(step)]);
  assert.ok(pass.every((pool) => pool.length === 35));
  assert.deepEqual(
    pass.flat().sort((a, b) => a - b),
    [...labels.keys()],
  );
  assert.notDeepEqual([...poolAt(0)], pass[0]);
  assert.deepEqual([...poolsOf(set, 40, 7)(4)], pass[1]);
});

test('hard pairs grow from 50 to 250, and chains are those of the appendix', () => {
  const steps = 200_000;
  const text = { ...deepmdsPlus.defaults, steps };
  assert.deepEqual(
    [0, 99_999, 199_999].map((step) => hardCount(text, step)),
    [50, 150, 250],
  );
  const authors = { ...deepmdsPlusAuthors.defaults, steps };
  assert.deepEqual(
    [0, 49_999, 50_000, 100_000, 149_999, 150_000, 199_999].map((step) => hardCount(authors, step)),
    [50, 50, 100, 150, 150, 250, 250],
  );
  assert.deepEqual(chainFor(1536, 16), [1536, 1024, 512, 256, 128, 64, 32, 16]);
  assert.deepEqual(chainFor(512, 64), [512, 256, 128, 64]);
  assert.deepEqual(chainFor(192, 32), [192, 128, 64, 32]);
  assert.deepEqual(chainFor(128, 32), [128, 64, 32]);
  assert.deepEqual(chainFor(100, 20), [100, 64, 32, 20]);
  assert.deepEqual(chainFor(64, 64), [64, 64]);
});
