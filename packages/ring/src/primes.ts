// Primes for the transform, found the same way everywhere: no table to trust.

export function modPow(base: bigint, exponent: bigint, modulus: bigint): bigint {
  let result = 1n;
  let square = base % modulus;
  for (let e = exponent; e > 0n; e >>= 1n) {
    if (e & 1n) result = (result * square) % modulus;
    square = (square * square) % modulus;
  }
  return result;
}

/** The inverse of x modulo a prime. */
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
 * The `count` largest primes below 2^bits that are 1 modulo 2n, descending; only those that are
 * taken, where that is asked for.
 *
 * @example nttPrimes(30, 2048, 1) // [1073692673]
 */
export function nttPrimes(bits: number, n: number, count: number, take: (p: number) => boolean = () => true): number[] {
  if (!(Number.isInteger(bits) && bits >= 2 && bits <= 30)) throw new RangeError(`bits must be 2 … 30, not ${bits}`);
  const step = 2 * n;
  const found: number[] = [];
  for (let p = Math.floor((2 ** bits - 2) / step) * step + 1; p > step && found.length < count; p -= step) {
    if (take(p) && isPrime(p)) found.push(p);
  }
  if (found.length < count)
    throw new RangeError(`there are only ${found.length} primes of ${bits} bits that are 1 mod ${step}`);
  return found;
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
