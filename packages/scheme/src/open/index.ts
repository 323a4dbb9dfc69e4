// Open queries, the public side: what a store and a planner need (README.md §10).

export { decodeEvaluation, evaluationKeys } from './evaluation.ts';
export { Evaluator } from './fast.ts';
export { encodePackedResponse } from './pack.ts';
export { openPlan, predictedOpenNoise } from './plan.ts';
export { decodeOpenQuery } from './query.ts';
export { decodeOpenBlock, openMaskRows, scanOpenBlock } from './scan.ts';
