// Whether native code gives the bytes that WebAssembly gives: a small ring of one prime and one of
// two, with every function and every job. It takes a millisecond or two, once in a process.

import type { Native } from './native.ts';
import { ResultSecret, Ring } from './ring.ts';
import { packThree, roundVectors, squareSums, unpackThree } from './vectors.ts';

const N = 64;
const RINGS = [[1_073_741_441], [1_073_741_441, 1_073_739_649]];
const key = (by: number) => Uint8Array.from({ length: 32 }, (_, i) => (by * (i + 1)) & 255);

export function passesSelfTest(native: Native): boolean {
  for (const primes of RINGS) if (ringBytes(primes, null) !== ringBytes(primes, native)) return false;
  return vectorBytes(null) === vectorBytes(native);
}

/** Everything that a ring computes from the same beginning, as text. */
function ringBytes(primes: readonly number[], native: Native | null): string {
  const ring = new Ring(N, primes, native);
  const [a, b, c] = ring.polys;
  const [x, y] = ring.words;
  const seen: string[] = [];
  const see = (...arrays: readonly ArrayLike<number>[]) =>
    seen.push(...arrays.map((array) => Array.from(array).join()));
  ring.uniform(a, { key: key(3), domain: 1, index: 2 });
  ring.uniform(b, { key: key(5), domain: 3, index: 4 });
  ring.ternary(x, { key: key(7), domain: 5, index: 6 });
  ring.error(y, { key: key(9), domain: 7, index: 8 });
  see(a.residues, b.residues, x.values, y.values);
  ring.ntt(a);
  see(a.residues);
  ring.multiply(c, a, b);
  ring.multiplyAdd(c, b, b);
  ring.multiplySubtract(c, a, a);
  ring.scaleAdd(c, b, 123456789n);
  ring.add(c, c, a);
  ring.subtract(c, c, b);
  see(c.residues);
  ring.intt(c);
  see(c.residues);
  ring.encode(b, x, y, 12345n);
  ring.embed(a, x);
  see(a.residues, b.residues, [Number(ring.isReduced(a.residues))]);
  const rest = {
    mask: { key: key(11), domain: 1, bitsDomain: 9 },
    errors: { key: key(13), domain: 3 },
    secrets: { key: key(15), domain: 4, kept: undefined, isKept: undefined },
    wideBits: 4,
    lifts: [1, 77],
  };
  const words = N * primes.length;
  const rows = new Uint32Array(2 * words);
  const values = Int32Array.from({ length: 2 * 50 }, (_, i) => (i % 7) * 100 - 300);
  ring.blockRows({ ...rest, rows, values, count: 50, first: 3 });
  see(rows);
  const query = new Uint32Array(5 * words);
  const secret = new Uint32Array(N);
  const source = { key: key(17), domain: 5 };
  ring.queryRows({
    ...rest,
    rows: query,
    values: values.subarray(0, 2),
    secret,
    result: source,
    digits: 3,
    digitBits: 3,
  });
  see(query, secret);
  const packed = (bits: number) => Uint8Array.from({ length: (N * bits) / 8 }, (_, i) => (i * 73 + bits) & 255);
  const pair = { packed0: packed(11), bits0: 11, packed1: packed(19), bits1: 19 };
  const result = new ResultSecret(secret);
  const scores = ring.scores(pair, result, 0.125, 1);
  const integers = ring.integers(pair, result, 0.37);
  see(scores.values, [scores.largest], integers.values, [integers.residual]);
  ring.wipe();
  return seen.join('\n');
}

function vectorBytes(native: Native | null): string {
  const [count, dimension] = [19, 21];
  const data = Float32Array.from({ length: count * dimension }, (_, i) => ((i * 37) % 101) / 101 - 0.5);
  const sums = squareSums(data, dimension, native);
  const out = new Int32Array(data.length);
  const squares = new Float64Array(count);
  roundVectors(
    out,
    squares,
    data,
    sums.map((x) => 1 / Math.sqrt(x)),
    1023,
    dimension,
    native,
  );
  const words = Uint32Array.from({ length: 21 }, (_, i) => (i * 7_654_321) & 0xffffff);
  const bytes = new Uint8Array(63);
  packThree(bytes, words, native);
  const back = new Uint32Array(21);
  unpackThree(back, bytes, native);
  return [sums, out, squares, bytes, back].map((array) => Array.from(array).join()).join('\n');
}
