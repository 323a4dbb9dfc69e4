// How the calls of a Service travel over HTTP: what both ends must agree on. Everything that is not a small description is octets.
//
//   message   frames: a head, which is JSON, then byte strings whose number and order the head or the call decides
//   items     frames, the last byte of each says what it is: an item, the end, or the error (JSON) that ended the stream. A stream
//             without its end was cut off
//   octets    a block or a snapshot as it is: both carry checksums of their own
//
// Many ids travel as one byte string, one behind the other.

import { type ErrorCode, HersError, isErrorCode } from '@hers/scheme';
import { unframe } from './frames.ts';
import { type CollectionInfo, type Ids, isCollectionName, type Many } from './service.ts';

export const OCTETS = 'application/octet-stream';

export const collectionPath = (name: string) => `/v1/collections/${encodeURIComponent(name)}`;

/** What a server says about itself. */
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

export interface StageBody {
  readonly stage: string;
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

/** Followed by the manifest. */
export interface ManifestHead {
  readonly version: number;
}

/** Followed by the manifest, removed handles, base and result of every sum, dropped blocks, dropped lists. */
export interface CommitHead {
  readonly expected: number;
  readonly records?: readonly string[];
  readonly blocks?: readonly string[];
  readonly lists?: readonly string[];
  readonly sums?: readonly { readonly part: string; readonly maxAdditions: number }[];
}

/** Followed by the ids of the blocks, where only some are meant, and the queries. */
export interface SearchHead {
  readonly version: number;
  readonly some?: boolean;
}

export interface Message<Head> {
  readonly head: Head;
  readonly parts: readonly Uint8Array[];
}

/** Behind a head of a whole number of words the parts lie at whole places too, and can be used where they are. */
const WORD_BYTES = 8;
/** Parts of a message; a search has one for every query. */
const MOST_PARTS = 2 ** 16;
/** Bytes of a head: what is parsed takes many times its bytes. */
const HEAD_BYTES = 2 ** 20;
/** Bytes of an error in JSON, and letters of its message. */
const ERROR_BYTES = 2 ** 16;
const MESSAGE_LETTERS = 500;
/** Letters of a descriptor in base64. */
const DESCRIPTOR_LETTERS = 2 ** 16;

export function encodeMessage(head: object, parts: readonly Uint8Array[]): Uint8Array {
  const json = new TextEncoder().encode(JSON.stringify(head));
  const text = new Uint8Array(Math.ceil(json.length / WORD_BYTES) * WORD_BYTES).fill(0x20);
  text.set(json);
  const frames = [text, ...parts];
  const out = new Uint8Array(frames.reduce((sum, bytes) => sum + 4 + bytes.length, 0));
  const view = new DataView(out.buffer);
  let at = 0;
  for (const bytes of frames) {
    view.setUint32(at, bytes.length, true);
    out.set(bytes, at + 4);
    at += 4 + bytes.length;
  }
  return out;
}

/** Takes a message apart; the parts are views of it. The caller says whether its head is one it knows. More than `most` parts are MALFORMED. */
export function decodeMessage(bytes: Uint8Array, most = MOST_PARTS): Message<unknown> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const frames: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = at + 4 <= bytes.length ? view.getUint32(at, true) : bytes.length;
    at += 4;
    if (length > bytes.length - at)
      throw new HersError('MALFORMED', 'this message ends in the middle of a part; was it cut off?');
    // The head is none of them.
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

/** Ids of one length, one behind the other. */
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

/** The same, seen one after the other: no more than one of them takes memory besides the bytes. */
export class PackedIds implements Ids {
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
export const MOST_IDS = 2 ** 16;
/** Records that one change deletes, and blocks or lists that it drops: a change is made in one piece, while everybody waits. */
export const MOST_REMOVED = 2 ** 16;
/** What an id takes in memory once it is unpacked, about. */
export const ID_COST = 256;

/** Views of the bytes. */
export function unpackIds(bytes: Uint8Array, length: number, what: string): Uint8Array[] {
  return [...new PackedIds(bytes, length, what)];
}

// — items —

/** The last byte of a frame in a stream of items. */
export const ITEM_KIND = { item: 0, end: 1, failed: 2 } as const;

/** Reads items back, of `limit` bytes at most. UNAVAILABLE when the stream ends before its end. */
export async function* readItems(pieces: Many<Uint8Array>, limit = 2 ** 28): AsyncGenerator<Uint8Array> {
  let ended = false;
  for await (const bytes of unframe(pieces, limit + 1)) {
    if (ended || bytes.length === 0) throw new HersError('MALFORMED', 'the answer goes on behind its end');
    const content = bytes.subarray(0, -1);
    switch (bytes[bytes.length - 1]) {
      case ITEM_KIND.item:
        yield content;
        break;
      case ITEM_KIND.end:
        ended = true;
        break;
      case ITEM_KIND.failed:
        throw (
          (content.length <= ERROR_BYTES ? decodeError(parseJson(content)) : undefined) ??
          new HersError('MALFORMED', 'the answer ends with an error of no known kind')
        );
      default:
        throw new HersError('MALFORMED', 'the answer holds something unknown');
    }
  }
  if (!ended) throw new HersError('UNAVAILABLE', 'the answer was cut off');
}

// — errors and descriptions —

/** What is told of an error. Of those that are not ours nothing is, for nobody knows what they hold. */
export function encodeError(error: unknown): ErrorBody {
  if (!(error instanceof HersError))
    return { code: 'INTERNAL', message: 'the server made a mistake; its log says more', retryable: false };
  // That its folder is closed means, to others, that it is going down.
  if (error.code === 'CLOSED') return encodeError(new HersError('UNAVAILABLE', 'the server is going down'));
  const { code, message, retryable } = error;
  return { code, message, retryable };
}

/** The error that a body speaks of, or nothing where it is not one of ours. */
export function decodeError(body: unknown): HersError | undefined {
  const { code, message } = (body ?? {}) as Partial<ErrorBody>;
  return isErrorCode(code) && typeof message === 'string' ? new HersError(code, printable(message)) : undefined;
}

/** Words from elsewhere, made fit for a terminal: not too many, and none that move the cursor or turn the line around. */
export function printable(text: string): string {
  const short = text.length > MESSAGE_LETTERS ? `${text.slice(0, MESSAGE_LETTERS - 1)}…` : text;
  return short.toWellFormed().replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ');
}

const PAIR = /^(?:[0-9a-f]{2})*$/;

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function fromHex(text: string): Uint8Array {
  if (!PAIR.test(text)) throw new HersError('MALFORMED', 'an id is written in hexadecimal digits');
  return Uint8Array.from({ length: text.length / 2 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
}

export function encodeInfo({ id, descriptor, ...rest }: CollectionInfo): CollectionBody {
  let binary = '';
  for (const byte of descriptor) binary += String.fromCharCode(byte);
  return { ...rest, id: toHex(id), descriptor: btoa(binary) };
}

const ID = /^[0-9a-f]{32}$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Reads a CollectionBody back; MALFORMED where it is anything else. */
export function decodeInfo(body: unknown): CollectionInfo {
  const { name, id, descriptor, version, records, blocks, bytes } = (body ?? {}) as Partial<CollectionBody>;
  if (
    !(typeof name === 'string' && isCollectionName(name)) ||
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
