export { bootstrapped, type Interval, ofRate } from './bootstrap.ts';
export { type ClusteredMean, clusteredMean } from './clustered.ts';
export { type AtRate, type Evaluation, enrolment, evaluation } from './evaluation.ts';
export { cmc, type Labelled, matedPlaces, mateRanks, rankAccuracy, rankOfMate } from './identification.ts';
export { linkability } from './linkability.ts';
export {
  fnirAtFpir,
  type OpenSearch,
  type OpenSearches,
  openSearches,
  pairScores,
  tarAtFar,
  thresholdAt,
} from './open-set.ts';
export { equalErrorRate, missedAt, type Outcomes, outcomesOf, sharesBelow, thresholdsAt, weightOf } from './rates.ts';
export { eachScoreRow, rowsAt, unitVectors } from './score-rows.ts';
