import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PARAMETER_SETS } from '@hers/scheme';
import fc from 'fast-check';
import { panelRuns, putRows, rowBytes } from '../segment.ts';
import { foldsEvery16, WasmMemory } from './wasm-memory.ts';
import { compileModule, instantiate } from './wasm-module.ts';

const memory = new WasmMemory();
const wasm = instantiate(compileModule(), memory.memory);
memory.reserve(wasm.heapBase());
const words = (at: number, count: number) => new Uint32Array(memory.memory.buffer, at, count);

const primes = [...new Set(Object.values(PARAMETER_SETS).flatMap((set) => set.primes))];
// Below 0.8·2^30, where c is large, and of few bits.
primes.push(805306457, 2 ** 23 + 9, 65537);
const ROWS = [1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 67, 128, 131, 134, 4103];

describe('the multiply-accumulate', () => {
  /** C0 and C1 of one block and query, 16 lanes each, over a whole part. */
  function part(rows: number, p: number, data: (i: number) => number, slice: (i: number) => number): number[][] {
    const wordBytes = p < 2 ** 24 ? 3 : 4;
    const g = memory.take(rowBytes({ wordBytes }, rows, 1))!;
    const q = memory.take(128 * rows)!;
    const sums = memory.take(256)!;
    const out = memory.take(128)!;
    const G = Uint32Array.from({ length: 16 * rows }, (_, i) => data(i));
    const Q = words(q, 32 * rows).map((_, i) => slice(i));
    words(q, 32 * rows).set(Q);
    const fold = 2 ** 32 % p;
    for (const run of panelRuns({ wordBytes }, rows, 1, 0)) {
      const { first, count, at, bytes } = run;
      const start = first === 0 ? 1 : 0;
      putRows({ wordBytes }, words(g + at, bytes / 4), 0, 0, count, { words: G, from: 16 * first, stride: 16 });
      if (wordBytes === 3) wasm.accumulatePacked(g + at, q + 128 * first, sums, 1, count, 1, 0, start);
      else wasm.accumulate(g + at, q + 128 * first, sums, 1, count, 1, 0, fold, start);
    }
    wasm.reduce(sums, out, 1, 64, p, fold);
    const lazy = [...words(out, 32)];
    for (const at of [g, q, sums, out]) memory.give(at);
    assert.ok(lazy.every((x) => x < 2 * p));
    const residues = lazy.map((x) => x % p);
    return [residues.slice(0, 16), residues.slice(16)];
  }

  it('does not overflow when every residue is p − 1, whose square is 1', () => {
    for (const p of primes) {
      for (const rows of ROWS) {
        const ones = new Array<number>(16).fill(rows % p);
        const found = part(
          rows,
          p,
          () => p - 1,
          () => p - 1,
        );
        assert.deepEqual(found, [ones, ones], `p = ${p}, ${rows} rows`);
      }
    }
  });

  it('equals its definition on random residues', () => {
    for (const p of primes) {
      for (const rows of ROWS.slice(0, -1)) {
        const random = (i: number, k: number) => Math.imul(i + 1, k) >>> 2;
        const data = (i: number) => random(i, 0x9e3779b1) % p;
        const slice = (i: number) => random(i, 0x85ebca6b) % p;
        const expected = [0, 1].map((half) =>
          Array.from({ length: 16 }, (_, lane) => {
            let sum = 0n;
            for (let row = 0; row < rows; row++)
              sum += BigInt(data(16 * row + lane)) * BigInt(slice(32 * row + 16 * half + lane));
            return Number(sum % BigInt(p));
          }),
        );
        assert.deepEqual(part(rows, p, data, slice), expected, `p = ${p}, ${rows} rows`);
      }
    }
  });

  it('is refused for primes whose sums could overflow', () => {
    assert.ok(primes.every(foldsEvery16));
    assert.ok(foldsEvery16(2 ** 30 - 35));
    assert.ok(!foldsEvery16(2 ** 31 - 1));
  });
});

describe('the shared memory', () => {
  it('hands out ranges that do not overlap, and joins what comes back', () => {
    const orders = fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 200_000 }), give: fc.nat(20) }));
    fc.assert(
      fc.property(orders, (list) => {
        const memory = new WasmMemory(2 ** 22);
        memory.reserve(1000);
        const held: { at: number; end: number }[] = [];
        for (const { bytes, give } of list) {
          const at = memory.take(bytes);
          if (at !== undefined) {
            assert.ok(at >= 1000 && at + bytes <= memory.bytes && memory.bytes <= 2 ** 22);
            assert.ok(held.every((other) => at + bytes <= other.at || at >= other.end));
            held.push({ at, end: at + bytes });
          }
          const [back] = held.splice(give, 1);
          if (back) memory.give(back.at);
        }
        for (const { at } of held) memory.give(at);
        assert.notEqual(memory.take(2 ** 22 - 65536), undefined);
      }),
      { numRuns: 50 },
    );
  });

  it('says when there is no room, and takes nothing back twice', () => {
    const memory = new WasmMemory(2 ** 20);
    memory.reserve(0);
    const at = memory.take(2 ** 19)!;
    assert.equal(memory.take(2 ** 20), undefined);
    memory.give(at);
    assert.throws(() => memory.give(at), RangeError);
    assert.notEqual(memory.take(2 ** 20), undefined);
  });
});
