/**
 * Reference implementations of the ring primitives, written from their definitions.
 *
 * Nothing here is fast, constant-time or meant for production: each function is the shortest
 * faithful statement of what it computes, so that the optimized code can be tested against it.
 */

// -------------------------------------------------------------------------------------------------
// Integers

/** x mod q in [0, q), for any sign of x. */
export function mod(x: bigint, q: bigint): bigint {
  const r = x % q;
  return r < 0n ? r + q : r;
}

/** base^exponent mod q by square and multiply; exponent >= 0. */
export function power(base: bigint, exponent: bigint, q: bigint): bigint {
  let result = mod(1n, q);
  let square = mod(base, q);
  for (let e = exponent; e > 0n; e >>= 1n) {
    if (e & 1n) result = (result * square) % q;
    square = (square * square) % q;
  }
  return result;
}

/** x^-1 mod p for a prime p, by Fermat's little theorem. */
export function inverse(x: bigint, p: bigint): bigint {
  if (mod(x, p) === 0n) throw new RangeError('zero has no inverse');
  return power(x, p - 2n, p);
}

/** Number of bits of x > 0. */
export function bitLength(x: number | bigint): number {
  return x.toString(2).length;
}

/** The representative of x mod q in (-q/2, q/2]. */
export function centred(x: bigint, q: bigint): bigint {
  const r = mod(x, q);
  return 2n * r > q ? r - q : r;
}

/**
 * Miller-Rabin; with the first twelve primes as bases it is deterministic below 2^64 (Sorenson and
 * Webster, 2015).
 */
export function isPrime(p: bigint): boolean {
  const bases = [2n, 3n, 5n, 7n, 11n, 13n, 17n, 19n, 23n, 29n, 31n, 37n];
  if (p < 2n) return false;
  for (const base of bases) if (p % base === 0n) return p === base;
  let odd = p - 1n;
  let twos = 0;
  for (; odd % 2n === 0n; odd /= 2n) twos++;
  return bases.every((base) => {
    let x = power(base, odd, p);
    if (x === 1n) return true;
    for (let i = 0; i < twos; i++) {
      if (x === p - 1n) return true;
      x = (x * x) % p;
    }
    return false;
  });
}

/** The `count` largest primes below 2^bits that are 1 mod 2n, in descending order. */
export function primes(bits: number, n: number, count: number): number[] {
  if (bits > 30) throw new RangeError('primes have at most 30 bits');
  const found: number[] = [];
  const largest = 2 ** bits - 1 - ((2 ** bits - 2) % (2 * n));
  for (let p = largest; p > 1 && found.length < count; p -= 2 * n) {
    if (isPrime(BigInt(p))) found.push(p);
  }
  if (found.length < count) throw new RangeError(`fewer than ${count} such primes`);
  return found;
}

// -------------------------------------------------------------------------------------------------
// The ring Z_p[x]/(x^n + 1)

/**
 * The primitive 2n-th root of unity from the smallest g = 2, 3, 4, … for which psi = g^((p-1)/(2n))
 * has psi^n = -1.
 */
export function rootOfUnity(p: number | bigint, n: number): bigint {
  const q = BigInt(p);
  const order = 2n * BigInt(n);
  if ((q - 1n) % order !== 0n) throw new RangeError('p is not 1 mod 2n');
  for (let g = 2n; g < q; g++) {
    const psi = power(g, (q - 1n) / order, q);
    if (power(psi, BigInt(n), q) === q - 1n) return psi;
  }
  throw new RangeError('no 2n-th root of unity');
}

/** The log2(n) bits of i < n in reverse order; n is a power of two. */
export function bitReverse(i: number, n: number): number {
  let reversed = 0;
  for (let bit = 1; bit < n; bit *= 2) reversed = reversed * 2 + (Math.floor(i / bit) % 2);
  return reversed;
}

