// How the calls of a Service travel over HTTP: what both ends must agree on. Everything that is not
// a small description is octets.
//
//   message   frames: a head, which is JSON, then byte strings whose number and order the head or
//             the call decides
//   items     frames, the last byte of each says what it is: an item, the end, or the error (JSON)
//             that ended the stream. A stream without its end was cut off
//   octets    a block or a snapshot as it is: both carry checksums of their own
//
// Many ids travel as one byte string, one after the other.

import { type ErrorCode, HersError, isErrorCode } from '@hers/scheme';
import { bytesToHex, hexToBytes } from '@noble/hashes/utils.js';
import { unframe, unframeGroups } from './frames.ts';
import {
  BLOCK_ID_BYTES,
  type Change,
  type CollectionInfo,
  HANDLE_BYTES,
  type Ids,
  type InboxItem,
  LIST_ID_BYTES,
  type Many,
  type OpenSearch,
  type Searched,
  type SearchedShard,
  type SearchRequest,
} from './service.ts';

export const OCTETS = 'application/octet-stream';

/**
 * Whether an `Accept-Encoding` names gzip, and does not refuse it by a weight of zero (RFC 9110
 * §12.5.3).
 */
export function takesGzip(accepted: string | readonly string[] | undefined): boolean {
  return /(?:^|,)\s*gzip\s*(?:$|,|;(?!\s*q=0(?:\.0*)?\s*(?:,|$)))/i.test(String(accepted ?? ''));
}

export const collectionPath = (name: string) => `/v1/collections/${encodeURIComponent(name)}`;

export interface HelloBody {
  readonly server: 'hers';
  readonly version: string;
  /** The largest body it takes in one piece; snapshots are not limited. */
  readonly bodyBytes: number;
}

export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
}

/** A collection in JSON: its id in hex, its descriptor, which is public, in base64. */
export interface CollectionBody {
  readonly name: string;
  readonly id: string;
  readonly descriptor: string;
  readonly version: number;
  readonly records: number;
  readonly blocks: number;
  readonly bytes: number;
}

/** Followed by the descriptor and the manifest. */
export interface CreateHead {
  readonly name: string;
  readonly id: string;
}

/**
 * Followed by the manifest, removed handles, dropped blocks, dropped lists.
 */
export interface CommitHead {
  readonly expected: number;
  readonly records?: readonly string[];
  readonly blocks?: readonly string[];
  readonly lists?: readonly string[];
}

/**
 * Followed by the ids of the blocks, with `some`; by those of the lists of evaluation keys, of the
 * collection and of single devices, with `open`; and by the queries.
 */
export interface SearchHead extends Omit<Searched, 'blocks' | 'open'> {
  readonly some?: boolean;
  readonly open?: Pick<OpenSearch, 'inbox'>;
}

/**
 * Followed by the ids of the blocks and of the lists of each shard, with `some` and `lists`; by
 * those of `open`, which is the same for all; and by the queries.
 */
export interface ShardSearchHead {
  readonly shards: readonly (Omit<SearchHead, 'open'> &
    Pick<SearchedShard, 'name' | 'state'> & { readonly lists?: boolean })[];
  readonly open?: Pick<OpenSearch, 'inbox'>;
}

export interface Message<Head> {
  readonly head: Head;
  readonly parts: readonly Uint8Array[];
}

/**
 * The head is padded to a multiple of this, so that the first part is aligned and can be used in
 * place.
 */
const WORD_BYTES = 8;
/** Parts of a message; a search has one for every query. */
const MAX_PARTS = 2 ** 16;
/** Bytes of a head: parsed JSON takes many times its bytes. */
const HEAD_BYTES = 2 ** 20;
/** Bytes of an error in JSON, and letters of its message. */
const ERROR_BYTES = 2 ** 16;
const MESSAGE_LETTERS = 500;
/** Letters of a descriptor in base64. */
const DESCRIPTOR_LETTERS = 2 ** 16;

