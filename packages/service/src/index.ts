export { type ErrorCode, HersError, isErrorCode, peekQuery, peekResponse } from '@hers/scheme';
export { frame, grown, unframe } from './frames.ts';
export { isLoopback } from './loopback.ts';
export { COLLECTION_NAME, checkCollectionName, isCollectionName } from './names.ts';
export { type OptionNames, refuseUnknown } from './options.ts';
export {
  BLOCK_ID_BYTES,
  type CallOptions,
  type Change,
  type CollectionInfo,
  HANDLE_BYTES,
  type Ids,
  LIST_ID_BYTES,
  type Many,
  type SealedRecord,
  type SearchCallOptions,
  type SearchRequest,
  type Service,
  type StageId,
} from './service.ts';
export { eitherSignal } from './signals.ts';
export {
  type CollectionBody,
  type CommitHead,
  type CreateHead,
  collectionPath,
  decodeCommit,
  decodeError,
  decodeInfo,
  decodeMessage,
  type ErrorBody,
  encodeCommit,
  encodeError,
  encodeInfo,
  encodeMessage,
  fromHex,
  type HelloBody,
  ID_COST,
  ITEM_KIND,
  MAX_IDS,
  MAX_REMOVED,
  type ManifestHead,
  type Message,
  OCTETS,
  PackedIds,
  packIds,
  printable,
  readItems,
  type SearchHead,
  type StageBody,
  unpackIds,
} from './wire.ts';
export { withMethods } from './with-methods.ts';