/** psi^0, psi^1, …, psi^(2n-1): every power of psi, which has order 2n. */
function rootPowers(p: bigint, n: number): bigint[] {
  const psi = rootOfUnity(p, n);
  const powers = [1n];
  while (powers.length < 2 * n) powers.push((powers[powers.length - 1] * psi) % p);
  return powers;
}

function checkLength(a: ArrayLike<number>, n: number): void {
  if (n < 1 || (n & (n - 1)) !== 0) throw new RangeError('n is not a power of two');
  if (a.length !== n) throw new RangeError(`expected ${n} coefficients`);
}

/**
 * Negacyclic transform: output i is a(psi^(2*brv(i)+1)) mod p, that is sum_j a_j
 * psi^((2*brv(i)+1)*j).
 */
export function ntt(a: ArrayLike<number>, p: number | bigint, n: number): number[] {
  checkLength(a, n);
  const q = BigInt(p);
  const powers = rootPowers(q, n);
  const coefficients = Array.from(a, BigInt);
  return Array.from({ length: n }, (_, i) => {
    const exponent = 2 * bitReverse(i, n) + 1;
    let sum = 0n;
    for (let j = 0; j < n; j++) sum += coefficients[j] * powers[(exponent * j) % (2 * n)];
    return Number(mod(sum, q));
  });
}

/** Inverse of `ntt`: coefficient j is n^-1 sum_i A_i psi^(-(2*brv(i)+1)*j) mod p. */
export function intt(a: ArrayLike<number>, p: number | bigint, n: number): number[] {
  checkLength(a, n);
  const q = BigInt(p);
  const powers = rootPowers(q, n);
  const values = Array.from(a, BigInt);
  const scale = inverse(BigInt(n), q);
  return Array.from({ length: n }, (_, j) => {
    let sum = 0n;
    for (let i = 0; i < n; i++) {
      const exponent = ((2 * bitReverse(i, n) + 1) * j) % (2 * n);
      sum += values[i] * powers[(2 * n - exponent) % (2 * n)];
    }
    return Number(mod(sum * scale, q));
  });
}

/** Schoolbook product in Z_p[x]/(x^n + 1): x^n = -1. */
export function negacyclicMultiply(a: ArrayLike<number>, b: ArrayLike<number>, p: number | bigint): number[] {
  const n = a.length;
  if (b.length !== n) throw new RangeError(`expected ${n} coefficients`);
  const left = Array.from(a, BigInt);
  const right = Array.from(b, BigInt);
  const product = new Array<bigint>(n).fill(0n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      if (i + j < n) product[i + j] += left[i] * right[j];
      else product[i + j - n] -= left[i] * right[j];
    }
  }
  return product.map((x) => Number(mod(x, BigInt(p))));
}

// -------------------------------------------------------------------------------------------------
// Keystream

function rotateLeft32(x: number, r: number): number {
  return ((x << r) | (x >>> (32 - r))) >>> 0;
}

/** RFC 8439 section 2.1, on four words of the state. */
function quarterRound(s: Uint32Array, a: number, b: number, c: number, d: number): void {
  s[a] += s[b];
  s[d] = rotateLeft32(s[d] ^ s[a], 16);
  s[c] += s[d];
  s[b] = rotateLeft32(s[b] ^ s[c], 12);
  s[a] += s[b];
  s[d] = rotateLeft32(s[d] ^ s[a], 8);
  s[c] += s[d];
  s[b] = rotateLeft32(s[b] ^ s[c], 7);
}

function word32(bytes: Uint8Array, offset: number): number {
  return (bytes[offset] | (bytes[offset + 1] << 8) | (bytes[offset + 2] << 16) | (bytes[offset + 3] << 24)) >>> 0;
}

/**
 * RFC 8439 section 2.3: one 64-byte block for a 32-byte key, a 12-byte nonce and a 32-bit counter.
 */
