export type { Integrity, Metric, Plan, Profile } from '@hers/scheme';
export { MasterSeed } from '@hers/scheme/secret';
export { HersError, type Service } from '@hers/service';
export {
  Collection,
  type CollectionIndex,
  type CountOptions,
  type ListOptions,
} from './collection.ts';
export { connect, galleryOf } from './connect.ts';
export { Database } from './database.ts';
export type {
  CollectionDescription,
  CollectionOptions,
  CollectionSummary,
  ConnectOptions,
  RestoreOptions,
} from './database-options.ts';
export { checkFields, type Fields, type FieldType, type FieldValue, valuesOf } from './fields/field.ts';
export type { Condition, Filter } from './filter/filter.ts';
export { parseFilter } from './filter/filter-text.ts';
export type { Payload, StoredRecord, VectorRecord } from './formats/records.ts';
export type { EnrolledByDevice, Question, QuestionOptions, Refusal, RefusalReason } from './inbox/keeper.ts';
export { InMemoryNonces, type KnownNonce, type NonceMemory, type NonceState } from './inbox/memory.ts';
export type { AddDeviceOptions, DeviceInfo } from './inbox/registry.ts';
export { isSealed, openKey, sealKey, unsealedKey } from './keys/keyfile.ts';
export type { Partition } from './search/choice.ts';
export type { Group, Match, SearchOptions, SearchResult, Verification, VerifyOptions } from './search/search.ts';
export {
  type CachedList,
  type CachedLists,
  type ListCache,
  type ListCacheOptions,
  openListCache,
} from './session/list-cache.ts';
export { InMemoryVersions, type Place, type Seen, type VersionMemory } from './session/versions.ts';
export type { HttpOptions } from './transport/connection.ts';
export { HttpService } from './transport/http.ts';
export type { RetryEvent, RetryOptions } from './transport/retry.ts';
export type { PayloadUpdate } from './writing/fields.ts';
export type { ExpireOptions, ExpiryError, ExpiryReceipt, MaintenanceOptions } from './writing/maintenance.ts';
export type { UpsertError, UpsertOptions, UpsertResult } from './writing/upsert.ts';
