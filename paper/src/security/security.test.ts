import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decodeBlock, plan } from '@hers/scheme';
import { encryptBlock, MasterSeed } from '@hers/scheme/secret';
import {
  cosine,
  decompressorOf,
  type Example,
  fromKnownProbes,
  fromTemplates,
  learnedFrom,
  SCORE_FEATURES,
  scoreFeatures,
  slotFeatures,
} from '@hers/vectors/inversion';
import { LeastSquares } from '@hers/vectors/linear-algebra';
import { Random } from '@hers/vectors/random';
import { identities } from '@hers/vectors/synthetic';
import { ciphertextPairs } from './ciphertext-pairs.ts';
import { attackCompressed } from './compressed.ts';
import { ciphertextAsGallery, ciphertextCoefficients, EncryptedBlock } from './encrypted-search.ts';
import { fromTemplatesAndPopulation, populationOf } from './known-population.ts';
import { campaign, guesses, meanAndError, scoreError } from './score-attacks.ts';
import { linkingAdvantage, marginOf, type Pair } from './unlinkability.ts';

function normals(count: number, seed: number): Float64Array {
  const random = new Random();
  random.seed(seed);
  const numbers = new Float64Array(count);
  random.fill(numbers, 1);
  return numbers;
}

const dot = (a: ArrayLike<number>, b: ArrayLike<number>) => Array.from(a).reduce((sum, x, c) => sum + x * b[c], 0);
const rowsOf = (matrix: Float64Array, width: number) =>
  Array.from({ length: matrix.length / width }, (_, j) => matrix.subarray(j * width, (j + 1) * width));
const product = (gallery: Float64Array, q: Float64Array, rows: number) =>
  Float64Array.from(rowsOf(gallery, q.length).slice(0, rows), (template) => dot(template, q));
const average = (values: readonly number[]) => values.reduce((sum, x) => sum + x, 0) / values.length;

describe('least squares', () => {
  const d = 12;
  const gallery = normals(40 * d, 1);

  test('the gradient of what is minimised is zero', () => {
    for (const [rows, lambda] of [
      [5, 0.1],
      [30, 2],
    ] as const) {
      const r = normals(rows, 3);
      const x = new LeastSquares(gallery.subarray(0, rows * d), d, lambda).solve(r);
      const fitted = product(gallery, x, rows);
      for (let c = 0; c < d; c++) {
        let gradient = lambda * x[c];
        for (let j = 0; j < rows; j++) gradient += (fitted[j] - r[j]) * gallery[j * d + c];
        assert.ok(Math.abs(gradient) < 1e-9);
      }
    }
  });

  test('what has no unique solution is refused', () => {
    assert.throws(() => new LeastSquares(new Float64Array(d), d, 0), /lambda must be larger/);
    assert.throws(() => new LeastSquares(new Float64Array(d + 1), d, 1), /12 numbers each/);
    assert.throws(() => new LeastSquares(gallery, d, 1).solve([1, 2]), /a value for every row/);
  });
});

test('scores of encrypted searches have the error that attackers reckon with', () => {
  const dimension = 64;
  const { vectors } = identities(500, 1, dimension).gallery();
  const probes = rowsOf(Float64Array.from(vectors), dimension).slice(0, 20);
  for (const profile of ['exact', 'compact', 'small'] as const) {
    const block = new EncryptedBlock(Float32Array.from(vectors), dimension, profile);
    const squares = probes.flatMap((probe) =>
      Array.from(block.search(Float32Array.from(probe)), (score, j) => {
        return (score - dot(vectors.subarray(j * dimension, (j + 1) * dimension), probe)) ** 2;
      }),
    );
    block.wipe();
    const ratio = Math.sqrt(average(squares)) / scoreError(plan({ dimension, profile }));
    assert.ok(ratio > 0.75 && ratio < 1.25, `${profile}: ${ratio}`);
  }
});