/** A message in pieces that follow each other: large parts are not copied. */
export function messageParts(head: object, parts: readonly Uint8Array[]): Uint8Array[] {
  const json = new TextEncoder().encode(JSON.stringify(head));
  const text = new Uint8Array(Math.ceil(json.length / WORD_BYTES) * WORD_BYTES).fill(0x20);
  text.set(json);
  return [text, ...parts].flatMap((bytes) => {
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, bytes.length, true);
    return [length, bytes];
  });
}

/** In new memory, or at the beginning of some that is given, if it is large enough. */
export function encodeMessage(
  head: object,
  parts: readonly Uint8Array[],
  room: Uint8Array = new Uint8Array(0),
): Uint8Array {
  const pieces = messageParts(head, parts);
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const out = room.length >= length ? room.subarray(0, length) : new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}

/**
 * Decodes a message; the parts are views of it. The caller checks the head. More than `most` parts
 * are MALFORMED.
 */
export function decodeMessage(bytes: Uint8Array, most: number = MAX_PARTS): Message<unknown> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const frames: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = at + 4 <= bytes.length ? view.getUint32(at, true) : bytes.length;
    at += 4;
    if (length > bytes.length - at)
      throw new HersError('MALFORMED', 'this message ends in the middle of a part; was it cut off?');
    // The head does not count.
    if (frames.length > most) throw new HersError('MALFORMED', `this message has more than ${most} parts`);
    frames.push(new Uint8Array(bytes.buffer, bytes.byteOffset + at, length));
    at += length;
  }
  const [head, ...parts] = frames;
  if (!head) throw new HersError('MALFORMED', 'this message is empty');
  if (head.length > HEAD_BYTES) throw new HersError('MALFORMED', 'the head of this message is too long');
  return { head: parseJson(head), parts };
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new HersError('MALFORMED', 'the head of this message is not JSON');
  }
}

/** Ids of one length, one after the other. */
export function packIds(ids: Ids, length: number, what: string): Uint8Array {
  const out = new Uint8Array(ids.length * length);
  let at = 0;
  for (const id of ids) {
    if (!(id instanceof Uint8Array && id.length === length))
      throw new HersError('INVALID_ARGUMENT', `${what} has ${length} bytes`);
    out.set(id, at);
    at += length;
  }
  return out;
}

/** Iterates over packed ids: no more than one takes memory besides the bytes. */
class PackedIds implements Ids {
  readonly length: number;
  readonly #bytes: Uint8Array;
  readonly #each: number;

  constructor(bytes: Uint8Array, each: number, what: string) {
    if (bytes.length % each !== 0) throw new HersError('MALFORMED', `${what} has ${each} bytes`);
    this.length = bytes.length / each;
    this.#bytes = bytes;
    this.#each = each;
  }

