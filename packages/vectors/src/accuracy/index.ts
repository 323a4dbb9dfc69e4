export { bootstrapped, type Interval, ofRate } from './bootstrap.ts';
export { type ClusteredMean, clusteredMean } from './clustered.ts';
export { type AtRate, type Evaluation, enrolment, evaluation } from './evaluation.ts';
export { cmc, type Labelled, matedPlaces, mateRanks, rankAccuracy, rankOfMate } from './identification.ts';
export { linkability } from './linkability.ts';
export { pairScores, thresholdAt } from './pairs.ts';
export { equalErrorRate, missedAt, type Outcomes, outcomesOf, sharesBelow, thresholdsAt, weightOf } from './rates.ts';
export { eachScoreRow, rowsAt, scoreMatrix, unitVectors } from './score-rows.ts';