describe('score inversion', () => {
  const d = 12;
  const gallery = normals(40 * d, 1);
  const q = normals(d, 2);
  const isProbe = (found: Float64Array) => found.every((x, i) => Math.abs(x - q[i]) < 1e-4);

  test('with as many templates as dimensions, the probe comes back', () => {
    for (const rows of [d, 20, 40])
      assert.ok(isProbe(fromTemplates(gallery.subarray(0, rows * d), d, 1e-9)(product(gallery, q, rows))), `${rows}`);
  });

  test('from one score, a population gives the conditional mean', () => {
    const vectors = normals(200 * d, 4).map((x, i) => x * (1 + (i % d)) + 3);
    const population = populationOf(vectors, d);
    const [p, variance, score] = [gallery.subarray(0, d), 0.5, 7];
    const mean = Float64Array.from({ length: d }, (_, c) => average(rowsOf(vectors, d).map((row) => row[c])));
    const covariance = (a: number, b: number) =>
      average(rowsOf(vectors, d).map((row) => (row[a] - mean[a]) * (row[b] - mean[b])));
    const along = mean.map((_, a) => p.reduce((sum, x, b) => sum + covariance(a, b) * x, 0));
    const step = (score - dot(p, mean)) / (dot(p, along) + variance);
    const found = fromTemplatesAndPopulation(p, population, variance)([score]);
    for (let c = 0; c < d; c++) assert.ok(Math.abs(found[c] - (mean[c] + along[c] * step)) < 1e-4, `${c}`);
  });

  test('a population helps where scores are few, and does no harm where they are many', () => {
    const drawn = (count: number, seed: number) => normals(count * d, seed).map((x, i) => x / (1 + (i % d)) + 0.5);
    const population = populationOf(drawn(500, 5), d);
    const probes = rowsOf(drawn(50, 6), d);
    for (const [rows, least] of [
      [4, 0.1],
      [40, -1e-3],
    ] as const) {
      const templates = gallery.subarray(0, rows * d);
      const plain = fromTemplates(templates, d, 1e-6);
      const informed = fromTemplatesAndPopulation(templates, population, 1e-6);
      const gain = average(
        probes.map((probe) => {
          const scores = product(gallery, probe, rows);
          return cosine(informed(scores), probe) - cosine(plain(scores), probe);
        }),
      );
      assert.ok(gain > least, `${rows}: ${gain}`);
    }
  });

  test('d known probes and their scores give any other probe exactly, though no template is known', () => {
    const known = normals(20 * d, 7);
    const rows = rowsOf(known, d).map((probe) => product(gallery, probe, 40));
    for (const k of [d, 20])
      assert.ok(
        isProbe(fromKnownProbes(known.subarray(0, k * d), d, rows.slice(0, k), 1e-9)(product(gallery, q, 40))),
        `${k}`,
      );
    assert.throws(() => fromKnownProbes(known, d, rows.slice(1), 1), /a row of scores for every known probe/);
  });

  test('a few known probes give the part of it that is in their span, and no more', () => {
    // Many templates in all directions: scores then preserve angles, and the reconstruction is the
    // projection, of mean length √(k/d).
    const [wide, templates] = [64, 1500];
    const many = normals(templates * wide, 8);
    const probes = rowsOf(normals(40 * wide, 9), wide);
    for (const k of [1, 16]) {
      const known = normals(k * wide, 10);
      const rows = rowsOf(known, wide).map((probe) => product(many, probe, templates));
      const solve = fromKnownProbes(known, wide, rows, 1e-9);
      const reached = average(probes.map((probe) => cosine(solve(product(many, probe, templates)), probe)));
      assert.ok(reached > 0.8 * Math.sqrt(k / wide) * 0.8 && reached < 1.1 * Math.sqrt(k / wide), `${k}: ${reached}`);
    }
  });

  test('a reconstruction is compared by direction', () => {
    assert.equal(cosine([1, 2], [2, 4]), 1);
    assert.equal(cosine([1, 0], [0, 3]), 0);
    assert.equal(cosine([0, 0], [1, 1]), 0);
  });
});