  *[Symbol.iterator](): Generator<Uint8Array> {
    for (let at = 0; at < this.#bytes.length; at += this.#each) yield this.#bytes.subarray(at, at + this.#each);
  }
}

/** Records or lists asked for in one request. */
export const MAX_IDS: number = 2 ** 16;
/**
 * Records that one change deletes, and blocks or lists that it drops: all other changes wait for
 * it.
 */
export const MAX_REMOVED: number = 2 ** 16;
/** Bytes that an unpacked id takes in memory, about. */
export const ID_COST = 256;

/** Views of the bytes. */
export function unpackIds(bytes: Uint8Array, length: number, what: string): Uint8Array[] {
  return [...new PackedIds(bytes, length, what)];
}

// — commits —

export function encodeCommit(change: Change): Uint8Array {
  const { expected, manifest, records, removed = [], blocks, dropped = [], lists, droppedLists = [] } = change;
  return encodeMessage({ expected, records, blocks, lists }, [
    manifest,
    packIds(removed, HANDLE_BYTES, 'a handle'),
    packIds(dropped, BLOCK_ID_BYTES, 'a block id'),
    packIds(droppedLists, LIST_ID_BYTES, 'a list id'),
  ]);
}

/** How many parts follow the head of a commit. */
export const COMMIT_PARTS = 4;

/** Decodes a commit from a message whose head was checked. MALFORMED when it lacks a part. */
export function decodeCommit({ head, parts }: Message<CommitHead>): Change {
  const [manifest, removed, dropped, droppedLists] = parts;
  if (!manifest || !removed || !dropped || !droppedLists)
    throw new HersError('MALFORMED', `this message has ${parts.length} parts, and should have ${COMMIT_PARTS}`);
  return {
    ...head,
    manifest,
    removed: fewIds(removed, HANDLE_BYTES, 'a handle'),
    dropped: fewIds(dropped, BLOCK_ID_BYTES, 'a block id'),
    droppedLists: fewIds(droppedLists, LIST_ID_BYTES, 'a list id'),
  };
}

function fewIds(bytes: Uint8Array, length: number, what: string): PackedIds {
  const ids = new PackedIds(bytes, length, what);
  if (ids.length > MAX_REMOVED)
    throw new HersError('TOO_LARGE', `a change deletes or drops ${MAX_REMOVED} at most, not ${ids.length}`);
  return ids;
}

// — searches —

type Packed = [ids: readonly Uint8Array[] | undefined, bytes: number, what: string];
type Unpack = (bytes: Uint8Array, length: number, what: string) => Uint8Array[];

const blockIds = (ids: Searched['blocks']): Packed => [ids, BLOCK_ID_BYTES, 'a block id'];
const listIds = (ids: readonly Uint8Array[] | undefined): Packed => [ids, LIST_ID_BYTES, 'a list id'];
const openIds = (open: OpenSearch | undefined) => [listIds(open?.evaluation), listIds(open?.devices)];
const openHead = (open: OpenSearch | undefined) => (open ? { open: { inbox: open.inbox } } : {});

const packed = (all: readonly Packed[]) =>
  all.flatMap(([ids, bytes, what]) => (ids ? [packIds(ids, bytes, what)] : []));

export function encodeSearch({ queries, blocks, open, ...rest }: SearchRequest): Message<SearchHead> {
  const head = { ...rest, ...(blocks ? { some: true } : {}), ...openHead(open) };
  return { head, parts: [...packed([blockIds(blocks), ...openIds(open)]), ...queries] };
}

/** The most parts that follow the head of a search, besides its queries. */
export const SEARCH_PARTS = 3;

/** Decodes a search from a message whose head was checked. MALFORMED when it lacks a part. */
export function decodeSearch({ head, parts }: Message<SearchHead>, unpack: Unpack = unpackIds): SearchRequest {
  const { some, open, ...rest } = head;
  const named = new NamedIds(parts, unpack);
  return {
    ...rest,
    ...(some ? { blocks: named.take(blockIds([])) } : {}),
    ...named.open(open),
    queries: named.rest,
  };
}

/** Encodes a search of several shards, which have the same `open`. */
export function encodeShardSearch(
  shards: readonly SearchedShard[],
  queries: readonly Uint8Array[],
): Message<ShardSearchHead> {
  const open = shards[0]?.open;
  const heads = shards.map(({ blocks, lists, open: _, ...rest }) => ({
    ...rest,
    ...(blocks ? { some: true } : {}),
    ...(lists ? { lists: true } : {}),
  }));
  const ids = packed([...shards.flatMap(({ blocks, lists }) => [blockIds(blocks), listIds(lists)]), ...openIds(open)]);
  return { head: { shards: heads, ...openHead(open) }, parts: [...ids, ...queries] };
}

export function decodeShardSearch(
  { head, parts }: Message<ShardSearchHead>,
  unpack: Unpack = unpackIds,
): { readonly shards: readonly SearchedShard[]; readonly queries: readonly Uint8Array[] } {
  const named = new NamedIds(parts, unpack);
  const each = head.shards.map(({ some, lists, ...rest }) => ({
    ...rest,
    ...(some ? { blocks: named.take(blockIds([])) } : {}),
    ...(lists ? { lists: named.take(listIds([])) } : {}),
  }));
  const open = named.open(head.open);
  return { shards: each.map((shard) => ({ ...shard, ...open })), queries: named.rest };
}

/** Takes the parts of a search, one after the other. */
class NamedIds {
  readonly rest: Uint8Array[];
  readonly #unpack: Unpack;

