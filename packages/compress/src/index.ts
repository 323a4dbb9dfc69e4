export {
  CompressError,
  type CompressErrorCode,
  type Compressor,
  type LoadOptions,
  load,
  type Metadata,
  type Runtime,
} from './apply/index.ts';
export { type FitOptions, fit } from './fit.ts';
export type { Progress } from './method.ts';
export { type MethodName, methods, type Settings } from './methods.ts';
export { rankOne } from './rank.ts';
