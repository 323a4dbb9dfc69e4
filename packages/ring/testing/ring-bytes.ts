// Everything that a ring computes, from the same beginnings and with the extremes: what native code
// and WebAssembly must agree on.

import assert from 'node:assert/strict';
import { type Poly, ResultSecret, type Ring } from '../src/ring.ts';
import * as oracle from './oracle.ts';
import { nttPrimes } from './primes.ts';

const keyOf = (by: number) => Uint8Array.from({ length: 32 }, (_, i) => (i + 1) * (2 * by + 1));

/** Every parameter set of scheme, and rings of every size. */
export const RINGS: { n: number; primes: readonly number[] }[] = [
  { n: 2048, primes: [1_073_692_673] },
  { n: 4096, primes: [1_073_692_673, 1_073_668_097] },
  { n: 4096, primes: [1_073_643_521, 1_073_479_681] },
  { n: 2048, primes: [16_760_833] },
  { n: 64, primes: [1_073_741_441, 1_073_739_649] },
  { n: 64, primes: [16_776_961] },
  // An eighth of all words is discarded.
  { n: 1024, primes: [469_762_049] },
  // The larger one second, and one that is far below the other.
  { n: 256, primes: nttPrimes(30, 256, 2).toReversed() },
  { n: 64, primes: [1_073_741_441, nttPrimes(30, 64, 2000).at(-1)!] },
];
for (let n = 64; n <= 8192; n *= 2) for (const count of [1, 2]) RINGS.push({ n, primes: nttPrimes(30, n, count) });

export const nameOf = ({ n, primes }: { n: number; primes: readonly number[] }) => `n = ${n}, p = ${primes.join(', ')}`;

/** Residues with the extremes well represented; `kind` 0 … 2 is all of one. */
export function fill(ring: Ring, poly: Poly, kind: number): void {
  ring.uniform(poly, { key: keyOf(50), domain: 99, index: kind });
  ring.primes.forEach((p, i) => {
    const row = poly.residues.subarray(i * ring.n, (i + 1) * ring.n);
    if (kind < 3) row.fill([0, p - 1, p >> 1][kind]);
    else for (const [j, x] of [0, 1, p - 1, p - 1, p >> 1, (p >> 1) + 1].entries()) row[(j * (kind + 2)) % ring.n] = x;
  });
}

/** What one of them computes, called by what it is. */
export type Bytes = Record<string, ArrayLike<number>>;

export function functionsOf(ring: Ring): Bytes {
  const out: Bytes = {};
  const [a, b, c] = ring.polys;
  const [x, y] = ring.words;
  const see = (name: string, array: Uint32Array | Int32Array) => {
    out[name] = array.slice();
  };
  for (const index of [0, 1, 0xffffffff]) {
    const source = { key: keyOf(index & 7), domain: 5, index };
    ring.uniform(a, source);
    see(`uniform ${index}`, a.residues);
    ring.ternary(x, source);
    see(`ternary ${index}`, x.values);
    ring.error(y, source);
    see(`error ${index}`, y.values);
    for (const t of [1, 5, 8]) {
      ring.uniformBits(x, t, source);
      see(`uniformBits ${t} ${index}`, x.values);
    }
  }
  for (let kind = 0; kind < 6; kind++) {
    const run = (name: string, f: () => void) => {
      fill(ring, a, kind);
      fill(ring, b, (kind * 7 + 1) % 6);
      fill(ring, c, (kind * 5 + 2) % 6);
      f();
      see(`${name} ${kind}`, c.residues);
    };
    run('ntt', () => ring.ntt(c));
    run('intt', () => ring.intt(c));
    run('add', () => ring.add(c, a, b));
    run('subtract', () => ring.subtract(c, a, b));
    run('multiply', () => ring.multiply(c, a, b));
    run('multiplyAdd', () => ring.multiplyAdd(c, a, b));
    run('multiplySubtract', () => ring.multiplySubtract(c, a, b));
    run('in place', () => ring.multiply(c, c, c));
    run('scaleAdd', () => ring.scaleAdd(c, a, -123456789012n));
    const p = ring.primes[0];
    x.values.forEach((_, j) => {
      x.values[j] = [0, 1, -1, p - 1, 1 - p, (j * 7919) % p][j % 6];
      y.values[j] = (j % 43) - 21;
    });
    run('encode', () => ring.encode(c, x, y, 987654321n));
    run('embed', () => ring.embed(c, y));
    fill(ring, a, kind);
    out[`isReduced ${kind}`] = [Number(ring.isReduced(a.residues))];
    for (const at of [0, ring.n - 1, a.residues.length - 1]) {
      const before = a.residues[at];
      a.residues[at] = ring.primes[at < ring.n ? 0 : 1];
      out[`isReduced ${kind}, not at ${at}`] = [Number(ring.isReduced(a.residues.slice()))];
      a.residues[at] = 0xffffffff;
      out[`isReduced ${kind}, far from it at ${at}`] = [Number(ring.isReduced(a.residues.slice()))];
      a.residues[at] = before;
    }
  }
  ring.wipe();
  return out;
}

/** Values that are small, extreme, or all of one. */
function valuesFor(rows: number, count: number, kind: number): Int32Array {
  const most = 2 ** 20;
  return Int32Array.from({ length: rows * count }, (_, i) =>
    kind === 0 ? ((i * 7919) % 2001) - 1000 : kind === 1 ? -most : [most, -most, 0, 1, -1][i % 5],
  );
}

