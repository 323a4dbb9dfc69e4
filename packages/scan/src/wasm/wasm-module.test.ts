import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PARAMETER_SETS } from '@hers/scheme';
import { PANEL_ROWS } from '../segment.ts';
import { foldsEvery16, WasmMemory } from './wasm-memory.ts';
import { compileModule, instantiate } from './wasm-module.ts';

const memory = new WasmMemory();
const wasm = instantiate(compileModule(), memory.memory);
memory.reserve(wasm.heapBase());
const words = (at: number, count: number) => new Uint32Array(memory.memory.buffer, at, count);

const primes = [...new Set(Object.values(PARAMETER_SETS).flatMap((set) => set.primes))];
const ROWS = [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 67, 128, 131, 4100];

describe('the multiply-accumulate', () => {
  /** C0 and C1 of one block and query, 16 lanes each, over a whole part. */
  function part(rows: number, p: number, data: (i: number) => number, slice: (i: number) => number): number[][] {
    const g = memory.take(64 * rows)!;
    const q = memory.take(128 * rows)!;
    const sums = memory.take(256)!;
    const out = memory.take(128)!;
    const G = words(g, 16 * rows).map((_, i) => data(i));
    const Q = words(q, 32 * rows).map((_, i) => slice(i));
    words(g, 16 * rows).set(G);
    words(q, 32 * rows).set(Q);
    const fold = 2 ** 32 % p;
    for (let panel = 0; panel < rows; panel += PANEL_ROWS) {
      const count = Math.min(PANEL_ROWS, rows - panel);
      wasm.accumulate(g + 64 * panel, q + 128 * panel, sums, 1, count, 1, 0, fold, panel === 0 ? 1 : 0);
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
    assert.ok(!foldsEvery16(805306457));
    assert.ok(!foldsEvery16(2 ** 31 - 1));
  });
});
