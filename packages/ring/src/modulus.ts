// Computes what transforms and switching need to know about a prime of a ring, without a table to
// trust. Every kernel is given the same.

export interface Modulus {
  readonly p: number;
  /** Barrett's constants: see mulBarrett in assembly/arithmetic.ts. */
  readonly mu: number;
  readonly shift: number;
  /** n^−1, and n^−1 times the last twiddle of the inverse transform. */
  readonly scale: number;
  readonly last: number;
  /**
   * (Q/p)^−1 mod p and round(2^(31+b)/p), b the bit length: the share of this prime in a switch of
   * modulus.
   */
  readonly share: number;
  readonly reciprocal: number;
  /** ψ^brv(i) and ψ^−brv(i), without their Shoup companions. */
  readonly roots: Uint32Array;
  readonly inverses: Uint32Array;
}

/** The bit length that all primes of a ring share. */
export function bitLength(p: number): number {
  return 32 - Math.clz32(p);
}

/** 2^(31+b)/p, b the bit length, minus the whole number nearest to it: at most ½. */
export function reciprocalError(p: number): number {
  const power = 1n << BigInt(31 + bitLength(p));
  const prime = BigInt(p);
  const nearest = (power + prime / 2n) / prime;
  return Number(power - nearest * prime) / p;
}

/** One for each prime, for rings of dimension n. */
export function moduliOf(n: number, primes: readonly number[]): Modulus[] {
  const product = primes.reduce((q, p) => q * BigInt(p), 1n);
  return primes.map((p) => {
    const prime = BigInt(p);
    const root = rootOfUnity(p, n);
    const inverses = powers(modInverse(root, prime), prime, n);
    const scale = modInverse(BigInt(n), prime);
    const others = product / prime;
    const b = BigInt(bitLength(p));
    return {
      p,
      mu: Number((1n << (b + 30n)) / prime),
      shift: bitLength(p) - 2,
      scale: Number(scale),
      last: Number((scale * BigInt(inverses[1])) % prime),
      share: Number(others === 1n ? 1n : modInverse(others, prime)),
      reciprocal: Number(((1n << (31n + b)) + prime / 2n) / prime),
      roots: powers(root, prime, n),
      inverses,
    };
  });
}

/** base^i at the bit reversal of i. */
function powers(base: bigint, prime: bigint, n: number): Uint32Array {
  const out = new Uint32Array(n);
  const log = 31 - Math.clz32(n);
  let power = 1n;
  for (let i = 0; i < n; i++) {
    let reversed = 0;
    for (let bit = 0; bit < log; bit++) reversed |= ((i >> bit) & 1) << (log - 1 - bit);
    out[reversed] = Number(power);
    power = (power * base) % prime;
  }
  return out;
}

export function modPow(base: bigint, exponent: bigint, modulus: bigint): bigint {
  let result = 1n;
  let square = base % modulus;
  for (let e = exponent; e > 0n; e >>= 1n) {
    if (e & 1n) result = (result * square) % modulus;
    square = (square * square) % modulus;
  }
  return result;
}

export function modInverse(x: bigint, prime: bigint): bigint {
  return modPow(((x % prime) + prime) % prime, prime - 2n, prime);
}

/** Trial division: at most 2^14 steps, since candidates are below 2^30. */
export function isPrime(candidate: number): boolean {
  if (candidate < 4 || candidate % 2 === 0) return candidate === 2 || candidate === 3;
  for (let factor = 3; factor * factor <= candidate; factor += 2) if (candidate % factor === 0) return false;
  return true;
}

/**
 * A primitive 2n-th root of unity ψ modulo p: g^((p−1)/2n) for the smallest g ≥ 2 that gives one.
 */
export function rootOfUnity(p: number, n: number): bigint {
  const prime = BigInt(p);
  if ((p - 1) % (2 * n) !== 0) throw new RangeError(`${p} is not 1 mod ${2 * n}`);
  for (let g = 2n; ; g++) {
    const root = modPow(g, (prime - 1n) / BigInt(2 * n), prime);
    if (modPow(root, BigInt(n), prime) === prime - 1n) return root;
  }
}