  constructor(parts: readonly Uint8Array[], unpack: Unpack) {
    this.rest = [...parts];
    this.#unpack = unpack;
  }

  take([, bytes, what]: Packed): Uint8Array[] {
    const part = this.rest.shift();
    if (!part) throw new HersError('MALFORMED', 'this search lacks the ids of blocks or lists');
    return this.#unpack(part, bytes, what);
  }

  open(head: SearchHead['open']): Pick<Searched, 'open'> {
    if (!head) return {};
    return { open: { evaluation: this.take(listIds([])), devices: this.take(listIds([])), inbox: head.inbox } };
  }
}

// — items —

/** The last byte of a frame in a stream of items. */
export const ITEM_KIND = { item: 0, end: 1, failed: 2 } as const;

/** Decodes items of at most `limit` bytes. UNAVAILABLE when the stream is truncated. */
export async function* readItems(pieces: Many<Uint8Array>, limit: number = 2 ** 28): AsyncGenerator<Uint8Array> {
  const end = new ItemEnd();
  for await (const bytes of unframe(pieces, limit + 1)) {
    const item = end.item(bytes);
    if (item) yield item;
  }
  end.check();
}

/**
 * The same items, all that end in one piece together, without a promise and memory of its own for
 * each. Many are views of the piece: the caller copies what it keeps before it asks for more. With
 * `passing` the others are overwritten later, too.
 */
export async function* readItemGroups(
  pieces: Many<Uint8Array>,
  limit: number = 2 ** 28,
  passing: boolean = false,
): AsyncGenerator<readonly Uint8Array[]> {
  const end = new ItemEnd();
  for await (const frames of unframeGroups(pieces, limit + 1, undefined, passing)) {
    const items: Uint8Array[] = [];
    let failure: { readonly error: unknown } | undefined;
    for (const bytes of frames) {
      try {
        const item = end.item(bytes);
        if (item) items.push(item);
      } catch (error) {
        failure = { error };
        break;
      }
    }
    if (items.length > 0) yield items;
    if (failure) throw failure.error;
  }
  end.check();
}

/** Whether a stream of items has come to its end, and what its frames hold. */
class ItemEnd {
  #isHere = false;

