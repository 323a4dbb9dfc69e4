// The addon alone, on rings that no parameter set uses: every n, and primes for which sums must be
// folded more often.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checksum, modPow, moduliOf, Ring } from '@hers/ring';
import { nttPrimes } from '@hers/ring/testing/primes';
import { part } from '../../../../tools/parts.ts';
import { LANES, PANEL_ROWS, panelRuns, putRows, rowBytes } from '../segment.ts';
import { largest, mixed, type Residue } from '../specimen.ts';
import { type Addon, type Isa, loadAddon } from './native-addon.ts';

const compiler = part('compiler');
const QUERY_MASK = 2;

/** The largest prime below `limit` that is 1 modulo 2n. */
function primeBelow(limit: number, n: number): number {
  for (let p = Math.floor((limit - 1) / (2 * n)) * 2 * n + 1; ; p -= 2 * n) {
    // Fermat's test to a few bases is enough here: a composite number would fail the comparison.
    if ([2n, 3n, 5n, 7n].every((base) => modPow(base, BigInt(p) - 1n, BigInt(p)) === 1n)) return p;
  }
}

interface Case {
  readonly n: number;
  readonly primes: readonly number[];
  readonly rows: number;
  readonly blocks: number;
  readonly queries: readonly { readonly bits: readonly [number, number]; readonly residue: Residue }[];
  readonly residue: (block: number) => Residue;
  /** Bytes of a residue; 4 by default. */
  readonly wordBytes?: 3 | 4;
  /** The uniform halves of this many rows, from the third on, are given and not expanded. */
  readonly given?: number;
}

/** [row][word] of residues. */
function matrix({ n, primes, rows }: Case, residue: Residue): Uint32Array {
  const words = n * primes.length;
  return Uint32Array.from({ length: rows * words }, (_, i) => residue(primes[Math.floor((i % words) / n)], i));
}

const GIVEN_AT = 2;
function givenRows(test: Case, query: number): Uint32Array {
  return matrix({ ...test, rows: test.given ?? 0 }, mixed(70 + query));
}

const seedOf = (query: number) => Uint8Array.from({ length: 32 }, (_, i) => 5 * i + query);
const headOf = (query: number) => Uint8Array.from({ length: 80 }, (_, i) => 3 * i + query);

function expected(test: Case, blocks: readonly Uint32Array[], queries: readonly Uint32Array[]): Map<string, Buffer> {
  const ring = Ring.of(test.n, test.primes);
  const words = test.n * test.primes.length;
  const found = new Map<string, Buffer>();
  queries.forEach((query, k) => {
    blocks.forEach((block, b) => {
      const [c0, c1, g, x, a] = ring.polys;
      c0.residues.fill(0);
      c1.residues.fill(0);
      for (let row = 0; row < test.rows; row++) {
        g.residues.set(block.subarray(row * words, (row + 1) * words));
        x.residues.set(query.subarray(row * words, (row + 1) * words));
        ring.uniform(a, { key: seedOf(k), domain: QUERY_MASK, index: row });
        const given = givenRows(test, k).subarray((row - GIVEN_AT) * words, (row - GIVEN_AT + 1) * words);
        if (row >= GIVEN_AT) a.residues.set(given);
        ring.multiplyAdd(c0, g, x);
        ring.multiplyAdd(c1, g, a);
      }
      const packed = [c0, c1].map((c, half) => {
        ring.intt(c);
        const bytes = new Uint8Array(ring.packedBytes(test.queries[k].bits[half]));
        ring.switchAndPack(bytes, c, test.queries[k].bits[half]);
        return bytes;
      });
      const head = Buffer.from(headOf(k));
      head.fill(b + 1, 48, 64);
      head.writeUInt32LE(b, 64);
      head.writeUInt32LE(b + 7, 68);
      const body = Buffer.concat([head, ...packed]);
      const tail = Buffer.alloc(8);
      tail.writeBigUInt64LE(checksum(body));
      found.set(`block ${b}, query ${k}`, Buffer.concat([body, tail]));
    });
  });
  return found;
}