describe('attackers that know the population', () => {
  test('scores are seen without their order', () => {
    const scores = [0.1, -0.4, 0.3, 0.7, 0];
    const seen = scoreFeatures(scores);
    assert.equal(seen.length, SCORE_FEATURES);
    assert.deepEqual(seen, scoreFeatures(scores.toReversed()));
    assert.deepEqual([seen[0], seen[8], seen[16]], [-0.4, 0.1, 0.7]);
    assert.ok(
      Math.abs(seen[12] - 0.3) < 1e-12 && Math.abs(seen[17] - 0.14) < 1e-12 && Math.abs(seen[18] - 0.15) < 1e-12,
    );
    assert.equal(
      scoreFeatures([0.5]).every((x) => x > 0),
      true,
    );
  });

  test('and slots with it', () => {
    assert.deepEqual([...slotFeatures([2, 4], [1, 10, 100, 1000, 7, 7], 2)], [201, 2010]);
  });

  const d = 6;
  const mean = Float64Array.from({ length: d }, (_, c) => (c === 0 ? 1 : 0));
  /**
   * Galleries of examples; `planted` is how much of the probe's second coordinate is in the
   * observation.
   */
  const galleries = (planted: number, seed: number): Example[][] =>
    Array.from({ length: 8 }, (_, g) =>
      rowsOf(normals(60 * (d + 2), 100 * seed + g), d + 2).map((row) => {
        const probe = row.subarray(0, d).map((x, c) => x + mean[c]);
        return { seen: Float64Array.of(planted * probe[1] + 0.1 * row[d], row[d + 1], 5), probe };
      }),
    );
  const gained = (planted: number) => {
    const guess = learnedFrom(galleries(planted, 1), mean);
    const fresh = galleries(planted, 2).flat();
    return average(fresh.map(({ seen, probe }) => cosine(guess(seen), probe) - cosine(mean, probe)));
  };

  test('what depends on the probe is found', () => {
    assert.ok(gained(1) > 0.1, `${gained(1)}`);
  });

  test('where nothing does, the guess stays the mean', () => {
    assert.ok(Math.abs(gained(0)) < 0.01, `${gained(0)}`);
    const blind = galleries(0, 3).map((all) => all.map(({ probe }) => ({ seen: Float64Array.of(1, 2), probe })));
    assert.deepEqual(learnedFrom(blind, mean)(Float64Array.of(1, 2)), mean);
    assert.throws(() => learnedFrom(blind.slice(1, 2), mean), /two are needed/);
  });

  test('features that say nothing are left aside', () => {
    const padded = (all: Example[][]) =>
      all.map((gallery, g) =>
        gallery.map(({ seen, probe }, i) => ({
          seen: Float64Array.from([...seen, ...normals(200, 70 * g + i)]),
          probe,
        })),
      );
    const reached = (widths: number[]) => {
      const guess = learnedFrom(padded(galleries(1, 1)), mean, widths);
      return average(
        padded(galleries(1, 2))
          .flat()
          .map(({ seen, probe }) => cosine(guess(seen), probe)),
      );
    };
    assert.equal(reached([3, 203]), reached([3]));
    assert.ok(reached([3]) > reached([203]) + 0.01);
  });

  test('templates in the clear, in the place of the ciphertext, would be found out', () => {
    const examples = (words: (templates: Float64Array) => Float64Array, seed: number): Example[][] =>
      Array.from({ length: 8 }, (_, g) => {
        const templates = normals(100 * d, 1000 * seed + g);
        return rowsOf(normals(40 * d, 2000 * seed + g), d).map((probe) => ({
          seen: slotFeatures(product(templates, probe, 100), words(templates), d),
          probe,
        }));
      });
    const nothing = new Float64Array(d);
    const reached = (words: (templates: Float64Array) => Float64Array) => {
      const guess = learnedFrom(examples(words, 1), nothing);
      return average(
        examples(words, 2)
          .flat()
          .map(({ seen, probe }) => cosine(guess(seen), probe)),
      );
    };
    assert.ok(reached((templates) => templates) > 0.95);
    let seed = 50;
    assert.ok(Math.abs(reached((templates) => normals(templates.length, ++seed))) < 0.15);
  });
});