export function chacha20Block(key: Uint8Array, nonce: Uint8Array, counter: number): Uint8Array {
  if (key.length !== 32 || nonce.length !== 12) throw new RangeError('expected a 32-byte key and a 12-byte nonce');
  const initial = new Uint32Array(16);
  initial.set([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]); // 'expand 32-byte k'
  for (let i = 0; i < 8; i++) initial[4 + i] = word32(key, 4 * i);
  initial[12] = counter;
  for (let i = 0; i < 3; i++) initial[13 + i] = word32(nonce, 4 * i);

  const state = initial.slice();
  for (let round = 0; round < 20; round += 2) {
    quarterRound(state, 0, 4, 8, 12);
    quarterRound(state, 1, 5, 9, 13);
    quarterRound(state, 2, 6, 10, 14);
    quarterRound(state, 3, 7, 11, 15);
    quarterRound(state, 0, 5, 10, 15);
    quarterRound(state, 1, 6, 11, 12);
    quarterRound(state, 2, 7, 8, 13);
    quarterRound(state, 3, 4, 9, 14);
  }
  const block = new Uint8Array(64);
  const view = new DataView(block.buffer);
  for (let i = 0; i < 16; i++) view.setUint32(4 * i, state[i] + initial[i], true);
  return block;
}

/**
 * Endless keystream, byte by byte: the nonce is the little-endian words [domain, index, third], the
 * counter from 0.
 */
function* keystreamBytes(seed: Uint8Array, domain: number, index: number, third: number): Generator<number, never> {
  const nonce = new Uint8Array(12);
  const view = new DataView(nonce.buffer);
  view.setUint32(0, domain, true);
  view.setUint32(4, index, true);
  view.setUint32(8, third, true);
  for (let counter = 0; ; counter++) yield* chacha20Block(seed, nonce, counter);
}

/** The next `count` bytes of a stream. */
function take(stream: Generator<number, never>, count: number): Uint8Array {
  return Uint8Array.from({ length: count }, () => stream.next().value);
}

/** The first `length` keystream bytes. */
export function keystream(seed: Uint8Array, domain: number, index: number, third: number, length: number): Uint8Array {
  return take(keystreamBytes(seed, domain, index, third), length);
}

// -------------------------------------------------------------------------------------------------
// Samplers

/**
 * n values uniform in [0, p): little-endian words cut to the bit length of p, those not below p
 * discarded.
 */
export function uniform(
  seed: Uint8Array,
  domain: number,
  index: number,
  primeIndex: number,
  p: number | bigint,
  n: number,
): number[] {
  const stream = keystreamBytes(seed, domain, index, primeIndex);
  const range = 2 ** bitLength(p); // w AND (range - 1) is w mod range
  const values: number[] = [];
  while (values.length < n) {
    const v = word32(take(stream, 4), 0) % range;
    if (v < p) values.push(v);
  }
  return values;
}

/**
 * n values uniform in {-1, 0, 1}: bytes mod 3, where 2 stands for -1 and the byte 255 is discarded.
 */
export function ternary(seed: Uint8Array, domain: number, index: number, n: number): number[] {
  const stream = keystreamBytes(seed, domain, index, 0);
  const values: number[] = [];
  while (values.length < n) {
    const byte = stream.next().value;
    if (byte === 255) continue;
    values.push([0, 1, -1][byte % 3]);
  }
  return values;
}

function popcount(byte: number): number {
  return [0, 1, 2, 3, 4, 5, 6, 7].filter((bit) => (byte >> bit) & 1).length;
}

/**
 * n centred binomial values with eta = 21 (variance 10.5): the weight of 21 bits less the weight of
 * 21 others. A group of 16 coefficients takes 96 bytes as six planes of 16; of the third and sixth
 * plane only five bits count.
 */
export function centredBinomial(seed: Uint8Array, domain: number, index: number, n: number): number[] {
  const stream = keystreamBytes(seed, domain, index, 0);
  const values: number[] = [];
  while (values.length < n) {
    const planes = Array.from({ length: 6 }, () => take(stream, 16));
    for (let j = 0; j < 16 && values.length < n; j++) {
      const b = planes.map((plane) => plane[j]);
      const plus = popcount(b[0]) + popcount(b[1]) + popcount(b[2] & 31);
      const minus = popcount(b[3]) + popcount(b[4]) + popcount(b[5] & 31);
      values.push(plus - minus);
    }
  }
  return values;
}

