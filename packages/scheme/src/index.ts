export { ringCode } from '@hers/ring';
export { type Block, blockMask, decodeBlock, encodeBlock, maskRows, peekBlock } from './block.ts';
export { type ErrorCode, HersError, isErrorCode, otherFormat } from './errors.ts';
export { decodeKeyInfo, encodeKeyInfo, type KeyInfo } from './keyinfo.ts';
export { type OptionNames, refuseUnknown } from './options.ts';
export {
  logModulus,
  PARAMETER_SETS,
  type ParameterSet,
  PROFILES,
  type Profile,
  parameterSet,
  parameterSetById,
  polyWords,
  ringOf,
  rowsOf,
} from './parameters.ts';
export { type Integrity, type Metric, type Plan, type PlanRequest, plan, slotsFor } from './plan.ts';
export { predictedNoise } from './predict.ts';
export { decodeQuery, encodeQuery, expandQuery, givenRows, peekQuery, type Query } from './query.ts';
export { decodeResponse, encodeResponse, peekResponse, type ScanResponse } from './response.ts';
export { type BlockMatrix, blockMatrix, type ExpandedQuery, expandedQuery, scanBlock } from './scan.ts';
export { type Security, securityOf } from './security.ts';
export { checkVector, noiselessScores, plainScores, roundVectors, type Vectors } from './vectors.ts';
