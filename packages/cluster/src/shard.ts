// A shard: a part of a collection, kept by several nodes as an ordinary collection of their
// folders. Records go to shards by their handles, lists and blocks by their ids. The first shard is
// the home of its collection: its manifest holds the client's, and the version of every shard.

import { type CallOptions, decodeMessage, encodeMessage, type Many, type Service } from '@hers/service';
import { type ShardCalls, type ShardState, type StagedChange, stateOf } from '@hers/store/stages';
import { checkFormat, FORMAT, isCount, isObject, readDocument } from './arguments.ts';

/**
 * What a node does for the others: the calls of a Service for its shards, and a few of their own.
 */
export interface ShardService extends Service, ShardCalls {
  replace(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void>;
}

export const HOME = 0;
/** Of a collection that was just made. */
export const FIRST_VERSION = 1;
export const MAX_SHARDS = 128;

/** The name of a shard in the folders of nodes. `uid` is that of one collection and of no other. */
export const shardName = (uid: string, shard: number): string => `${uid}.${shard}`;

/**
 * The same as whoever knows the placement calls it. A node that knows a later placement refuses:
 * whoever asked must not count it among the replicas of before.
 */
export const addressOf = ({ uid, placement }: { readonly uid: string; readonly placement: number }, shard: number) =>
  `${shardName(uid, shard)}.${placement}`;

const ADDRESS = /^([0-9a-f]{32})\.(\d+)(?:\.(\d+))?$/;

/** What a name or an address says; undefined for other names. */
export function readAddress(
  name: string,
): { readonly uid: string; readonly shard: number; readonly placement: number | undefined } | undefined {
  const [, uid, shard, placement] = ADDRESS.exec(name) ?? [];
  if (uid === undefined) return undefined;
  return { uid, shard: Number(shard), placement: placement === undefined ? undefined : Number(placement) };
}

/**
 * The shard of a record, a list or a block. Handles and ids of lists are hashes; ids of blocks end
 * in random bytes.
 */
export function shardOf(id: Uint8Array, shards: number): number {
  const view = new DataView(id.buffer, id.byteOffset, id.length);
  return view.getUint32(id.length - 4, true) % shards;
}

export interface Home {
  readonly version: number;
  readonly manifest: Uint8Array;
  /**
   * What the last change that touched each shard made of it, as the shards count. The home cannot
   * name its own state.
   */
  readonly shards: readonly ShardState[];
}

export function encodeHome({ version, manifest, shards }: Home): Uint8Array {
  return encodeMessage({ format: FORMAT, version, shards }, [manifest]);
}

export function decodeHome(bytes: Uint8Array): Home {
  const { head, parts } = decodeMessage(bytes, 1);
  const { format, version, shards } = head as Home & { format: number };
  checkFormat(format);
  return { version, manifest: parts[0], shards };
}

/** The manifest of a shard that is not home: it differs from all others, as its mark does. */
export const shardManifest = (version: number, mark: string): Uint8Array =>
  new TextEncoder().encode(`shard at version ${version}, ${mark}`);

/** The mark of shards that are made: nobody else writes to them until they have a name. */
export const MADE = 'made';

export const shardState = (version: number, mark: string): ShardState => ({
  version,
  state: stateOf(shardManifest(version, mark)),
});

/** What the home is in its own list. */
export const homeState = (version: number): ShardState => ({ version, state: '' });

/**
 * Whether a replica has what the home knows of its shard, or something later. A version in between
 * was made by a change that the home knows nothing of: the ledger has lost it.
 */
export function isCurrent(here: ShardState, states: readonly ShardState[], shard: number): boolean {
  const wanted = states[shard];
  return here.version === wanted.version ? here.state === wanted.state : here.version > states[HOME].version;
}

// — entries of the ledger —

export interface ChangeEntry {
  readonly version: number;
  /** No two entries are alike. */
  readonly nonce: string;
  /**
   * Changes that were prepared for an earlier placement than this come too late. An entry that only
   * raises it is otherwise the same as the one before.
   */
  readonly fence: number;
  /** Which shards it touches, each with the name of the change that is staged there. */
  readonly shards: readonly (StagedChange & { readonly shard: number })[];
}

export function encodeEntry(entry: ChangeEntry): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ format: FORMAT, ...entry }));
}

export function decodeEntry(content: Uint8Array): ChangeEntry {
  return readDocument(content, 'an entry of the ledger', isEntry) as unknown as ChangeEntry;
}

function isEntry({ version, nonce, fence, shards }: Record<string, unknown>): boolean {
  const isChange = (each: unknown) =>
    isObject(each) &&
    isCount(each.shard) &&
    each.shard < MAX_SHARDS &&
    isCount(each.version) &&
    typeof each.state === 'string' &&
    typeof each.change === 'string';
  return (
    isCount(version) && typeof nonce === 'string' && isCount(fence) && Array.isArray(shards) && shards.every(isChange)
  );
}