export function jobsOf(ring: Ring): Bytes {
  const out: Bytes = {};
  const { n, primes } = ring;
  const words = n * primes.length;
  const rows = 5;
  // Q must be 1 modulo 2^t, and Q·2^t below 2^64, as those of scheme are.
  const wide = [5n, 4n, 1n].filter((t) => ring.modulus % 2n ** t === 1n && ring.modulus << t < 2n ** 64n).map(Number);
  const cases = wide.flatMap((wideBits) => [
    { wideBits, count: n, first: 0, kind: 0, isKept: true },
    { wideBits, count: 1, first: n - 1, kind: 1, isKept: false },
    { wideBits, count: n - 7, first: 3, kind: 2, isKept: true },
  ]);
  for (const { wideBits, count, first, kind, isKept } of cases) {
    const name = `${wideBits} wide bits, ${count} from ${first}`;
    const room = isKept ? { kept: new Uint32Array(rows * words), isKept: new Uint8Array(rows) } : undefined;
    const rest = {
      lifts: [1, 2, 12345, 2 ** 31 + 1, 2 ** 45 + 3],
      mask: { key: keyOf(11), domain: 1, bitsDomain: 9 },
      errors: { key: keyOf(13), domain: 3 },
      secrets: { key: keyOf(15), domain: 4, kept: room?.kept, isKept: room?.isKept },
      wideBits,
    };
    const block = { ...rest, rows: new Uint32Array(rows * words), values: valuesFor(rows, count, kind), count, first };
    ring.blockRows(block);
    out[`block: ${name}`] = block.rows.slice();
    // Again, with the secrets that were kept.
    ring.blockRows({ ...block, errors: { key: keyOf(14), domain: 3 } });
    out[`second block: ${name}`] = block.rows;
    if (room) out[`secrets: ${name}`] = [...room.kept, ...room.isKept];
    for (const [digits, digitBits] of [
      [3, 20],
      [6, 2],
    ]) {
      const query = {
        ...rest,
        rows: new Uint32Array((rows + digits) * words),
        values: valuesFor(rows, 1, kind),
        secret: new Uint32Array(n),
        result: { key: keyOf(17), domain: 5 },
        digits,
        digitBits,
      };
      ring.queryRows(query);
      out[`query: ${name}, ${digits} digits`] = query.rows;
      out[`its secret: ${name}, ${digits} digits`] = query.secret;
    }
  }
  ring.wipe();
  return out;
}

/** Of every kind of secret, all bits that this n has room for, and the extremes. */
export function phasesOf(ring: Ring): Bytes {
  const out: Bytes = {};
  const { n } = ring;
  const most = Math.min(32, 2 * (32 - Math.clz32(ring.primes[0]) - 1 - Math.log2(n)));
  const [words] = ring.words;
  const secrets = ['random', 'ones', 'alternating'].map((kind) => {
    ring.ternary(words, { key: keyOf(21), domain: 1, index: 1 });
    if (kind !== 'random') words.values.forEach((_, j) => (words.values[j] = kind === 'ones' || j % 2 === 0 ? 1 : -1));
    ring.embed(ring.polys[0], words);
    ring.ntt(ring.polys[0]);
    return { kind, result: new ResultSecret(ring.polys[0].residues.slice(0, n)) };
  });
  for (let bits1 = n > 2048 ? most - 1 : 1; bits1 <= most; bits1++) {
    for (const bits0 of new Set([1, Math.max(1, bits1 - 5), bits1])) {
      // Random, −1, the smallest, and signs that add up.
      for (const kind of [0, 1, 2, 3]) {
        const packed = (bits: number) =>
          kind < 2
            ? Uint8Array.from({ length: (n * bits) / 8 }, (_, i) => (kind === 0 ? (i * 73 + bits) ^ (i >> 3) : 255))
            : oracle.packBits(
                Array.from({ length: n }, (_, j) =>
                  kind === 3 && j % 2 === 0 ? 2 ** (bits - 1) - 1 : 2 ** (bits - 1),
                ),
                bits,
              );
        const pair = { packed0: packed(bits0), bits0, packed1: packed(bits1), bits1 };
        for (const { kind: of, result } of n > 2048 || bits1 === most ? secrets : secrets.slice(0, 1)) {
          const name = `${bits0}, ${bits1} bits, kind ${kind}, secret ${of}`;
          const scores = ring.scores(pair, result, 1.7 / 2 ** bits1, -0.3);
          const integers = ring.integers(pair, result, 3.3);
          out[`scores: ${name}`] = [...new Uint32Array(scores.values.buffer), scores.largest];
          out[`integers: ${name}`] = [...integers.values, integers.residual];
        }
      }
    }
  }
  return out;
}

export function checkEqual(actual: Bytes, expected: Bytes, isa: string): void {
  assert.deepEqual(Object.keys(actual), Object.keys(expected));
  for (const [name, want] of Object.entries(expected)) {
    const got = actual[name];
    assert.equal(got.length, want.length, `${isa}, ${name}`);
    for (let i = 0; i < want.length; i++)
      if (!Object.is(got[i], want[i])) assert.fail(`${isa}, ${name}: word ${i} is ${got[i]} and not ${want[i]}`);
  }
}
