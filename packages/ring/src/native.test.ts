// Native code against WebAssembly, byte for byte: every function, every job, every instruction set
// of this machine.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { part } from '../../../tools/parts.ts';
import * as oracle from '../testing/oracle.ts';
import { nttPrimes } from '../testing/primes.ts';
import { checkEqual, fill, functionsOf, jobsOf, nameOf, phasesOf, RINGS } from '../testing/ring-bytes.ts';
import { type Native, variantsOf } from './native.ts';
import { openAddon } from './native-addon.node.ts';
import { Ring } from './ring.ts';
import { passesSelfTest } from './self-test.ts';
import { packThree, roundVectors, squareSums, unpackThree } from './vectors.ts';

const addon = openAddon();
const natives: readonly Native[] = addon ? variantsOf(addon) : [];
const skip = part('compiler').skip || (natives.length === 0 && 'there is no native code for this processor');

describe('native code gives what WebAssembly gives', { skip }, () => {
  for (const shape of RINGS) {
    const { n, primes } = shape;
    it(nameOf(shape), () => {
      const plain = new Ring(n, primes);
      const expected = [functionsOf(plain), jobsOf(plain), phasesOf(plain)];
      for (const native of natives) {
        const ring = new Ring(n, primes, native);
        const actual = [functionsOf(ring), jobsOf(ring), phasesOf(ring)];
        actual.forEach((bytes, i) => {
          checkEqual(bytes, expected[i], native.isa);
        });
      }
    });
  }
  it('transforms as the definition says', () => {
    const primes = nttPrimes(30, 128, 2);
    for (const native of natives) {
      const ring = new Ring(128, primes, native);
      const [a] = ring.polys;
      fill(ring, a, 4);
      const before = a.residues.slice();
      ring.ntt(a);
      primes.forEach((p, i) => {
        const row = (words: Uint32Array) => words.slice(128 * i, 128 * (i + 1));
        assert.deepEqual([...row(a.residues)], oracle.ntt(row(before), BigInt(p), 128));
      });
    }
  });
  it('vectors are rounded alike, whatever their number and dimension', () => {
    for (const [count, dimension] of [1, 2, 15, 16, 17, 33].flatMap((c) => [1, 3, 16, 17, 129].map((d) => [c, d]))) {
      const data = Float32Array.from({ length: count * dimension }, (_, i) =>
        Math.fround(((i * 7919) % 997) / 997 - 0.5),
      );
      data[0] = 1e-40; // too small to be normal
      data[data.length - 1] = 2.5;
      for (const steps of [250, 1023.5, 2 ** 20]) {
        const run = (native: Native | null): ArrayLike<number>[] => {
          const sums = squareSums(data, dimension, native);
          const out = new Int32Array(count * dimension + 5).fill(-7);
          const squares = new Float64Array(count);
          roundVectors(
            out,
            squares,
            data,
            sums.map((x) => 1 / Math.sqrt(x || 1)),
            steps,
            dimension,
            native,
          );
          return [sums, out, squares];
        };
        for (const native of natives) assert.deepEqual(run(native), run(null), `${native.isa} ${count} ${dimension}`);
      }
    }
  });
  it('words become three bytes, and words again', () => {
    for (const count of [0, 1, 3, 4, 7, 8, 9, 16, 31, 1000]) {
      const words = Uint32Array.from({ length: count }, (_, i) => (i * 7_654_321 + 0xffffff) & 0xffffff);
      const run = (native: Native | null): ArrayLike<number>[] => {
        const bytes = new Uint8Array(3 * count);
        packThree(bytes, words, native);
        const back = new Uint32Array(count);
        unpackThree(back, bytes, native);
        return [bytes, back];
      };
      const expected = run(null);
      assert.deepEqual(expected[1], words);
      for (const native of natives) assert.deepEqual(run(native), expected);
    }
  });
  it('every instruction set passes its self-test, and the self-test sees a wrong word', () => {
    for (const native of natives) {
      assert.equal(passesSelfTest(native), true);
      const ring = (...args: Parameters<typeof native.addon.createRing>) => {
        const made = addon!.createRing(...args);
        const wrong: typeof made.scores = (out, ...rest) => {
          const largest = made.scores(out, ...rest);
          out[5] += 1;
          return largest;
        };
        return { ...made, scores: wrong };
      };
      assert.equal(passesSelfTest({ ...native, addon: { ...addon!, createRing: ring } }), false);
    }
  });
  it('leaves no secret behind', () => {
    for (const native of natives) {
      const ring = new Ring(64, nttPrimes(30, 64, 2), native);
      jobsOf(ring);
      for (const poly of ring.polys) assert.ok(poly.residues.every((x) => x === 0));
      for (const words of ring.words) assert.ok(words.values.every((x) => x === 0));
    }
  });
});

