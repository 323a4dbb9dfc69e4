export { type AtRate, type Evaluation, enrolment, evaluation } from './evaluation.ts';
export {
  cmc,
  eachScoreRow,
  type Labelled,
  matedPlaces,
  rankOfMate,
  rowsAt,
  scoreMatrix,
  unitVectors,
} from './identification.ts';
export {
  bootstrapped,
  equalErrorRate,
  type Interval,
  linkability,
  missedAt,
  type Outcomes,
  outcomesOf,
  thresholdsAt,
  weightOf,
} from './rates.ts';