describe('a campaign', () => {
  const part = (labels: readonly number[], vector: (i: number) => readonly number[]) => ({
    vectors: Float32Array.from(labels.flatMap((_, i) => vector(i))),
    dimension: vector(0).length,
    labels: Int32Array.from(labels),
  });
  const options = { probes: 4, templates: 64, examples: 2, rehearsals: 2 };
  const axes = (i: number) =>
    [
      [1, 0],
      [0, 1],
      [-1, 0],
      [0, -1],
    ][i % 4];

  test('guesses are what the mean, a stranger and chance reach', () => {
    const held = part([2, 2, 2, 4, 6, 8, 10], axes);
    // The mean is (3, 1) / 8: cosines with the probes (1, 0), (0, 1), (−1, 0) are 3, 1 and −3, each
    // over √10.
    const training = part(
      [1, 3, 5, 7, 9, 11, 13, 15],
      (i) =>
        [
          [1, 0],
          [1, 0],
          [0, 1],
          [1, 0],
          [1, 0],
          [0, 1],
          [-1, 0],
          [0, -1],
        ][i],
    );
    const from = campaign(held, training, options);
    assert.deepEqual(
      from.groups.map((places) => [...places]),
      [[0], [1], [2]],
    );
    const { mean, meanError, stranger, person } = guesses(from);
    assert.ok(Math.abs(mean - 1 / 3 / Math.sqrt(10)) < 1e-12, `${mean}`);
    const [, error] = meanAndError([3, 1, -3].map((x) => x / Math.sqrt(10)));
    assert.ok(Math.abs(meanError - error) < 1e-12);
    // Strangers are the first, the third and the sixth: cosines 1, 1 and 0.
    assert.ok(Math.abs(stranger - 2 / 3) < 1e-12, `${stranger}`);
    assert.equal(person, 2 / 6);
  });

  test('a mean has the standard error of its groups', () => {
    assert.deepEqual(meanAndError([1, 2, 3]), [2, Math.sqrt(1 / 3)]);
  });

  test('galleries and rehearsals hold nobody who is a probe', () => {
    const held = part([2, 2, 4, 4, 6, 8, 10], axes);
    const training = part([1, 1, 3, 5, 7, 9], axes);
    const { strangers, rehearsals } = campaign(held, training, { ...options, probes: 2 });
    assert.deepEqual(strangers, [4, 5, 6]);
    for (const { probes, templates } of rehearsals) {
      assert.ok(probes.length === 2 && templates.length >= 3);
      for (const probe of probes)
        assert.ok(templates.every((place) => training.labels[place] !== training.labels[probe]));
    }
  });

  test('too few people are refused in a sentence, before anything is encrypted', () => {
    const training = part([1, 3, 5, 7, 9, 11], axes);
    assert.throws(
      () => campaign(part([2, 4, 6, 8], axes), training, options),
      (error: Error) => error instanceof RangeError && /nobody .* has two vectors/.test(error.message),
    );
    assert.throws(
      () => campaign(part([], axes), part([], axes), options),
      (error: Error) => error instanceof RangeError,
    );
    assert.throws(
      () => campaign(part([2, 2, 4], axes), training, options),
      (error: Error) =>
        error instanceof RangeError && /needs 2 templates.* 1 vectors of people who are no probes/.test(error.message),
    );
    assert.throws(() => campaign(part([2, 2, 4, 6], axes), part([1, 3], axes), options), /1 that the attacker can/);
  });
});

