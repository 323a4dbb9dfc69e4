// What evaluation keys hide, and under which secret: the order that the security argument goes by
// (README.md §9). Nothing hides a response secret, so there is no cycle.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openCollection, SMALL } from '../../../testing/open.ts';
import { decodeEvaluation, deviceKeysIn } from '../../open/evaluation.ts';
import { LARGEST_SPECTRUM, openPlan } from '../../open/plan.ts';
import { decodePublicKey, publicKeyMask } from '../../open/query.ts';
import { EvaluationRing, P1, P2, type Pair, Q, type Residues } from '../../open/ring.ts';
import { LAST_LEVELS, lastExponent, stepExponent } from '../../parameters.ts';
import { MasterSeed } from '../key.ts';
import { makeDeviceEvaluation } from './evaluation.ts';
import { OpenSecrets, type Secret, spectralPeak } from './secrets.ts';

const c = openCollection({ ...SMALL, dimension: 20 });
const { parameters, levels } = c.plan;
const ring = EvaluationRing.of(parameters);
const { n, primes } = ring;
const secrets = new OpenSecrets(c.key, 0);
const chain = [secrets.device(7), ...Array.from({ length: levels.steps }, (_, k) => secrets.chain(k + 1))];
const result = secrets.result();
/** Errors are at most η. */
const LARGEST_ERROR = 21;

/** Body + mask·secret − hidden must be one small error modulo all primes. */
function checkHides(
  [body, mask]: Pair,
  under: Secret,
  hidden: (l: number) => Uint32Array | undefined,
  which = [0, 1, 2],
): void {
  const errors = which.map((l, i) => {
    let phase = ring.add(l, body[i], ring.multiply(l, mask[i], under.residues[l]));
    const message = hidden(l);
    if (message) phase = ring.subtract(l, phase, message);
    return Array.from(ring.intt(l, phase), (x) => (x > primes[l] / 2 ? x - primes[l] : x));
  });
  for (const error of errors) {
    assert.deepEqual(error, errors[0]);
    assert.ok(error.every((x) => Math.abs(x) <= LARGEST_ERROR));
    assert.ok(error.some((x) => x !== 0));
  }
}

const turned = (l: number, { small }: Secret, g: number) => ring.ntt(l, ring.automorphism(l, ring.embed(l, small), g));
const p2 = BigInt(primes[P2]);
const switches = (key: readonly Pair[], from: Secret, g: number, to: Secret) =>
  [Q, P1].forEach((digit, j) => {
    checkHides(key[j], to, (l) => (l === digit ? ring.scale(l, turned(l, from, g), p2) : undefined));
  });

