// A Service over HTTP: the calls of `hers serve`, as paths, bodies and answers.

import { peekAnyResponse } from '@hers/scheme';
import {
  type CallOptions,
  type Change,
  type CollectionInfo,
  checkCollectionName,
  collectionPath,
  decodeInboxItem,
  decodeInfo,
  decodeMessage,
  encodeCommit,
  encodeMessage,
  encodeSearch,
  Framed,
  Grouped,
  groupsOf,
  HANDLE_BYTES,
  type HelloBody,
  HersError,
  type InboxItem,
  type InboxRange,
  isCollectionName,
  LIST_ID_BYTES,
  MAX_ENVELOPE_BYTES,
  MAX_IDS,
  type Many,
  packIds,
  printable,
  Renewable,
  readItemGroups,
  readItems,
  type SealedRecord,
  type SearchCallOptions,
  type SearchRequest,
  type Service,
  type ShardCoverage,
  type StageId,
} from '@hers/service';
import { hex, nameOf } from '../bytes.ts';
import { type Call, Connection, type HttpOptions, postEnvelope } from './connection.ts';
import { type Expected, fieldsOf, isCount, SMALL_BYTES } from './http-answer.ts';
import { gatherBody, inCopies, wholeBody } from './http-body.ts';

// What a program without keys needs beside: the nodes of a cluster speak to each other by this.
export { fetchLarge } from '#fetch';
export type { HttpOptions } from './connection.ts';
export { fieldsOf, type PieceReader, SMALL_BYTES } from './http-answer.ts';
export { wholeBody } from './http-body.ts';

/** Queries sent in one request, unless a single one is larger. */
const SEARCH_BYTES = 2 ** 25;
/** The most memory that is kept for the next search. */
const SPARE_BYTES = 2 ** 22;
// What answers may be. A sealed record is a payload of 16 MiB at most, with vectors and an id; a
// list has an id of 1 KiB at most for every slot of a block; a piece of a compressor has 4 MiB; a
// column has 32 MiB at most (lists.ts).
const SMALL: Expected = { bytes: SMALL_BYTES };
const SMALL_AFTER_WORK: Expected = { bytes: SMALL_BYTES, works: true };
const COLLECTIONS: Expected = { bytes: 2 ** 24 };
const MANIFEST: Expected = { bytes: 2 ** 28 };
const BLOCK: Expected = { bytes: 2 ** 28, streamed: true };
const ITEMS: Expected = { bytes: Number.POSITIVE_INFINITY, streamed: true };
const ITEMS_OF_WORK: Expected = { ...ITEMS, works: true };
const RESPONSES: Expected = { ...ITEMS_OF_WORK, large: true };
const RECORD_BYTES = 18 * 2 ** 20;
const LIST_BYTES = 2 ** 25;
const RESPONSE_BYTES = 2 ** 20;
/** Items of an inbox in one request, and what comes before each. */
const INBOX_LIMIT = 100;
const INBOX_HEAD_BYTES = 16;
const HELLO_LETTERS = 100;
const STAGE_LETTERS = 8192;

/** A server as a store: what `connect` uses for an address. */
export class HttpService implements Service {
  /**
   * For the nodes of a cluster, which have further calls.
   *
   * @internal
   */
  protected readonly connection: Connection;
  /** Memory of a search that is over, for the next one: much of it would be garbage otherwise. */
  #spare: Uint8Array | undefined;

  /**
   * Connects to nothing yet; `hello` does.
   *
   * @param where - The address of a server, or those of the nodes of a cluster.
   * @param options - A token, and how long calls are retried.
   * @throws {HersError} INVALID_ARGUMENT: for what is no address, a token that cannot be one or
   *   would be sent to another machine without TLS, or an option that there is not.
   */
  constructor(where: string | readonly string[], options: HttpOptions = {}) {
    this.connection = new Connection(where, options);
  }