describe('native code refuses what would leave its memory', { skip }, () => {
  const variant = 0;
  const memory = new WebAssembly.Memory({ initial: 1 }).buffer;
  const constants = (tables: number) => Uint32Array.of(1_073_741_441, 1, 28, 1, 1, tables);
  const make = () => addon!.createRing(variant, memory, 64, 0, constants(0));

  it('rings that are none', () => {
    for (const place of [natives.length, -1, 2 ** 31])
      assert.throws(() => addon!.createRing(place, memory, 64, 0, constants(0)), /instruction set/);
    assert.throws(() => Reflect.apply(addon!.createRing, undefined, ['avx2', memory, 64, 0, constants(0)]), /number/);
    for (const n of [0, 32, 63, 16384, -64])
      assert.throws(() => addon!.createRing(variant, memory, n, 0, constants(0)), /power of two/);
    for (const at of [1, 65536 - 1020, 65536, 2 ** 32 - 4])
      assert.throws(() => addon!.createRing(variant, memory, 64, 0, constants(at)), /leaves the memory/);
    assert.throws(() => addon!.createRing(variant, memory, 64, 0, new Uint32Array(5)), /six words/);
    assert.throws(() => addon!.createRing(variant, memory, 64, 0, new Uint32Array(6)), /prime/);
    assert.throws(() => addon!.createRing(variant, {} as ArrayBuffer, 64, 0, constants(0)), /memory of a ring/);
    assert.throws(() => Reflect.apply(addon!.createRing, undefined, []), /wrong number/);
  });
  it('pointers, lengths and types', () => {
    const ring = make();
    const p = 1_073_741_441;
    for (const at of [65536 - 252, 2 ** 32 - 4, 2, -4])
      assert.throws(() => ring.ntt(at, 0, 64, p), /leaves the memory/);
    assert.throws(() => ring.ntt(0, 0, 128, p), /polynomial of this ring/);
    for (const wrong of [0, 1, 2, 2 ** 30, 2 ** 32 - 1]) assert.throws(() => ring.ntt(0, 0, 64, wrong), /prime/);
    assert.throws(() => ring.multiply(0, 0, 0, 64, p, 1, 29), /shift/);
    assert.throws(() => ring.uniform(0, 64, p, 0, 65536 - 28, 1, 1, 1), /leaves the memory/);
    assert.throws(() => ring.uniformBits(0, 64, 9, 0, 0, 1, 1), /eight bits/);
    assert.throws(() => ring.ntt('a' as never, 0, 64, p), /number/);
    const key = new Uint8Array(32);
    const none = [new Uint32Array(), new Uint8Array()] as const;
    const block = (rows: number, values: number, count: number, first: number, lifts: number, kept = none) =>
      ring.blockRows(
        new Uint32Array(rows),
        new Int32Array(values),
        count,
        first,
        new Uint32Array(lifts),
        ...([key, 1, 2, key, 3, key, 4] as const),
        ...kept,
        5,
      );
    block(128, 20, 10, 54, 4);
    for (const [rows, values, count, first, lifts] of [
      [127, 20, 10, 54, 4],
      [128, 19, 10, 54, 4],
      [128, 20, 10, 55, 4],
      [128, 130, 65, 0, 4],
      [128, 20, 10, 54, 3],
      [128, 20, 10, -1, 4],
    ])
      assert.throws(() => block(rows, values, count, first, lifts), /of one length/);
    const short = [new Uint32Array(127), new Uint8Array(2)] as never;
    assert.throws(() => block(128, 20, 10, 0, 4, short), /kept secrets/);
    assert.throws(() => block(128, 20, 10, 0, 4, [new Uint32Array(64), new Uint8Array(1)] as never), /kept secrets/);
    const pair = (bytes0: number, bits0: number, bytes1: number, bits1: number, n = 64, out = 64) =>
      ring.scores(
        new Float32Array(out),
        new Uint8Array(bytes0),
        bits0,
        new Uint8Array(bytes1),
        bits1,
        new Float64Array(n),
        1,
        0,
      );
    pair(80, 10, 120, 15);
    assert.throws(() => pair(79, 10, 120, 15), /of this ring/);
    assert.throws(() => pair(80, 10, 119, 15), /of this ring/);
    assert.throws(() => pair(80, 10, 120, 15, 63), /of this ring/);
    assert.throws(() => pair(80, 10, 120, 15, 64, 65), /every slot/);
    assert.throws(() => pair(120, 15, 80, 10), /contradict/);
    assert.throws(() => pair(0, 0, 120, 15), /contradict/);
    assert.throws(() => pair(264, 33, 264, 33), /contradict/);
    for (const [out, words] of [
      [63, 64],
      [64, 65],
    ])
      assert.throws(() => ring.secretPoints(new Float64Array(out), new Uint32Array(words)), /of this ring/);
    const floats = new Float32Array(12);
    assert.throws(() => addon!.squareSums(variant, new Float64Array(5), floats, 3), /dimension/);
    assert.throws(() => addon!.squareSums(variant, new Float64Array(4), floats, 0), /dimension/);
    const numbers = new Float64Array(4);
    assert.throws(() => addon!.roundVectors(variant, new Int32Array(11), numbers, floats, numbers, 1, 3), /dimension/);
    assert.throws(() => addon!.packThree(variant, new Uint8Array(5), new Uint32Array(2)), /three bytes/);
    assert.throws(() => addon!.unpackThree(variant, new Uint32Array(2), new Uint8Array(7)), /three bytes/);
  });
  it('keys of another length, and arrays that were given away', () => {
    const ring = make();
    const scores = () =>
      ring.scores(new Float32Array(64), new Uint8Array(80), 10, packed, 15, new Float64Array(64), 1, 0);
    const packed = new Uint8Array(120);
    scores();
    structuredClone(packed, { transfer: [packed.buffer] });
    assert.throws(scores, /of this ring/);
  });
});
