// Fast expansion and packing against the slow ones, byte for byte, for all code of this machine.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Expansion, Ring } from '@hers/ring';
import { allCode } from '@hers/ring/testing/code';
import { openCollection, SMALL } from '../../testing/open.ts';
import { randomVectors } from '../../testing/samples.ts';
import { expandOpenQuery, packResults } from '../../testing/slow-open.ts';
import { unswitched } from '../../testing/slow-ring.ts';
import { OPEN_SETS } from '../parameters.ts';
import { makeDeviceEvaluationFrom } from '../secret/open/evaluation.ts';
import {
  decodeEvaluation,
  type EvaluationKeys,
  encodeEvaluation,
  evaluationKeys,
  peekDeviceEvaluation,
} from './evaluation.ts';
import { Evaluator, expansionShape } from './fast.ts';
import type { OpenResult } from './pack.ts';
import type { OpenQuery } from './query.ts';
import { EvaluationRing, P1, Q } from './ring.ts';

const codes = allCode();

/** Residues modulo q, switched to 32 bits, that nothing is behind. */
function resultsOf(query: OpenQuery, count: number, fill?: number): OpenResult[] {
  const { n, primes } = query.parameters;
  const [q] = primes;
  const words = (by: number) =>
    Uint32Array.from({ length: n }, (_, i) => Math.round(((fill ?? (i * by * 7919 + by) % q) * 2 ** 32) / q));
  const block = { blockId: new Uint8Array(16), first: 0, count: n };
  return Array.from({ length: count }, (_, u) => ({ block, body: words(3 * u + 1), mask: words(5 * u + 2) }));
}

function same(a: Uint32Array | Uint8Array, b: Uint32Array | Uint8Array, what: string): void {
  assert.equal(a.length, b.length, what);
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) assert.fail(`${what}: word ${i} is ${a[i]} and not ${b[i]}`);
}

function compare(keys: EvaluationKeys, query: OpenQuery, results: readonly OpenResult[]): void {
  const expected = expandOpenQuery(keys, query);
  const packed = packResults(keys, query, results);
  for (const { name, native } of codes) {
    const evaluator = new Evaluator(keys, new Expansion(expansionShape(keys.parameters, keys.width), native));
    for (const threads of native ? [1, 2, 3] : [1]) {
      const got = evaluator.expand(query, threads);
      same(got.bodies, expected.bodies, `${name}, ${threads} threads, bodies`);
      same(got.masks, expected.masks, `${name}, ${threads} threads, masks`);
    }
    const pack = evaluator.pack(query, results);
    same(pack.mask, packed.mask, `${name}, packed mask`);
    packed.bodies.forEach((body, v) => {
      same(pack.bodies[v], body, `${name}, packed body ${v}`);
    });
  }
}

it('responses of 32 bits tell every residue exactly', () => {
  for (const { n, primes } of Object.values(OPEN_SETS)) {
    const [q] = primes;
    const ring = Ring.of(n, primes);
    const [poly] = ring.polys;
    const bytes = new Uint8Array(4 * n);
    for (const residue of [
      (i: number) => i,
      (i: number) => q - 1 - i,
      (i: number) => Math.floor((i * q) / n),
      () => Math.floor(Math.random() * q),
      (i: number) => Math.min(q - 1, 2 ** (i % 30)),
    ]) {
      const words = Uint32Array.from({ length: n }, (_, i) => residue(i));
      poly.residues.set(words);
      ring.switchAndPack(bytes, poly, 32);
      assert.deepEqual(unswitched(new Uint32Array(bytes.buffer), q), words);
    }
  }
});

describe('the piece of a device that is made apart', () => {
  const c = openCollection({ ...SMALL, dimension: 30 });
  const probe = randomVectors('probe', 1, 30);
  const piece = decodeEvaluation(makeDeviceEvaluationFrom(c.entropy.seed, c.key, 9, 0));
  it('expands its queries as one that was among the others does, by all code', () => {
    const query = c.short(probe, 9);
    assert.throws(() => c.evaluator.expand(query), /no evaluation keys for the device/);
    const keys = evaluationKeys([...c.pieces.map((each) => decodeEvaluation(each)), piece]);
    const expected = expandOpenQuery(keys, query);
    for (const { name, native } of codes) {
      const evaluator = new Evaluator(c.keys, new Expansion(expansionShape(c.keys.parameters, c.keys.width), native));
      const got = evaluator.expand(query, 1, piece);
      same(got.bodies, expected.bodies, `${name}, bodies`);
      same(got.masks, expected.masks, `${name}, masks`);
    }
  });
  it('is for queries of that device, key, generation and width alone', () => {
    const encoded = encodeEvaluation(piece);
    assert.deepEqual(peekDeviceEvaluation(encoded), { keyId: c.key.keyId, device: 9 });
    assert.throws(() => peekDeviceEvaluation(c.pieces[0]), /no evaluation keys of a device/);
    const refused = (change: object, query = c.short(probe, 9)) =>
      assert.throws(() => c.evaluator.expand(query, 1, { ...piece, ...change }), { code: 'KEY_MISMATCH' });
    refused({ first: 8 });
    refused({}, c.short(probe, 7));
    refused({}, c.public(probe));
    refused({ keyId: new Uint8Array(16) });
    refused({ generation: 1 });
    refused({ width: 32 });
    refused({ part: 'chain' });
  });
});