describe('unlinkability', () => {
  const chosen = plan({ dimension: 4, profile: 'compact' });
  const { n, primes } = chosen.parameters;
  let seed = 0;
  const templates = () => identities(n, 1, 4, { seed: ++seed }).gallery().vectors;
  const key = () => MasterSeed.generate().collectionKey(chosen, crypto.getRandomValues(new Uint8Array(16)));
  const made = ciphertextPairs({ ...identities(500, 1, 4).gallery(), dimension: 4 }, 'compact');

  test('the margin holds 95 of 100 judges that toss a coin', () => {
    for (const pairs of [100, 400]) {
      const half = pairs / 2;
      // Chances of 0 … half heads.
      const chances = [2 ** -half];
      for (let k = 1; k <= half; k++) chances.push((chances[k - 1] * (half - k + 1)) / k);
      let outside = 0;
      for (let a = 0; a <= half; a++)
        for (let b = 0; b <= half; b++)
          if (Math.abs(a - b) / half > marginOf(pairs)) outside += chances[a] * chances[b];
      assert.ok(outside > 0.035 && outside < 0.065, `${pairs}: ${outside}`);
    }
    const coin: Pair = () => ({ a: normals(8, ++seed), b: normals(8, ++seed) });
    const { pairs, margin } = linkingAdvantage(coin, 100);
    assert.deepEqual([pairs, margin], [100, 0.196]);
    assert.throws(() => linkingAdvantage(coin, 5), /an even number of pairs/);
  });

  test('ciphertexts cannot be told apart, under two keys or under one', () => {
    for (const pair of [made.twoKeys, made.oneKey]) {
      const { advantage, margin } = linkingAdvantage(pair, 60);
      // Five standard errors: a judge that knows nothing is outside of them once in two million
      // runs.
      assert.ok(Math.abs(advantage) < 2.55 * margin, `${advantage}, ${margin}`);
    }
  });

  test('the same judge sees a mask that is used twice, down to a single coefficient, a noisy copy, and no mask at all', () => {
    const plain: Pair = (same) => {
      const vectors = templates();
      return { a: Float64Array.from(vectors), b: Float64Array.from(same ? vectors : templates()) };
    };
    for (const [name, pair] of Object.entries({
      all: made.reusedMask(1),
      some: made.reusedMask(64),
      single: made.reusedMask(made.coefficients),
      copy: made.faintCopy(4),
      plain,
    }))
      assert.ok(linkingAdvantage(pair, 40).advantage > 0.9, name);
    const faint = linkingAdvantage(made.faintCopy(made.coefficients), 60);
    assert.ok(Math.abs(faint.advantage) < 2.55 * faint.margin, 'one noisy coefficient is no link that can be seen');
  });

  test('a mask that is used twice leaves the difference of the templates and fresh noise', () => {
    const modulus = primes[0] * 2 ** chosen.parameters.wideBits;
    const differences = (pair: { a: Float64Array; b: Float64Array }) =>
      pair.a.map((x, i) => Math.round((x - pair.b[i] - Math.round(x - pair.b[i])) * modulus));
    const same = differences(made.reusedMask(1)(true));
    const deviation = Math.sqrt(same.reduce((sum, x) => sum + x * x, 0) / same.length);
    // Two centred binomials with η = 21.
    assert.ok(Math.abs(deviation / Math.sqrt(21) - 1) < 0.05, `${deviation}`);
    const different = differences(made.reusedMask(1)(false));
    const signal = Math.sqrt(different.reduce((sum, x) => sum + x * x, 0) / different.length);
    // Coordinates of unit vectors, of variance 1/4 each, at the scale of a gallery.
    assert.ok(Math.abs(signal / (chosen.galleryScale * Math.sqrt(2 / 4)) - 1) < 0.1, `${signal}`);
    const few = differences(made.reusedMask(64)(true));
    assert.equal(few.filter((x, i) => (i % 64 === 0) === Math.abs(x) < 100).length > 0.99 * few.length, true);
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

  test('an encrypted block gives the scores of its templates, and words as long as templates', () => {
    const vectors = templates().subarray(0, 4 * 100);
    for (const profile of ['exact', 'compact'] as const) {
      const block = new EncryptedBlock(vectors, 4, profile);
      const probe = Float32Array.of(0.5, -0.5, 0.5, 0.5);
      const scores = block.search(probe);
      assert.equal(scores.length, 100);
      for (let j = 0; j < 100; j++)
        assert.ok(Math.abs(scores[j] - dot(vectors.subarray(4 * j, 4 * j + 4), probe)) < 0.012, `${j}`);
      const compared = block.compared(Float32Array.of(0.6, 0.8, 0, 0, 0.5003, -0.5, 0.5, 0.4997));
      assert.deepEqual(
        [...compared.slice(0, 4)].map((x) => Math.round(x * 1e4)),
        [6000, 8000, 0, 0],
      );
      assert.equal(compared[4] === 0.5, profile === 'exact');
      assert.ok(Math.abs(block.words.reduce((sum, x) => sum + x * x, 0) - 100) < 1e-9);
      block.wipe();
    }
  });
});

describe('undoing a compressor', () => {
  const [dimension, short] = [12, 4];
  const gallery = (first: number) => {
    const { vectors, labels } = identities(120, 3, dimension, { noise: 0.3, seed: first }).gallery();
    return { vectors, labels: labels.map((label) => label + 1000 * first), dimension };
  };
  const [training, held] = [gallery(1), gallery(2)];
  const made = (part: typeof training, map: (vector: Float32Array) => number[]) => ({
    labels: part.labels,
    dimension: short,
    vectors: Float32Array.from(
      Array.from({ length: part.labels.length }, (_, i) =>
        map(part.vectors.subarray(i * dimension, (i + 1) * dimension)),
      ).flatMap((vector) => vector.map((x) => x / Math.hypot(...vector))),
    ),
  });

  test('the least squares of linear coordinates, and squares where they say more', () => {
    // The first four coordinates determine those, and say nothing about the others.
    const cut = (vector: Float32Array) => [...vector.subarray(0, short)];
    const lift = decompressorOf(training, made(training, cut));
    const shortHeld = made(held, cut);
    const cosines = Array.from({ length: 100 }, (_, i) =>
      cosine(
        lift(shortHeld.vectors.subarray(i * short, (i + 1) * short)),
        held.vectors.subarray(i * dimension, (i + 1) * dimension),
      ),
    );
    // A projection onto 4 of 12 random directions has this length on average.
    const expected = Math.sqrt(short / dimension);
    assert.ok(Math.abs(average(cosines) - expected) < 0.05, `${average(cosines)}, ${expected}`);
    // The products of two coordinates are visible to an attacker who looks at products.
    const seen = { ...training, vectors: training.vectors.slice() };
    const first = made(training, cut);
    for (let i = 0; i < training.labels.length; i++) {
      const at = i * dimension;
      seen.vectors.fill(0, at, at + dimension);
      seen.vectors[at] = first.vectors[i * short] * first.vectors[i * short + 1];
      seen.vectors[at + 1] = first.vectors[i * short + 2] ** 2 - first.vectors[i * short + 3] ** 2;
    }
    const square = decompressorOf(seen, first);
    const again = Array.from({ length: 100 }, (_, i) =>
      cosine(
        square(first.vectors.subarray(i * short, (i + 1) * short)),
        seen.vectors.subarray(i * dimension, (i + 1) * dimension),
      ),
    );
    assert.ok(average(again) > 0.98, `${average(again)}`);
  });

  test('as many known probes as there are dimensions give a compressed probe, and no more of the whole than the theft of it', () => {
    const cut = (vector: Float32Array) => [...vector.subarray(0, short)];
    const from = campaign(held, training, { probes: 20, templates: 48, examples: 4, rehearsals: 2 });
    const parts = { held: made(held, cut), training: made(training, cut) };
    const [stolen, half, all, more] = attackCompressed(from, parts);
    assert.deepEqual(
      [stolen, half, all, more].map(({ known }) => known),
      [undefined, 2, 4, 6],
    );
    assert.equal(stolen.compressed > 1 - 1e-9, true);
    assert.ok(
      half.compressed < 0.9 && all.compressed > 0.95 && more.compressed > 0.99,
      `${half.compressed}, ${all.compressed}`,
    );
    assert.ok(stolen.cosine > 0.45 && stolen.cosine < 0.7, `${stolen.cosine}`);
    assert.ok(Math.abs(more.cosine - stolen.cosine) < 0.02 && half.cosine < stolen.cosine);
    assert.ok(stolen.identified > 0 && stolen.error > 0);
  });
});