describe('evaluation keys hide', () => {
  it('t_k under t_{k+1}, and the last of them under s', () => {
    const [plain, other] = c.keys.devices.get(7)!;
    switches(plain, chain[0], 1, chain[1]);
    switches(other, chain[0], stepExponent(n, 0), chain[1]);
    c.keys.steps.forEach(([plain, other], k) => {
      switches(plain, chain[k + 1], 1, chain[k + 2]);
      switches(other, chain[k + 1], stepExponent(n, k + 1), chain[k + 2]);
    });
    assert.equal(c.keys.last.length, 2 ** LAST_LEVELS);
    c.keys.last.forEach((key, leaf) => switches(key, chain[levels.steps], lastExponent(n, leaf), result));
  });
  it('t_0 of a device whose piece is made apart under t_1, from fresh masks and errors', () => {
    const pieces = [0, 1].map(() => decodeEvaluation(makeDeviceEvaluation(c.key, 9)));
    const own = secrets.device(9);
    for (const piece of pieces) {
      const [plain, other] = deviceKeysIn(piece);
      switches(plain, own, 1, chain[1]);
      switches(other, own, stepExponent(n, 0), chain[1]);
    }
    assert.notDeepEqual(pieces[0].seed, pieces[1].seed);
    const [a, b] = pieces.map((piece) => deviceKeysIn(piece)[0][0]);
    const error = ([body, mask]: Pair) => {
      const phase = ring.add(P2, body[P2], ring.multiply(P2, mask[P2], chain[1].residues[P2]));
      return Array.from(ring.intt(P2, phase));
    };
    assert.notDeepEqual(error(a), error(b));
  });
  it('gallery secrets, and these times s, under s', () => {
    const product = BigInt(primes[P1]) * p2;
    const m = 2n ** BigInt(parameters.wideBits);
    assert.equal(c.keys.masks.length, levels.secrets);
    c.keys.masks.forEach((bases, j) => {
      const own = secrets.gallery(j);
      bases.forEach(([plain, both], k) => {
        const kappa = ((product << BigInt(7 * parameters.evaluation.bases[k])) + m / 2n) / m;
        checkHides(plain, result, (l) => ring.scale(l, own.residues[l], kappa));
        checkHides(both, result, (l) => ring.scale(l, ring.multiply(l, own.residues[l], result.residues[l]), kappa));
      });
    });
  });
  it('s under the response secrets, each body under its own, and nothing else under them', () => {
    c.keys.packing.forEach(({ mask, bodies }, u) => {
      bodies.forEach((body, v) => {
        const hidden = (l: number) => (u === v && l === Q ? ring.scale(Q, result.residues[Q], p2) : undefined);
        checkHides([body, mask], secrets.response(v), hidden, [Q, P2]);
      });
    });
  });
  it('nothing in the public key, under the t_0 of number 0', () => {
    const { body, seed } = decodePublicKey(c.publicKey);
    const mask: Residues = publicKeyMask(parameters, seed);
    checkHides([body, mask], secrets.device(0), () => undefined, [Q, P1]);
  });
  it('secrets that are all different, ternary, and those of the gallery', () => {
    const all = [...chain, secrets.device(0), result, ...[0, 1, 2].map((v) => secrets.response(v))];
    all.push(...[0, 1, 2].map((j) => secrets.gallery(j)));
    assert.equal(new Set(all.map(({ small }) => small.join())).size, all.length);
    for (const { small } of all) assert.ok(small.every((x) => Math.abs(x) <= 1));
    const other = new OpenSecrets(c.key, 1);
    assert.notDeepEqual(other.result().small, result.small);
    assert.notDeepEqual(other.chain(1).small, chain[1].small);
    assert.deepEqual(other.gallery(0).small, secrets.gallery(0).small);
  });
});

describe('the spectrum of a secret', () => {
  it('is the largest value at a root of x^n + 1, over its mean', () => {
    const { small } = secrets.chain(1);
    let largest = 0;
    for (let k = 1; k < 2 * n; k += 2) {
      let [re, im] = [0, 0];
      small.forEach((x, j) => {
        re += x * Math.cos((Math.PI * j * k) / n);
        im += x * Math.sin((Math.PI * j * k) / n);
      });
      largest = Math.max(largest, re ** 2 + im ** 2);
    }
    assert.ok(Math.abs(spectralPeak(small) / (largest / ((2 * n) / 3)) - 1) < 1e-9);
    assert.equal(spectralPeak(new Int32Array(n)), 0);
  });
  it('has no peak in any result secret: one in about sixty is passed over', () => {
    const key = MasterSeed.from(c.entropy.seed()).collectionKey(openPlan({ dimension: 8 }), c.entropy.id());
    let passed = 0;
    for (let generation = 0; passed === 0; generation++) {
      using drawn = new OpenSecrets(key, generation);
      const first = spectralPeak(drawn.chain(128).small); // where result secrets are drawn from
      assert.ok(spectralPeak(drawn.result().small) <= LARGEST_SPECTRUM);
      if (first > LARGEST_SPECTRUM) passed++;
      assert.ok(generation < 1500, 'none was passed over');
    }
  });
});
