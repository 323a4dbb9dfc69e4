// Finds the primes of rings, the same way everywhere.

import { isPrime } from '../src/modulus.ts';

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