  /**
   * Asks the server who it is: an address or a token that is wrong is noticed now and not later.
   *
   * @param options - A signal that ends it.
   * @throws {HersError} INVALID_ARGUMENT, MALFORMED: where something else answers than a HERS
   *   server.
   * @throws {HersError} UNAUTHENTICATED: where the server does not know the token.
   * @throws {HersError} UNAVAILABLE, OVERLOADED, TIMED_OUT: where it cannot be reached, has too
   *   much to do, or takes too long.
   */
  async hello(options?: CallOptions): Promise<HelloBody> {
    const call: Call = { operation: 'connect', method: 'GET', path: '/v1', expected: SMALL };
    const { server, version, bodyBytes } = fieldsOf(await this.connection.json(call, options));
    if (server !== 'hers') throw new HersError('INVALID_ARGUMENT', `${this.connection.base} is not a HERS server`);
    if (!(isText(version, HELLO_LETTERS) && isCount(bodyBytes))) throw this.connection.nonsense();
    return { server, version: printable(version), bodyBytes };
  }

  // — collections —

  async createCollection(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
  ): Promise<void> {
    checkCollectionName(name);
    const body = wholeBody(encodeMessage({ name, id: hex(created.id) }, [created.descriptor, created.manifest]));
    const made = async (error: HersError) =>
      error.code === 'ALREADY_EXISTS' && hex((await this.getCollection(name)).id) === hex(created.id);
    const path = '/v1/collections';
    await this.connection.nothing({ operation: 'createCollection', method: 'POST', path, body, expected: SMALL, made });
  }

  async listCollections(): Promise<CollectionInfo[]> {
    const [path, expected] = ['/v1/collections', COLLECTIONS];
    const call: Call = { operation: 'listCollections', method: 'GET', path, expected };
    const { collections } = fieldsOf(await this.connection.json(call));
    if (!Array.isArray(collections)) throw this.connection.nonsense();
    return collections.map(decodeInfo);
  }

