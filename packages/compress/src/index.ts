export {
  type Compressor,
  type CurvePoint,
  type LearningCurve,
  type LoadOptions,
  load,
  type Metadata,
  type Runtime,
} from './compressor.ts';
export { CompressError, type CompressErrorCode } from './errors.ts';
