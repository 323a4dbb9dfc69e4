export { HersError } from '@hers/scheme';
export { frame, unframe } from './frames.ts';
export {
  type CallOptions,
  type Change,
  type CollectionInfo,
  HANDLE_BYTES,
  isCollectionName,
  LIST_ID_BYTES,
  type Many,
  type SealedRecord,
  type SearchRequest,
  type Service,
  type StageId,
} from './service.ts';
