export {
  type ErrorCode,
  HersError,
  isErrorCode,
  type OptionNames,
  otherFormat,
  peekQuery,
  peekResponse,
  refuseUnknown,
} from '@hers/scheme';
export { EXPANDED_BYTES, expandedBytes } from '@hers/scheme/open';
export * from './envelope.ts';
export * from './frames.ts';
export * from './partitions.ts';
export * from './service.ts';
export * from './wire.ts';
