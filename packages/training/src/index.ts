export {
  CompressError,
  type CompressErrorCode,
  type Compressor,
  type CurvePoint,
  type LearningCurve,
  type LoadOptions,
  load,
  type Metadata,
  type Runtime,
} from '@hers/compress';
export { type FitOptions, fit, type MethodName, methods, type Settings } from './fit.ts';
export type { Progress } from './methods/method.ts';
export { rankOne } from './training/validation.ts';