  async getCollection(name: string): Promise<CollectionInfo> {
    const call: Call = { operation: 'getCollection', method: 'GET', path: this.#path(name), expected: SMALL };
    const info = decodeInfo(await this.connection.json(call));
    if (info.name !== name)
      throw new HersError('INTEGRITY', `the server was asked for ${name}, and describes another collection`);
    return info;
  }

  async deleteCollection(name: string): Promise<void> {
    const made = async (error: HersError) => error.code === 'NOT_FOUND';
    const [path, expected] = [this.#path(name), SMALL_AFTER_WORK];
    await this.connection.nothing({ operation: 'deleteCollection', method: 'DELETE', path, expected, made });
  }

  // — changes —

  async getManifest(name: string): Promise<{ readonly version: number; readonly manifest: Uint8Array }> {
    const path = this.#path(name, 'manifest');
    const answer = await this.connection.call({ operation: 'getManifest', method: 'GET', path, expected: MANIFEST });
    const { head, parts } = decodeMessage(answer, 1);
    const { version } = fieldsOf(head);
    if (!isCount(version) || parts.length !== 1) throw this.connection.nonsense();
    return { version, manifest: parts[0] };
  }

  async stageRecords(name: string, records: Many<SealedRecord>, options?: CallOptions): Promise<StageId> {
    const path = this.#path(name, 'records');
    const body = await gatherBody(framedRecords(records), options?.signal);
    return this.#stage({ operation: 'stageRecords', method: 'PUT', path, body }, options);
  }

  async stageList(name: string, sealed: Uint8Array): Promise<StageId> {
    const path = this.#path(name, 'lists');
    return this.#stage({ operation: 'stageList', method: 'POST', path, body: wholeBody(sealed) });
  }

  async stageBlock(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<StageId> {
    const path = this.#path(name, 'blocks');
    return this.connection.upload(async () => {
      const body = await gatherBody(pieces, options?.signal);
      return this.#stage({ operation: 'stageBlock', method: 'POST', path, body }, options);
    });
  }

  async #stage(call: Omit<Call, 'expected'>, options?: CallOptions): Promise<StageId> {
    const { stage } = fieldsOf(await this.connection.json({ ...call, expected: SMALL_AFTER_WORK }, options));
    if (!isText(stage, STAGE_LETTERS)) throw this.connection.nonsense();
    return stage;
  }

  async commit(name: string, change: Change): Promise<number> {
    const path = this.#path(name, 'commit');
    const body = wholeBody(encodeCommit(change));
    // Committing the same manifest twice is the same as once, so an answer that was lost is asked
    // for again.
    const call: Call = { operation: 'commit', method: 'POST', path, body, expected: SMALL_AFTER_WORK };
    const { version } = fieldsOf(await this.connection.json(call));
    if (!isCount(version)) throw this.connection.nonsense();
    return version;
  }

  // — reading —

  async *getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<SealedRecord> {
    const packed = (some: readonly Uint8Array[]) => packIds(some, HANDLE_BYTES, 'a handle');
    let next = 0;
    for await (const item of this.#items('getRecords', name, 'records/get', handles, packed, RECORD_BYTES, options)) {
      const [handle, sealed] = [item.subarray(0, HANDLE_BYTES), item.subarray(HANDLE_BYTES)];
      const asked = handles[next++];
      if (handle.length !== asked.length || handle.some((byte, i) => byte !== asked[i]))
        throw new HersError('INTEGRITY', 'the server gave another record than it was asked for');
      yield { handle, sealed };
    }
  }

  async *getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<Uint8Array> {
    const packed = (some: readonly Uint8Array[]) => packIds(some, LIST_ID_BYTES, 'a list id');
    yield* this.#items('getLists', name, 'lists/get', ids, packed, LIST_BYTES, options);
  }

  /** Asks for things by their ids, each of at most so many bytes, and passes on as many. */
  async *#items(
    operation: string,
    name: string,
    rest: string,
    ids: readonly Uint8Array[],
    packed: (some: readonly Uint8Array[]) => Uint8Array,
    bytes: number,
    options?: CallOptions,
  ): AsyncGenerator<Uint8Array> {
    for (const some of parts(ids)) {
      const path = this.#path(name, rest);
      const ask = (delivered: number) =>
        ({ method: 'POST', path, body: wholeBody(packed(some.slice(delivered))), expected: ITEMS }) as const;
      const read = (pieces: AsyncIterable<Uint8Array>, delivered: number) =>
        counted(readItems(pieces, bytes), some.length - delivered);
      yield* this.connection.stream(operation, ask, read, options);
    }
  }

  async *getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, `blocks/${hex(blockId)}`);
    const call = { method: 'GET', path, expected: BLOCK } as const;
    const ask = (delivered: number) => (delivered === 0 ? call : undefined);
    yield* this.connection.stream('getBlock', ask, (pieces) => pieces, options);
  }

  search(name: string, request: SearchRequest, options?: SearchCallOptions): AsyncIterable<Uint8Array> {
    const checkOpen = () => this.connection.checkOpen();
    return new Grouped(() => this.#searchGroups(name, request, options), checkOpen);
  }

  async *#searchGroups(
    name: string,
    request: SearchRequest,
    options?: SearchCallOptions,
  ): AsyncGenerator<readonly Uint8Array[]> {
    const path = this.#path(name, 'search');
    const { open, queries, partial } = request;
    const onCoverage = partial ? worstCoverage(options?.onCoverage) : undefined;
    const views = options?.views ?? false;
    const expected = { ...RESPONSES, passing: views === 'passing' };
    for (const [i, group] of groups(queries).entries()) {
      // Questions go with the first group.
      const about = i > 0 && open ? { ...request, open: { ...open, inbox: [] } } : request;
      const { head, parts } = encodeSearch({ ...about, queries: group });
      const message = encodeMessage(head, parts, this.#spare);
      this.#spare = undefined;
      const call = { method: 'POST', path, body: wholeBody(message), expected } as const;
      const read = unrepeated(expected.passing, onCoverage);
      for await (const responses of this.connection.stream('search', () => call, read, options))
        yield views ? responses : responses.map((response) => new Uint8Array(response));
      // All of it was answered, so it has been sent.
      if (message.length <= SPARE_BYTES) this.#spare = new Uint8Array(message.buffer);
    }
  }

  // — inboxes —

  async post(name: string, envelope: Uint8Array, options?: CallOptions): Promise<number> {
    return postEnvelope(this.connection, this.#path(name, 'inbox'), envelope, options);
  }

  async *takeInbox(name: string, range: InboxRange = {}, options?: CallOptions): AsyncGenerator<InboxItem> {
    const path = this.#path(name, 'inbox/take');
    let { after = 0 } = range;
    const { limit = INBOX_LIMIT } = range;
    let left = limit;
    const ask = (delivered: number) => {
      // A store gives one item at least, so nothing is asked again where all were given.
      if (left === 0 && delivered > 0) return undefined;
      const body = wholeBody(encodeMessage({ after, limit: left }, []));
      return { method: 'POST', path, body, expected: ITEMS } as const;
    };
    const most = MAX_ENVELOPE_BYTES + INBOX_HEAD_BYTES;
    const read = (pieces: AsyncIterable<Uint8Array>) => readItems(pieces, most);
    try {
      for await (const bytes of this.connection.stream('takeInbox', ask, read, options)) {
        const item = decodeInboxItem(bytes);
        if (item.number <= after || left-- === 0)
          throw new HersError('INTEGRITY', 'the server gave more of the inbox than it was asked for, or out of order');
        after = item.number;
        yield item;
      }
    } catch (error) {
      // A connection that broke behind the last item lost nothing.
      if (left !== 0 || limit === 0) throw error;
    }
  }

  async dropInbox(name: string, numbers: readonly number[], options?: CallOptions): Promise<void> {
    await this.#inbox('dropInbox', this.#path(name, 'inbox/drop'), { numbers }, options);
  }

  async refuseDevices(name: string, devices: readonly number[], options?: CallOptions): Promise<void> {
    await this.#inbox('refuseDevices', this.#path(name, 'inbox/refuse'), { devices }, options);
  }

  async #inbox(operation: string, path: string, head: object, options?: CallOptions): Promise<void> {
    const body = wholeBody(encodeMessage(head, []));
    await this.connection.nothing({ operation, method: 'POST', path, body, expected: SMALL_AFTER_WORK }, options);
  }

  // — upkeep —

  async purge(name: string, options?: CallOptions): Promise<void> {
    const path = this.#path(name, 'purge');
    await this.connection.nothing({ operation: 'purge', method: 'POST', path, expected: SMALL_AFTER_WORK }, options);
  }

  async *snapshot(name: string, options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, 'snapshot');
    const call = { method: 'GET', path, expected: ITEMS_OF_WORK } as const;
    const ask = (delivered: number) => (delivered === 0 ? call : undefined);
    yield* this.connection.stream('snapshot', ask, (pieces) => pieces, options);
  }

  async restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void> {
    this.connection.checkOpen();
    checkCollectionName(name);
    const path = this.#path(name, 'snapshot');
    const body = await gatherBody(pieces, options?.signal);
    const call: Call = { operation: 'restore', method: 'PUT', path, body, expected: SMALL_AFTER_WORK };
    await this.connection.nothing(call, options, 'untouched');
  }

  async close(): Promise<void> {
    this.connection.close();
  }

  /** A name that no collection can have must not become another path. */
  #path(name: string, rest?: string): string {
    this.connection.checkOpen();
    if (!isCollectionName(name)) throw new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
    return rest === undefined ? collectionPath(name) : `${collectionPath(name)}/${rest}`;
  }
}

