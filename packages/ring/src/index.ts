export { checksum } from './checksum.ts';
export { ringCode } from './choose.ts';
export { bitLength, type Modulus, moduliOf, reciprocalError } from './modulus.ts';
export { modInverse, modPow, nttPrimes, rootOfUnity } from './primes.ts';
export { randomBytes, randomSeed } from './random.ts';
export { type PackedPair, Poly, Ring, type Source, Words } from './ring.ts';
export type { Secrets } from './rows.ts';
export { packThree, roundVectors, squareSums, unpackThree } from './vectors.ts';
