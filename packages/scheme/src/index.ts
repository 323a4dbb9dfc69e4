export { ringCode } from '@hers/ring';
export { type Block, decodeBlock, encodeBlock, peekBlock } from './block.ts';
export { type ErrorCode, HersError, isErrorCode, otherFormat } from './errors.ts';
export { type OptionNames, refuseUnknown } from './options.ts';
export {
  PARAMETER_SETS,
  type ParameterSet,
  type Profile,
  parameterSet,
  parameterSetById,
  polyWords,
  ringOf,
  rowsOf,
  type Security,
} from './parameters.ts';
export { type Integrity, type Metric, type Plan, type PlanRequest, plan, slotsFor } from './plan.ts';
export { decodeQuery, encodeQuery, givenRows, peekQuery, type Query } from './query.ts';
export {
  type BlockMatrix,
  blockMatrix,
  decodeResponse,
  type ExpandedQuery,
  encodeResponse,
  expandedQuery,
  peekAnyResponse,
  peekResponse,
  responseHead,
  type ScanResponse,
  scanBlock,
} from './response.ts';
export { checkVector, noiselessScores, plainScores, roundVectors, type Vectors } from './vectors.ts';