// -------------------------------------------------------------------------------------------------
// Residues, digits and modulus switching

function product(primes: ArrayLike<number>): bigint {
  return Array.from(primes, BigInt).reduce((q, p) => q * p, 1n);
}

/** y_i = residue_i * (Q/p_i)^-1 mod p_i, so that sum_i y_i Q/p_i is congruent to the residues. */
function crtCoefficients(residues: ArrayLike<number>, primes: ArrayLike<number>): bigint[] {
  if (residues.length !== primes.length) throw new RangeError('expected one residue a prime');
  const q = product(primes);
  return Array.from(primes, (prime, i) => {
    const p = BigInt(prime);
    return mod(BigInt(residues[i]) * inverse(q / p, p), p);
  });
}

/**
 * Chinese remainder theorem: the x in [0, Q) with x = residues_i mod primes_i, Q being the product
 * of the primes.
 */
export function crt(residues: ArrayLike<number>, primes: ArrayLike<number>): bigint {
  const q = product(primes);
  const terms = crtCoefficients(residues, primes).map((y, i) => y * (q / BigInt(primes[i])));
  return mod(
    terms.reduce((x, term) => x + term, 0n),
    q,
  );
}

/**
 * Signed digits of x, centred mod q, to the base 2^base: x = sum_i d_i 2^(base*i). All but the last
 * lie in [-2^(base-1), 2^(base-1)); the last is whatever remains.
 */
export function digits(x: bigint, q: bigint, base: number, count: number): bigint[] {
  const radix = 1n << BigInt(base);
  const half = radix / 2n;
  const result: bigint[] = [];
  let rest = centred(x, q);
  while (result.length < count - 1) {
    const digit = mod(rest + half, radix) - half;
    result.push(digit);
    rest = (rest - digit) / radix; // exact
  }
  return [...result, rest];
}

/**
 * Fixed-point rounding of c*2^bits/Q mod 2^bits, c given by its residues. With b the bit length
 * shared by all primes, T_i = round(2^(31+b)/p_i) and y_i as in the Chinese remainder theorem, u =
 * sum_i y_i T_i approximates 2^(31+b) c/Q up to multiples of 2^(31+b), which vanish mod 2^bits
 * after the shift.
 */
export function switchModulus(residues: ArrayLike<number>, primes: ArrayLike<number>, bits: number): bigint {
  const b = bitLength(primes[0]);
  if (Array.from(primes).some((p) => bitLength(p) !== b)) throw new RangeError('primes differ in bit length');
  const one = 1n << BigInt(31 + b);
  const u = crtCoefficients(residues, primes).reduce((sum, y, i) => {
    const p = BigInt(primes[i]);
    return sum + y * ((one + p / 2n) / p);
  }, 0n);
  const rounded = (u + (1n << BigInt(30 + b - bits))) >> BigInt(31 + b - bits);
  return mod(rounded, 1n << BigInt(bits));
}

/** What `switchModulus` approximates: floor((c*2^bits + floor(Q/2)) / Q) mod 2^bits. */
export function switchModulusIdeal(residues: ArrayLike<number>, primes: ArrayLike<number>, bits: number): bigint {
  const q = product(primes);
  const c = crt(residues, primes);
  return mod(((c << BigInt(bits)) + q / 2n) / q, 1n << BigInt(bits));
}

// -------------------------------------------------------------------------------------------------
// Bytes

/**
 * Value j occupies bits j*bits … j*bits+bits-1 of the string whose bit k is bit k%8 of byte k>>3;
 * bits <= 32.
 */
