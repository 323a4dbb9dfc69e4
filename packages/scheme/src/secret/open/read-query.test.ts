import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openCollection, SMALL } from '../../../testing/open.ts';
import { randomVectors } from '../../../testing/samples.ts';
import { HersError } from '../../errors.ts';
import { encodeOpenQuery, type OpenQuery, openQueryMask } from '../../open/query.ts';
import { EvaluationRing } from '../../open/ring.ts';
import { readOpenQuery } from './decrypt.ts';
import { deviceSecret, deviceSeed } from './secrets.ts';

const vectorOf = (label: string, dimension: number, norm = 1) => {
  const vector = randomVectors(label, 1, dimension) as Float32Array;
  const length = Math.hypot(...vector);
  return vector.map((x) => (norm * x) / length);
};
/** One for several tests: its evaluation keys take a second. */
const wide = openCollection({ dimension: 128 });
const refused = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

describe('reading an open query', () => {
  for (const request of [
    { ...SMALL, dimension: 20 },
    { dimension: 128 },
    { dimension: 300 },
    { dimension: 40, metric: 'dot', normBound: 3, queryNormBound: 2 },
    { dimension: 33, metric: 'euclidean', normBound: 5 },
  ] as const)
    it(`gives the vector that was asked for: ${JSON.stringify(request)}`, () => {
      const c = request.dimension === 128 ? wide : openCollection(request);
      const norm = c.plan.metric === 'cosine' ? 1 : 0.8 * c.plan.queryNormBound;
      const probe = vectorOf(`probe ${JSON.stringify(request)}`, request.dimension, norm);
      for (const query of [c.short(probe), c.public(probe)]) {
        const { vector, isHonest, queryId, device } = readOpenQuery(c.key, encodeOpenQuery(query));
        assert.deepEqual([queryId, device, isHonest], [query.queryId, query.device, true]);
        vector.forEach((x, i) => {
          assert.ok(Math.abs(x - probe[i]) < 2e-5 * norm, `${x} is not ${probe[i]}`);
        });
      }
    });

  /** What a cheating device sends: a query whose coordinates it has changed. */
  const altered = (query: OpenQuery, change: (x: number, i: number, p: number) => number): Uint8Array => {
    const { primes } = EvaluationRing.of(query.parameters);
    return encodeOpenQuery({
      ...query,
      body: query.body.map((words, l) =>
        words.map((x, i) => ((change(x, i, primes[l]) % primes[l]) + primes[l]) % primes[l]),
      ),
    });
  };

  it('tells one that no honest device makes', () => {
    const c = wide;
    const probe = vectorOf('probe', 128);
    const one = c.public(probe);
    const scale = c.plan.queryScale * 256;
    const wrong = [
      altered(one, (x, i) => (i === 5 ? x + Math.round(0.001 * scale) : x)),
      altered(one, (x) => x + Math.round(0.05 * scale)),
      altered(one, (x, _, p) => p - x),
      altered(one, () => 0),
    ];
    for (const bytes of wrong) assert.equal(readOpenQuery(c.key, bytes).isHonest, false);
    assert.equal(
      readOpenQuery(
        c.key,
        altered(one, (x) => x),
      ).isHonest,
      true,
    );
  });

  it('tells a length that is off by less where it was made with the key of a device: its noise is less', () => {
    const c = wide;
    const probe = vectorOf('probe', 128);
    const scale = (c.plan.queryScale * EvaluationRing.of(c.plan.parameters).primes[1]) / (32 * c.plan.parameters.n);
    const longer = (by: number) => (x: number, i: number) => x + Math.round(by * scale * probe[i]);
    const by = 800 / (scale * Math.max(...probe.map(Math.abs)));
    assert.equal(readOpenQuery(c.key, altered(c.short(probe), longer(by))).isHonest, false);
    assert.equal(readOpenQuery(c.key, altered(c.public(probe), longer(by))).isHonest, true);
    // An honest one never fails.
    for (let i = 0; i < 50; i++)
      assert.equal(readOpenQuery(c.key, encodeOpenQuery(c.short(vectorOf(`${i}`, 128)))).isHonest, true);
  });

  it('is possible with the secret of its device, of no other, and of none where it was made by the public key', () => {
    const c = wide;
    const probe = vectorOf('probe', 128);
    const { stride } = c.plan.levels;
    // As a thief would who has the secret of device 7 and all that the store has seen.
    const secret = deviceSecret(c.plan.parameters, deviceSeed(c.key, 0, 7));
    const ring = EvaluationRing.of(c.plan.parameters);
    const [q] = ring.primes;
    const read = (query: OpenQuery) => {
      const [mask] = 'seed' in query.mask ? openQueryMask(c.plan.parameters, query.mask.seed) : query.mask.residues;
      const product = ring.intt(0, ring.multiply(0, mask, secret.residues[0]));
      return Array.from(query.body[0], (x, i) => {
        const phase = (x + product[i * stride]) % q;
        return phase > q / 2 ? phase - q : phase;
      });
    };
    const likeness = (found: readonly number[]) =>
      found.reduce((sum, x, i) => sum + x * probe[i], 0) / Math.hypot(...found);
    assert.ok(likeness(read(c.short(probe))) > 0.999999);
    for (const query of [c.short(probe, 0), c.public(probe)]) assert.ok(Math.abs(likeness(read(query))) < 0.7);
  });

  it('refuses one of another key, plan or generation', () => {
    const c = openCollection({ ...SMALL, dimension: 8 });
    const other = openCollection({ ...SMALL, dimension: 8 }, 'another');
    const query = c.public(vectorOf('x', 8));
    assert.throws(() => readOpenQuery(other.key, encodeOpenQuery(query)), refused('KEY_MISMATCH'));
    assert.throws(() => readOpenQuery(c.key, encodeOpenQuery({ ...query, generation: 1 })), refused('KEY_MISMATCH'));
    assert.throws(() => readOpenQuery(c.key, encodeOpenQuery({ ...query, bits0: 4 })), refused('KEY_MISMATCH'));
    assert.throws(() => readOpenQuery(c.key, new Uint8Array(99)), refused('MALFORMED'));
  });
});
