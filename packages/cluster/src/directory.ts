// Which nodes there are, which collections, and which node keeps which shard. The directory is one
// small document that every node keeps. Changes go through the ledger.

import { createHash } from 'node:crypto';
import { HersError } from '@hers/service';
import { FORMAT, isCount, isObject, readDocument } from './arguments.ts';

export const DIRECTORY = 'directory';

/**
 * What the names of inboxes begin with; the rest is the `uid` of the collection. No collection of a
 * client can have such a name.
 */
export const INBOXES = 'inbox/';
/** Whether this is the name of a collection that clients see. */
export const isSeen = (name: string): boolean => !name.startsWith(INBOXES);

export interface NodeInfo {
  readonly url: string;
  /** It gives its shards away, and gets no others. */
  readonly draining?: boolean;
}

/**
 * A shard that goes from one node to another. Without `from` it gets one replica more, without `to`
 * one less.
 */
export interface Move {
  readonly shard: number;
  readonly from?: string;
  readonly to?: string;
}

export interface PlacedCollection {
  /** Of this collection and no other: in the names of its shards, and its topic in the ledger. */
  readonly uid: string;
  /** Shards count versions from here; more than 0 where a collection was restored. */
  readonly base: number;
  /** For every shard, the nodes that keep it. */
  readonly shards: readonly (readonly string[])[];
  /** Counts the changes of `shards`: each of one shard, by one node. */
  readonly placement: number;
  /** Nodes that are to keep each shard. */
  readonly replicas: number;
  readonly move?: Move;
  /** The nodes that kept the shard which changed last, before it did. */
  readonly before?: readonly string[];
}

export interface Directory {
  readonly version: number;
  readonly nodes: Readonly<Record<string, NodeInfo>>;
  readonly collections: Readonly<Record<string, PlacedCollection>>;
}

/** A message of the ledger has 1 MiB at most. */
const MAX_BYTES = 1_000_000;
/** What new collections leave free: nodes can still join, and shards move. */
const KEPT_FREE = 100_000;

export const EMPTY_DIRECTORY: Directory = { version: 0, nodes: {}, collections: {} };

export function encodeDirectory(directory: Directory, free = 0): Uint8Array {
  const bytes = new TextEncoder().encode(JSON.stringify({ format: FORMAT, ...directory }));
  if (bytes.length > MAX_BYTES - free)
    throw new HersError('TOO_LARGE', 'this cluster has more collections than its directory can name; delete some');
  return bytes;
}

/** TOO_LARGE if no collection may be added to what has become of a directory. */
export const checkRoom = (directory: Directory): unknown => encodeDirectory(directory, KEPT_FREE);

export function decodeDirectory(bytes: Uint8Array): Directory {
  return readDocument(bytes, 'a directory', isDirectory) as unknown as Directory;
}

const areStrings = (value: unknown): boolean => Array.isArray(value) && value.every((each) => typeof each === 'string');
const areAll = (value: unknown, isOne: (each: Record<string, unknown>) => boolean): boolean =>
  isObject(value) && Object.values(value).every((each) => isObject(each) && isOne(each));

function isDirectory({ version, nodes, collections }: Record<string, unknown>): boolean {
  return isCount(version) && areAll(nodes, ({ url }) => typeof url === 'string') && areAll(collections, isPlaced);
}

function isPlaced({ uid, base, shards, placement, replicas, move, before }: Record<string, unknown>): boolean {
  return (
    typeof uid === 'string' &&
    [base, placement, replicas].every(isCount) &&
    Array.isArray(shards) &&
    shards.length > 0 &&
    shards.every(areStrings) &&
    (move === undefined || (isObject(move) && isCount(move.shard) && move.shard < shards.length)) &&
    (before === undefined || areStrings(before))
  );
}

export const majorityOf = (count: number): number => Math.floor(count / 2) + 1;

/**
 * Rendezvous hashing: every node has a number for every shard, and the highest ones keep it. Nodes
 * that come or go move only what has to move. Nodes that have fewer shards of this collection come
 * first, so that no node has more than its share.
 */
export function placeShards(uid: string, shards: number, replicas: number, nodes: readonly string[]): string[][] {
  if (nodes.length < replicas)
    throw new HersError(
      'UNAVAILABLE',
      `${replicas} replicas need as many nodes, and this cluster has ${nodes.length}; start more, or serve with --replicas ${nodes.length}`,
    );
  const held = new Map(nodes.map((node) => [node, 0]));
  return Array.from({ length: shards }, (_, shard) => {
    const scores = new Map(nodes.map((node) => [node, score(`${uid} ${shard} ${node}`)]));
    const chosen = [...nodes]
      .sort((a, b) => held.get(a)! - held.get(b)! || scores.get(b)! - scores.get(a)!)
      .slice(0, replicas)
      .sort((a, b) => scores.get(b)! - scores.get(a)!);
    for (const node of chosen) held.set(node, held.get(node)! + 1);
    return chosen;
  });
}

function score(text: string): number {
  return createHash('sha256').update(text).digest().readUIntBE(0, 6);
}
