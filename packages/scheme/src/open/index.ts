// Open queries, the public side: what a store and a planner need (README.md §9).

export { decodeEvaluation, type EvaluationPiece, evaluationKeys, peekDeviceEvaluation } from './evaluation.ts';
export { Evaluator, type OpenRows } from './fast.ts';
export {
  encodePackedResponse,
  type OpenResult,
  resultOf,
  scannedQuery,
} from './pack.ts';
export { type OpenPlan, openPlan } from './plan.ts';
export {
  decodeOpenQuery,
  EXPANDED_BYTES,
  encodeOpenQuery,
  expandedBytes,
  isOpenQuery,
  type OpenQuery,
} from './query.ts';
