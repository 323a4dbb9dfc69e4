import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Pair, plainScores, unitVectors } from '../../testing/search.ts';
import { complexity } from './complexity.ts';
import { Context } from './context.ts';
import { ENCODINGS, HERS } from './encodings.ts';
import { PUBLISHED } from './parameters.ts';

let context: Context;
before(async () => {
  context = await Context.open();
});
after(() => {
  context[Symbol.dispose]();
  assert.equal(context.heap.handles, 0);
});

describe('operations and memory are those of Table 2', () => {
  const cases = {
    naive: [
      [1, 1],
      [3, 5],
      [2, 8],
    ],
    boddeti: [
      [1, 1],
      [3, 5],
      [7, 8],
      [4, 33],
      [1, 4096],
    ],
    hers: [
      [1, 1],
      [3, 5],
      [4096, 4],
      [4097, 3],
      [8193, 2],
    ],
  } as const;
  for (const [name, sizes] of Object.entries(cases) as [keyof typeof cases, readonly (readonly [number, number])[]][]) {
    for (const [m, d] of sizes) {
      it(`${name}, m = ${m}, d = ${d}`, () => {
        const gallery = unitVectors(m, d);
        const query = unitVectors(1, d, 2);
        using pair = new Pair(context, ENCODINGS[name], { dimension: d, templates: m });
        pair.enrol(gallery);
        assert.deepEqual(pair.search(query), plainScores(context, gallery, query));
        const { ciphertexts, bytes, ...operations } = complexity(name, m, d, PUBLISHED);
        assert.deepEqual(pair.server.counts.search, operations);
        assert.equal(pair.server.galleryBytes, bytes);
        assert.equal(pair.server.galleryBytes, ciphertexts * 131072);
      });
    }
  }

  it('as the paper prints it, for a million templates of 128 dimensions', () => {
    const [m, d] = [1_000_000, 128];
    const row = (name: keyof typeof ENCODINGS) => {
      const { multiplications, additions, rotations, ciphertexts } = complexity(name, m, d, PUBLISHED);
      return [multiplications, additions, rotations, ciphertexts];
    };
    assert.deepEqual(row('naive'), [128_000_000, 127_000_000, 0, 128_000_000]);
    assert.deepEqual(row('boddeti'), [1_000_000, 7_000_000, 7_000_000, 1_000_000]);
    assert.deepEqual(row('hers'), [245 * 128, 245 * 127, 0, 245 * 128]);
  });
});

describe('variants of the HERS encoding', () => {
  const [m, d] = [5, 4];
  const gallery = unitVectors(m, d);
  const query = unitVectors(1, d, 2);

  it('relinearises once for a block instead of d times', () => {
    using pair = new Pair(context, HERS, { dimension: d, relinearise: 'once' });
    pair.enrol(gallery);
    assert.deepEqual(pair.search(query), plainScores(context, gallery, query));
    const expected = { multiplications: d, additions: d - 1, rotations: 0, relinearisations: 1 };
    assert.deepEqual(pair.server.counts.search, expected);
  });

  it('begins with an encryption of zero, as Algorithm 7 is printed, at the price of an addition', () => {
    for (const relinearise of ['each', 'once'] as const) {
      using pair = new Pair(context, HERS, { dimension: d, zeroStart: true, relinearise });
      pair.enrol(gallery);
      assert.deepEqual(pair.search(query), plainScores(context, gallery, query));
      assert.equal(pair.server.counts.search.additions, d);
    }
  });

  it('drops a prime before it sends, for half of the response', () => {
    for (const encoding of Object.values(ENCODINGS)) {
      using pair = new Pair(context, encoding, { dimension: d, switchModulus: true });
      pair.enrol(gallery);
      for (let i = 0; i < 2; i++) assert.deepEqual(pair.search(query), plainScores(context, gallery, query));
      const [response] = pair.server.search(pair.client.query(query).bytes);
      assert.ok(response.length > 65536 && response.length < 66000);
      assert.ok(pair.client.noiseBudget(response) > 4);
    }
  });

  it('encrypts by the secret key, for half of the traffic', () => {
    using pair = new Pair(context, HERS, { dimension: d });
    using seeded = new Pair(context, HERS, { dimension: d, encryption: 'seeded' });
    for (const each of [pair, seeded]) {
      each.enrol(gallery);
      assert.deepEqual(each.search(query), plainScores(context, gallery, query));
    }
    const share = seeded.server.traffic.queries / pair.server.traffic.queries;
    assert.ok(share > 0.5 && share < 0.51, String(share));
  });
});

describe('an encoding refuses what it cannot hold', () => {
  it('a template longer than a ciphertext', () => {
    assert.throws(() => new Pair(context, ENCODINGS.boddeti, { dimension: 4097 }), { code: 'INVALID_ARGUMENT' });
    for (const dimension of [0, 1.5, Number.NaN]) {
      assert.throws(() => new Pair(context, HERS, { dimension }), { code: 'INVALID_ARGUMENT' });
    }
  });
});