/** As many as are asked for in one request; one part at least, though empty. */
function* parts(ids: readonly Uint8Array[]): Generator<readonly Uint8Array[]> {
  if (ids.length <= MAX_IDS) yield ids;
  else for (let at = 0; at < ids.length; at += MAX_IDS) yield ids.slice(at, at + MAX_IDS);
}

/** Records are sent in pieces of about this size: one of its own for each would take far longer. */
const PIECE_BYTES = 2 ** 18;

/** Frames of records, put together into pieces. */
class RecordFrames {
  #piece = new Uint8Array(0);
  #filled = 0;

  /** Yields the pieces that are full. */
  *add(records: Iterable<SealedRecord>): Generator<Uint8Array> {
    for (const { handle, sealed } of records) {
      if (!(handle instanceof Uint8Array && handle.length === HANDLE_BYTES))
        throw new HersError('INVALID_ARGUMENT', `a handle has ${HANDLE_BYTES} bytes`);
      const length = HANDLE_BYTES + sealed.length;
      if (this.#filled + 4 + length > this.#piece.length) {
        yield* this.rest();
        this.#piece = new Uint8Array(Math.max(PIECE_BYTES, 4 + length));
      }
      const [piece, at] = [this.#piece, this.#filled];
      for (let i = 0; i < 4; i++) piece[at + i] = length >>> (8 * i);
      piece.set(handle, at + 4);
      piece.set(sealed, at + 4 + HANDLE_BYTES);
      this.#filled += 4 + length;
    }
  }

  *rest(): Generator<Uint8Array> {
    if (this.#filled > 0) yield this.#piece.subarray(0, this.#filled);
    this.#filled = 0;
  }
}

/** Makes no promise for records that are there; to be had again where they are. */
function framedRecords(records: Many<SealedRecord>): Many<Uint8Array> {
  if (records instanceof Framed) return new Renewable(() => inCopies(records.frames()));
  if (Symbol.asyncIterator in records) return framedLater(records);
  const isRenewable = Array.isArray(records) || records instanceof Renewable;
  return isRenewable ? new Renewable(() => framedNow(records)) : framedNow(records);
}

function* framedNow(records: Iterable<SealedRecord>): Generator<Uint8Array> {
  const frames = new RecordFrames();
  yield* frames.add(records);
  yield* frames.rest();
}

async function* framedLater(records: AsyncIterable<SealedRecord>): AsyncGenerator<Uint8Array> {
  const frames = new RecordFrames();
  for await (const group of groupsOf(records)) yield* frames.add(group);
  yield* frames.rest();
}

/** As many queries together as fit; with none, one empty group, which still compares versions. */
function groups(queries: readonly Uint8Array[]): Uint8Array[][] {
  const out: Uint8Array[][] = [[]];
  let bytes = 0;
  for (const query of queries) {
    if (bytes > 0 && bytes + query.length > SEARCH_BYTES) {
      out.push([]);
      bytes = 0;
    }
    out.at(-1)!.push(query);
    bytes += query.length;
  }
  return out;
}

async function* counted(items: AsyncIterable<Uint8Array>, count: number): AsyncGenerator<Uint8Array> {
  let left = count;
  for await (const item of items) {
    if (left-- === 0) throw new HersError('INTEGRITY', 'the server gave more than it was asked for');
    yield item;
  }
  if (left > 0) throw new HersError('INTEGRITY', `the server left out ${left} of ${count} things it was asked for`);
}

/**
 * Reads the responses of one search, many at a time. An answer that broke off is given again from
 * the start, in another order: what an earlier attempt delivered is left out. A response of which
 * all comes twice in one answer is INTEGRITY, because a server could go on like that forever. Some
 * of a packed one may: a cluster in which a node failed asks another, which packs other blocks
 * together.
 */
function unrepeated(
  passing: boolean,
  onCoverage?: (coverage: ShardCoverage) => void,
): (pieces: AsyncIterable<Uint8Array>) => AsyncGenerator<readonly Uint8Array[]> {
  const earlier = new Set<string>();
  let current = new Set<string>();
  return async function* (pieces) {
    for (const key of current) earlier.add(key);
    current = new Set();
    for await (const items of readItemGroups(pieces, RESPONSE_BYTES, passing)) {
      const fresh: Uint8Array[] = [];
      let isTwice = false;
      for (const response of items) {
        if (onCoverage && response[0] === BRACE) {
          onCoverage(readCoverage(response));
          continue;
        }
        const { queryId, blocks } = peekAnyResponse(response);
        const query = nameOf(queryId);
        const before = current.size;
        let isFresh = false;
        for (const { blockId } of blocks) {
          const key = query + nameOf(blockId);
          current.add(key);
          // A packed response may hold others together than before: what is new in it counts.
          if (!earlier.has(key)) isFresh = true;
        }
        const isRepeated =
          blocks.length > 1 && new Set(blocks.map(({ blockId }) => nameOf(blockId))).size < blocks.length;
        isTwice = current.size === before || isRepeated;
        if (isTwice) break;
        if (isFresh) fresh.push(response);
      }
      if (fresh.length > 0) yield fresh;
      if (isTwice) throw new HersError('INTEGRITY', 'the server answered twice for one block');
    }
  };
}

/** Begins a coverage, and no response. */
const BRACE = 0x7b;

function readCoverage(item: Uint8Array): ShardCoverage {
  try {
    const { answered, failed, timedOut } = JSON.parse(new TextDecoder().decode(item));
    if ([answered, failed, timedOut].every((value) => Number.isSafeInteger(value) && value >= 0))
      return { answered, failed, timedOut };
  } catch {}
  throw new HersError('MALFORMED', 'the server says nonsense about what it searched');
}

/** Of several groups of queries, the worst: a shard that failed for one is missing. */
function worstCoverage(onCoverage: ((coverage: ShardCoverage) => void) | undefined): (coverage: ShardCoverage) => void {
  let worst: ShardCoverage | undefined;
  return (coverage) => {
    if (!worst || coverage.answered < worst.answered) worst = coverage;
    onCoverage?.(worst);
  };
}

function isText(value: unknown, most: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= most;
}