export function packBits(values: ArrayLike<number>, bits: number): Uint8Array {
  const bytes = new Uint8Array(Math.ceil((values.length * bits) / 8));
  for (let j = 0; j < values.length; j++) {
    if (!(values[j] >= 0 && values[j] < 2 ** bits)) throw new RangeError(`value ${j} does not fit ${bits} bits`);
    for (let i = 0; i < bits; i++) {
      const k = j * bits + i;
      if (Math.floor(values[j] / 2 ** i) % 2 === 1) bytes[k >> 3] |= 1 << (k % 8);
    }
  }
  return bytes;
}

/** Inverse of `packBits`. */
export function unpackBits(bytes: Uint8Array, bits: number, count: number): number[] {
  if (bytes.length * 8 < count * bits) throw new RangeError(`fewer than ${count} values of ${bits} bits`);
  return Array.from({ length: count }, (_, j) => {
    let value = 0;
    for (let i = 0; i < bits; i++) {
      const k = j * bits + i;
      if ((bytes[k >> 3] >> (k % 8)) & 1) value += 2 ** i;
    }
    return value;
  });
}

const PRIME64_1 = 0x9e3779b185ebca87n;
const PRIME64_2 = 0xc2b2ae3d27d4eb4fn;
const PRIME64_3 = 0x165667b19e3779f9n;
const PRIME64_4 = 0x85ebca77c2b2ae63n;
const PRIME64_5 = 0x27d4eb2f165667c5n;

function u64(x: bigint): bigint {
  return BigInt.asUintN(64, x);
}

function rotateLeft64(x: bigint, r: bigint): bigint {
  return u64(x << r) | (x >> (64n - r));
}

function xxhRound(accumulator: bigint, lane: bigint): bigint {
  return u64(rotateLeft64(u64(accumulator + lane * PRIME64_2), 31n) * PRIME64_1);
}

/** XXH64 of the xxHash fast digest algorithm specification, step by step. */
export function xxh64(bytes: Uint8Array, seed = 0n): bigint {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  let hash: bigint;

  // Steps 1 to 3: four accumulators over the whole 32-byte stripes, or none for shorter input.
  if (bytes.length < 32) {
    hash = u64(seed + PRIME64_5);
  } else {
    let lanes = [seed + PRIME64_1 + PRIME64_2, seed + PRIME64_2, seed, seed - PRIME64_1].map(u64);
    for (; at + 32 <= bytes.length; at += 32) {
      const stripe = at;
      lanes = lanes.map((lane, i) => xxhRound(lane, view.getBigUint64(stripe + 8 * i, true)));
    }
    const rotations = [1n, 7n, 12n, 18n];
    hash = u64(lanes.reduce((sum, lane, i) => sum + rotateLeft64(lane, rotations[i]), 0n));
    for (const lane of lanes) hash = u64((hash ^ xxhRound(0n, lane)) * PRIME64_1 + PRIME64_4);
  }

  // Step 4: input length.
  hash = u64(hash + BigInt(bytes.length));

  // Step 5: remaining input, in words of eight bytes, then four, then one.
  for (; at + 8 <= bytes.length; at += 8) {
    hash ^= xxhRound(0n, view.getBigUint64(at, true));
    hash = u64(rotateLeft64(hash, 27n) * PRIME64_1 + PRIME64_4);
  }
  for (; at + 4 <= bytes.length; at += 4) {
    hash ^= u64(BigInt(view.getUint32(at, true)) * PRIME64_1);
    hash = u64(rotateLeft64(hash, 23n) * PRIME64_2 + PRIME64_3);
  }
  for (; at < bytes.length; at++) {
    hash ^= u64(BigInt(view.getUint8(at)) * PRIME64_5);
    hash = u64(rotateLeft64(hash, 11n) * PRIME64_1);
  }

  // Step 6: final mix.
  hash = u64((hash ^ (hash >> 33n)) * PRIME64_2);
  hash = u64((hash ^ (hash >> 29n)) * PRIME64_3);
  return hash ^ (hash >> 32n);
}