async function scan(
  addon: Addon,
  isa: Isa,
  test: Case,
  blocks: readonly Uint32Array[],
  queries: readonly Uint32Array[],
) {
  const words = test.n * test.primes.length;
  const parts = words / LANES;
  const wordBytes = test.wordBytes ?? 4;
  const partBytes = rowBytes({ wordBytes }, test.rows, test.blocks);
  const data = new Uint32Array((parts * partBytes) / 4);
  for (let group = 0; group < parts; group++) {
    for (let b = 0; b < test.blocks; b++) {
      for (const run of panelRuns({ wordBytes }, test.rows, test.blocks, b)) {
        const at = (group * partBytes + run.at) / 4;
        const from = run.first * words + group * LANES;
        putRows({ wordBytes }, data, at, 0, run.count, { words: blocks[b], from, stride: words });
      }
    }
  }
  const bytes = new Uint8Array(data.buffer);
  const table = new Uint8Array(24 * test.blocks);
  for (let b = 0; b < test.blocks; b++) {
    table.fill(b + 1, 24 * b, 24 * b + 16);
    new Uint32Array(table.buffer, 24 * b + 16, 2).set([b, b + 7]);
  }
  const partChecksums = BigUint64Array.from({ length: parts }, (_, i) =>
    checksum(bytes.subarray(i * partBytes, (i + 1) * partBytes)),
  );
  const pool = addon.createPool(2);
  const packed = wordBytes === 3;
  const segment = addon.allocateSegment({
    rows: test.rows,
    panelRows: PANEL_ROWS,
    packed,
    dataAt: 0,
    table,
    partChecksums,
  });
  addon.writeSegment(segment, 0, bytes);
  const refs = queries.map((rows, k) => {
    const given = givenRows(test, k);
    const length = rows.length + given.length;
    const ref = addon.createQuery(pool, length, GIVEN_AT, ...test.queries[k].bits, seedOf(k), headOf(k));
    addon.writeQuery(ref, 0, rows);
    addon.writeQuery(ref, rows.length, given);
    return ref;
  });
  const found = new Map<string, Buffer>();
  const ring = addon.createRing(isa, test.n, moduliOf(test.n, test.primes));
  const ending = await new Promise<number[]>((resolve) => {
    const running = addon.startScan(pool, ring, [segment], refs, QUERY_MASK, false, (buffer, numbers) => {
      if (!buffer) return resolve(numbers as number[]);
      for (let i = 0; i < numbers.length; i += 5) {
        found.set(
          `block ${numbers[i + 1]}, query ${numbers[i + 2]}`,
          Buffer.from(buffer, numbers[i + 3], numbers[i + 4]),
        );
      }
      addon.releaseBatch(running);
    });
  });
  assert.equal(ending[0], 1, 'it is done');
  addon.closePool(pool);
  return found;
}

describe('native addon', compiler, () => {
  const cases: (Case & { name: string })[] = [];
  const of = (residue: Residue) => [
    { bits: [13, 24] as const, residue },
    { bits: [3, 5] as const, residue },
    { bits: [20, 21] as const, residue },
  ];
  for (let n = 64; n <= 8192; n *= 2) {
    for (const count of [1, 2]) {
      const primes = nttPrimes(30, n, count);
      const name = `n = ${n}, ${count} largest primes`;
      cases.push({ name, n, primes, rows: 21, blocks: 3, queries: of(mixed(50)), residue: mixed });
    }
  }
  for (const share of [0.99, 0.97, 0.9, 0.81, 0.7, 0.55]) {
    const p = primeBelow(share * 2 ** 30, 64);
    const name = `n = 64, p = ${p}, every residue p − 1`;
    cases.push({ name, n: 64, primes: [p], rows: 150, blocks: 2, queries: of(largest), residue: () => largest });
  }
  const p = primeBelow(2 ** 20, 64);
  cases.push({
    name: `n = 64, p = ${p}`,
    n: 64,
    primes: [p],
    rows: 150,
    blocks: 2,
    queries: of(largest),
    residue: mixed,
  });

  for (const bits of [20, 23, 24]) {
    for (const rows of [4, 5, 6, 7, 8, 63, 64, 65, 134, 150, 257, 4103]) {
      const p = primeBelow(2 ** bits, 64);
      const name = `packed rows, p = ${p}, ${rows} rows`;
      const packed = { n: 64, primes: [p], rows, wordBytes: 3, given: 2 } as const;
      cases.push({ ...packed, name, blocks: 7, queries: of(mixed(50)), residue: mixed });
      cases.push({
        ...packed,
        name: `${name}, every residue p − 1`,
        blocks: 2,
        queries: of(largest),
        residue: () => largest,
      });
    }
  }

  for (const test of cases) {
    it(test.name, async () => {
      const addon = loadAddon();
      const blocks = Array.from({ length: test.blocks }, (_, b) => matrix(test, test.residue(b)));
      const queries = test.queries.map(({ residue }) => matrix(test, residue));
      const want = expected(test, blocks, queries);
      for (const isa of addon.variants()) {
        const found = await scan(addon, isa, test, blocks, queries);
        assert.equal(found.size, want.size);
        for (const [place, bytes] of found) assert.ok(want.get(place)!.equals(bytes), `${place} differs with ${isa}`);
      }
    });
  }

  it('refuses what is not its own', () => {
    const addon = loadAddon();
    const pool = addon.createPool(1);
    assert.throws(() => addon.closePool({} as never), /handle was expected/);
    assert.throws(() => addon.stopScan(pool as never), /handle of another kind/);
    assert.throws(() => Reflect.apply(addon.createPool, undefined, []), /wrong number of arguments/);
    const layout = {
      rows: 5,
      panelRows: 6,
      dataAt: 0,
      table: new Uint8Array(24),
      partChecksums: new BigUint64Array(4),
    };
    assert.throws(() => addon.allocateSegment({ ...layout, packed: true }), /layout is wrong/);
    assert.throws(() => addon.createRing('generic', 60, moduliOf(64, nttPrimes(30, 64, 1))), /power of two/);
    addon.closePool(pool);
    assert.throws(() => addon.closePool(pool), /was closed/);
  });
});
