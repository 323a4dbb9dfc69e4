export {
  type ClientOptions,
  PaperClient,
  type PaperQuery,
  type ScorePart,
} from './client.ts';
export type { Counts, Traffic } from './complexity.ts';
export { type Complexity, complexity } from './complexity.ts';
export { type Compression, Context, type ContextOptions } from './context.ts';
export type { Encoding, EncodingName, Relinearisation } from './encoding.ts';
export { BODDETI, ENCODINGS, HERS, NAIVE } from './encodings.ts';
export { PaperError, type PaperErrorCode } from './errors.ts';
export { ClientKeys, type Encryption, EvaluationKeys } from './keys.ts';
export { askLabels, readLabels } from './labels.ts';
export { checkMemory, ciphertextCapacity, type MemoryNeed, memoryNeed } from './memory.ts';
export {
  ciphertextBytes,
  largestScore,
  PARAMETER_SETS,
  type ParameterSetName,
  type Parameters,
  PUBLISHED,
  parameterSet,
  STEPS,
} from './parameters.ts';
export { type PaperVectors, roundVectors } from './rounding.ts';
export { type PaperSearchOptions, PaperServer, type ServerOptions } from './server.ts';
export {
  best,
  type Forms,
  type PaperMatch,
  TwoStageClient,
  type TwoStageOptions,
  TwoStageQuery,
  TwoStageServer,
} from './two-stage.ts';
