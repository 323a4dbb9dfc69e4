// What only a key holder may import. Server packages must not: the layer check sees to it.

export { type CanaryPlace, canaryChecker, withCanaries } from './canaries.ts';
export {
  canRank,
  type ExposedSecret,
  QuerySecret,
  type RankBy,
  type Ranked,
  type RankTask,
  rankTogether,
  type Scores,
} from './decrypt.ts';
export { type BlockOptions, type EncryptedQuery, encryptBlock, encryptQuery } from './encrypt.ts';
export { CollectionKey, MasterSeed } from './key.ts';
export { decodeScoreSums, encodeScoreSums, type ScoreSums, scoreChecker, scoreSums } from './score-sums.ts';
