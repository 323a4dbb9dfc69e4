export type { Metric, Plan, Profile } from '@hers/scheme';
export { MasterSeed } from '@hers/scheme/secret';
export { HersError } from '@hers/service';
export {
  Collection,
  type Index,
  type StoredRecord,
  type UpsertOptions,
  type Verification,
  type VerifyOptions,
} from './collection.ts';
export {
  type CollectionDescription,
  type CollectionOptions,
  type CollectionSummary,
  type ConnectOptions,
  connect,
  Database,
  galleryOf,
} from './database.ts';
export type { Enrolment } from './descriptor.ts';
export { type HttpOptions, HttpService } from './http.ts';
export { isSealed, openKey, sealKey, unsealedKey } from './keyfile.ts';
export type { MaintenanceOptions } from './maintenance.ts';
export { checkId, type Payload, type VectorRecord } from './records.ts';
export type { RetryEvent, RetryOptions } from './retry.ts';
export type { Match, SearchOptions, SearchResult } from './search.ts';
export type { Written } from './tally.ts';
export { type Place, type Seen, ShortMemory, type VersionMemory } from './versions.ts';
