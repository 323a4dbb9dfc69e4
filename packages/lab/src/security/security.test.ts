import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decodeBlock, plan } from '@hers/scheme';
import { encryptBlock, MasterSeed } from '@hers/scheme/secret';
import { Gaussian } from '../random.ts';
import { identities } from '../synthetic.ts';
import { ciphertextAsGallery, ciphertextCoefficients } from './ciphertext-words.ts';
import { cosine, ScoreInversion } from './inversion.ts';
import { linkingAdvantage, type Pair } from './unlinkability.ts';

function normals(count: number, seed: number): Float64Array {
  const random = new Gaussian();
  random.seed(seed);
  const numbers = new Float64Array(count);
  random.fill(numbers, 1);
  return numbers;
}

const product = (gallery: ArrayLike<number>, q: Float64Array, rows: number) =>
  Float64Array.from({ length: rows }, (_, j) => q.reduce((sum, x, c) => sum + x * gallery[j * q.length + c], 0));

describe('score inversion', () => {
  const d = 12;
  const gallery = normals(40 * d, 1);
  const q = normals(d, 2);

  test('with as many templates as dimensions, the probe comes back', () => {
    for (const rows of [d, 20, 40]) {
      const found = new ScoreInversion(gallery.subarray(0, rows * d), d, 1e-9).solve(product(gallery, q, rows));
      assert.ok(
        found.every((x, i) => Math.abs(x - q[i]) < 1e-4),
        `${rows}`,
      );
    }
  });

  test('the gradient of what is minimised is zero', () => {
    for (const [rows, lambda] of [
      [5, 0.1],
      [30, 2],
    ] as const) {
      const r = normals(rows, 3);
      const x = new ScoreInversion(gallery.subarray(0, rows * d), d, lambda).solve(r);
      const fitted = product(gallery, x, rows);
      for (let c = 0; c < d; c++) {
        let gradient = lambda * x[c];
        for (let j = 0; j < rows; j++) gradient += (fitted[j] - r[j]) * gallery[j * d + c];
        assert.ok(Math.abs(gradient) < 1e-9);
      }
    }
  });

  test('what has no unique solution is refused', () => {
    assert.throws(() => new ScoreInversion(new Float64Array(d), d, 0), /lambda must be larger/);
    assert.throws(() => new ScoreInversion(gallery, d, 1).solve([1, 2]), /a score for every template/);
  });

  test('a reconstruction is compared by direction', () => {
    assert.equal(cosine([1, 2], [2, 4]), 1);
    assert.equal(cosine([1, 0], [0, 3]), 0);
    assert.equal(cosine([0, 0], [1, 1]), 0);
  });
});

describe('unlinkability', () => {
  const chosen = plan({ dimension: 4, profile: 'compact' });
  const { n } = chosen.parameters;
  let seed = 0;
  const templates = () => identities(n, 1, 4, { seed: ++seed }).gallery().vectors;
  const key = () => MasterSeed.generate().collectionKey(chosen, crypto.getRandomValues(new Uint8Array(16)));
  const coefficients = (vectors: Float32Array) => ciphertextCoefficients(decodeBlock(encryptBlock(key(), vectors)));

  test('ciphertexts under two keys cannot be told apart', () => {
    const pair: Pair = (same) => {
      const vectors = templates();
      return { a: coefficients(vectors), b: coefficients(same ? vectors : templates()) };
    };
    const { advantage, margin } = linkingAdvantage(pair, 60);
    // Five standard errors: a judge that knows nothing is outside of them once in two million runs.
    assert.ok(Math.abs(advantage) < 2.55 * margin, `${advantage}, ${margin}`);
  });

  test('the same judge sees through masks that are used twice, and through no masks at all', () => {
    const mask = normals(n * 4, 9);
    const wrapped = (vectors: Float32Array, seed: number) => {
      const noise = normals(vectors.length, seed);
      return Float64Array.from(vectors, (x, i) => {
        const value = 0.05 * x + mask[i] + 1e-6 * noise[i];
        return value - Math.round(value);
      });
    };
    const reused: Pair = (same) => {
      const vectors = templates();
      return { a: wrapped(vectors, ++seed), b: wrapped(same ? vectors : templates(), ++seed) };
    };
    assert.ok(linkingAdvantage(reused, 40).advantage > 0.9);
    const plain: Pair = (same) => {
      const vectors = templates();
      return { a: Float64Array.from(vectors), b: Float64Array.from(same ? vectors : templates()) };
    };
    assert.ok(linkingAdvantage(plain, 40).advantage > 0.9);
  });

  test('what is read from a block are its coefficients, in the place of the templates', () => {
    const block = decodeBlock(encryptBlock(key(), templates()));
    const all = ciphertextCoefficients(block);
    assert.equal(all.length, n * block.width);
    assert.ok(all.every((x) => Math.abs(x) <= 0.5));
    assert.deepEqual(
      [...ciphertextAsGallery(block, [3, 700], 2)],
      [3, 700].flatMap((j) => [all[j * block.width], all[j * block.width + 1]]),
    );
    // Uniform: mean 0 and variance 1/12, within five standard errors.
    const mean = all.reduce((sum, x) => sum + x, 0) / all.length;
    assert.ok(Math.abs(mean) < 5 / Math.sqrt(12 * all.length), `${mean}`);
  });
});