describe(`fast code (${codes.map(({ name }) => name).join(', ')}) gives the bytes of the slow`, () => {
  // One node or many, no leaf left or some, one mask or several, no trace or a long one.
  for (const dimension of [2, 8, 9, 16, 30, 64, 100, 128])
    it(`n = 128, d = ${dimension}`, () => {
      const c = openCollection({ ...SMALL, dimension });
      const probe = randomVectors('probe', 1, dimension);
      for (const [i, query] of [c.short(probe), c.public(probe)].entries())
        compare(c.keys, query, resultsOf(query, i === 0 ? 8 : 1 + (dimension % 7)));
    });
  it('n = 4096, d = 40', () => {
    const c = openCollection({ dimension: 40 });
    const query = c.public(randomVectors('probe', 1, 40));
    compare(c.keys, query, resultsOf(query, 8));
  });
  it('with every residue of keys, queries and results at p − 1', () => {
    for (const request of [{ ...SMALL, dimension: 64 }, { dimension: 16 }]) {
      const c = openCollection(request);
      const { parameters } = c.plan;
      const { primes, n } = EvaluationRing.of(parameters);
      const most = (indices: readonly number[]) => indices.map((l) => new Uint32Array(n).fill(primes[l] - 1));
      const pair = () => [most([0, 1, 2]), most([0, 1, 2])] as const;
      const keys: EvaluationKeys = {
        ...c.keys,
        devices: new Map([
          [
            7,
            [
              [pair(), pair()],
              [pair(), pair()],
            ],
          ],
        ]),
        steps: c.keys.steps.map(
          () =>
            [
              [pair(), pair()],
              [pair(), pair()],
            ] as const,
        ),
        last: c.keys.last.map(() => [pair(), pair()] as const),
        masks: c.keys.masks.map((list) => list.map(() => [pair(), pair()] as const)),
        packing: c.keys.packing.map(({ bodies }) => ({ mask: most([0, 2]), bodies: bodies.map(() => most([0, 2])) })),
      };
      const plain = c.short(randomVectors('probe', 1, c.plan.dimension));
      const body = [Q, P1].map((l) => new Uint32Array(plain.width).fill(primes[l] - 1));
      const query = { ...plain, mask: { residues: most([Q, P1]) }, body };
      compare(keys, query, resultsOf(query, 8, primes[Q] - 1));
    }
  });
});

describe('native expansion refuses', () => {
  const native = codes.find(({ native }) => native)?.native;
  it('arrays of other lengths and shapes that contradict themselves', {
    skip: !native && 'there is no native code',
  }, () => {
    const c = openCollection({ ...SMALL, dimension: 16 });
    const shape = expansionShape(c.plan.parameters, c.plan.width);
    const words = (count: number) => new Uint32Array(count);
    const { n } = shape;
    const make = (change: object) => new Expansion({ ...shape, ...change }, native);
    const run = (expansion: Expansion, lengths: readonly number[], threads = 1) => {
      const [steps, last, masks, first, body, mask, rows] = lengths.map(words);
      const keys = { steps, last, masks, packing: words(0) };
      expansion.expand(keys, first, body, mask, { bodies: rows, masks: rows.slice() }, threads);
    };
    const right = [
      24 * 3 * n,
      96 * n,
      288 * (shape.nodes / shape.masks) * n,
      24 * n,
      2 * n,
      2 * n,
      (16 + 5 * shape.masks) * n,
    ];
    run(make({}), right);
    right.forEach((length, i) => {
      for (const wrong of [0, length - 1, length + 1])
        assert.throws(() => run(make({}), right.with(i, wrong)), RangeError, `array ${i} of ${wrong}`);
    });
    assert.throws(() => run(make({}), right, 0), RangeError);
    assert.throws(() => run(make({}), right, 257), RangeError);
    for (const change of [
      { width: 0 },
      { width: 17 },
      { nodes: 4 },
      { masks: 3 },
      { trace: 9 },
      { digits: 0 },
      { wideBits: 9 },
      { bases: [0, 2, 6] },
    ])
      assert.throws(() => run(make(change), right), RangeError, JSON.stringify(change));
    const pack = (count: number, keys: number, results: number) => {
      const packing = words(keys);
      const prepared = { steps: words(0), last: words(0), masks: words(0), packing };
      make({}).pack(prepared, count, words(results * n), words(results * n), words((results + 1) * n));
    };
    pack(3, 8 * 9 * 2 * n, 3);
    assert.throws(() => pack(3, 8 * 9 * 2 * n - 1, 3), RangeError);
    assert.throws(() => pack(3, 8 * 9 * 2 * n, 2), RangeError);
    assert.throws(() => pack(9, 8 * 9 * 2 * n, 9), RangeError);
    assert.throws(() => pack(0, 8 * 9 * 2 * n, 0), RangeError);
  });
});
