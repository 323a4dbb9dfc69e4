export { checksum } from './checksum.ts';
export { bitLength, type Modulus, moduliOf, reciprocalError } from './modulus.ts';
export { modInverse, modPow, nttPrimes, rootOfUnity } from './primes.ts';
export { randomBytes, randomSeed } from './random.ts';
export { Poly, Ring, type Source, Words } from './ring.ts';