  /** The item in a frame; nothing in the last. */
  item(bytes: Uint8Array): Uint8Array | undefined {
    if (this.#isHere || bytes.length === 0) throw new HersError('MALFORMED', 'the answer goes on behind its end');
    const content = bytes.subarray(0, -1);
    switch (bytes[bytes.length - 1]) {
      case ITEM_KIND.item:
        return content;
      case ITEM_KIND.end:
        this.#isHere = true;
        return undefined;
      case ITEM_KIND.failed:
        throw (
          (content.length <= ERROR_BYTES ? decodeError(parseJson(content)) : undefined) ??
          new HersError('MALFORMED', 'the answer ends with an error of no known kind')
        );
      default:
        throw new HersError('MALFORMED', 'the answer holds something unknown');
    }
  }

  check(): void {
    if (!this.#isHere) throw new HersError('UNAVAILABLE', 'the answer was cut off');
  }
}

// — inboxes —

const INBOX_HEAD_BYTES = 16;

/** An item of an inbox: number and time (u64 each), envelope. */
export function encodeInboxItem({ number, posted, envelope }: InboxItem): readonly [Uint8Array, Uint8Array] {
  const head = new Uint8Array(INBOX_HEAD_BYTES);
  const view = new DataView(head.buffer);
  view.setBigUint64(0, BigInt(number), true);
  view.setBigUint64(8, BigInt(posted), true);
  return [head, envelope];
}

/** Decodes an item of an inbox; MALFORMED for anything else. */
export function decodeInboxItem(bytes: Uint8Array): InboxItem {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const [number, posted] =
    bytes.length < INBOX_HEAD_BYTES ? [-1, -1] : [0, 8].map((at) => Number(view.getBigUint64(at, true)));
  if (!isCount(number) || !isCount(posted)) throw new HersError('MALFORMED', 'this is no item of an inbox');
  return { number, posted, envelope: bytes.slice(INBOX_HEAD_BYTES) };
}

// — errors and descriptions —

/**
 * An error as others may see it. Errors that are not ours are hidden, because they may hold
 * anything.
 */
export function encodeError(error: unknown): ErrorBody {
  if (!(error instanceof HersError))
    return { code: 'INTERNAL', message: 'the server has a bug; its log says more', retryable: false };
  // To others, a closed folder means that the server is shutting down.
  if (error.code === 'CLOSED') return encodeError(new HersError('UNAVAILABLE', 'the server is going down'));
  const { code, message, retryable } = error;
  return { code, message, retryable };
}

/** The error that a body describes; undefined if it is not one of ours. */
export function decodeError(body: unknown): HersError | undefined {
  const { code, message } = (body ?? {}) as Partial<ErrorBody>;
  return isErrorCode(code) && typeof message === 'string' ? new HersError(code, printable(message)) : undefined;
}

/**
 * Untrusted text, made safe for a terminal: short, and without control or direction characters.
 */
export function printable(text: string): string {
  const short = text.length > MESSAGE_LETTERS ? `${text.slice(0, MESSAGE_LETTERS - 1)}…` : text;
  return short.toWellFormed().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ');
}

const PAIR = /^(?:[0-9a-f]{2})*$/;

/** An id that somebody sent; MALFORMED where it is not in lower-case hexadecimal digits. */
export function fromHex(text: string): Uint8Array {
  if (!PAIR.test(text)) throw new HersError('MALFORMED', 'an id is written in hexadecimal digits');
  return hexToBytes(text);
}

export function encodeInfo({ id, descriptor, ...rest }: CollectionInfo): CollectionBody {
  let binary = '';
  for (const byte of descriptor) binary += String.fromCharCode(byte);
  return { ...rest, id: bytesToHex(id), descriptor: btoa(binary) };
}

const ID = /^[0-9a-f]{32}$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Decodes a CollectionBody; MALFORMED if it is anything else. */
export function decodeInfo(body: unknown): CollectionInfo {
  const { name, id, descriptor, version, records, blocks, bytes } = (body ?? {}) as Partial<CollectionBody>;
  if (
    !isCollectionName(name) ||
    !(typeof id === 'string' && ID.test(id)) ||
    !(typeof descriptor === 'string' && descriptor.length <= DESCRIPTOR_LETTERS && BASE64.test(descriptor)) ||
    !(isCount(version) && isCount(records) && isCount(blocks) && isCount(bytes))
  )
    throw new HersError('MALFORMED', 'this is not the description of a collection');
  return {
    name,
    id: fromHex(id),
    descriptor: Uint8Array.from(atob(descriptor), (character) => character.charCodeAt(0)),
    version,
    records,
    blocks,
    bytes,
  };
}

/** The rule for names of collections, which appear in paths and URLs, as a regular expression. */
export const COLLECTION_NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$';
const pattern = new RegExp(COLLECTION_NAME);

export function isCollectionName(name: unknown): name is string {
  return typeof name === 'string' && pattern.test(name);
}

/** INVALID_ARGUMENT when no collection can have this name. */
export function checkCollectionName(name: unknown): asserts name is string {
  if (!isCollectionName(name))
    throw new HersError(
      'INVALID_ARGUMENT',
      'a collection name has 1 to 64 letters, digits, dots, dashes or underscores, and begins with a letter or digit',
    );
}

/**
 * Says whether traffic stays on this machine: a client then needs no TLS for its token, and a
 * server no token for its clients. True for 127.0.0.0/8, for ::1, also as URLs write it, and for
 * `localhost`.
 */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1' || host === '[::1]') return true;
  const octets = /^127\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(host)?.slice(1) ?? [];
  return octets.length > 0 && octets.every((octet) => Number(octet) <= 255);
}
