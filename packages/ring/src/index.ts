export { ringCode } from './choose.ts';
export { Expansion, type ExpansionShape, type PreparedKeys, putMaskKey, toMontgomery } from './expansion.ts';
export { checksum } from './kernel.ts';
export {
  bitLength,
  type Modulus,
  modInverse,
  modPow,
  moduliOf,
  reciprocalError,
  rootOfUnity,
} from './modulus.ts';
export {
  ALL_RECORDS,
  type Poly,
  type RankJob,
  ResultSecret,
  Ring,
  randomBytes,
  randomSeed,
  type Source,
  type Words,
} from './ring.ts';
export type { Secrets } from './rows.ts';
export { closeGaps, groupSums, packThree, products, roundVectors, squareSums, unpackThree } from './vectors.ts';
