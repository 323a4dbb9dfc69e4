// A Service at the other end of a line: `hers serve`, spoken to by fetch, from Node or from a page.

import { peekResponse } from '@hers/scheme';
import {
  type CallOptions,
  type Change,
  type CollectionInfo,
  collectionPath,
  decodeInfo,
  decodeMessage,
  encodeMessage,
  frame,
  HANDLE_BYTES,
  type HelloBody,
  HersError,
  isCollectionName,
  LIST_ID_BYTES,
  type Many,
  MOST_IDS,
  OCTETS,
  packIds,
  printable,
  readItems,
  type SealedRecord,
  type SearchRequest,
  type Service,
  type StageId,
} from '@hers/service';
import { concat, hex } from './bytes.ts';
import {
  checkRedirect,
  type Expected,
  fieldsOf,
  isCount,
  parseAnswer,
  piecesOf,
  refusal,
  SMALL_BYTES,
  Watch,
  wholeAnswer,
} from './http-answer.ts';
import { type Body, gatherBody, isNode, wholeBody } from './http-body.ts';
import { Passing, Retries, type RetryOptions } from './retry.ts';

export interface HttpOptions extends RetryOptions {
  /** The bearer token, as `hers tokens create` printed it. */
  readonly token?: string;
  /** Send the token over a line that is not encrypted to a machine that is not this one. */
  readonly insecure?: boolean;
}

const BLOCK_ID_BYTES = 16;
/** Queries sent in one request, unless a single one is larger. */
const SEARCH_BYTES = 2 ** 25;
/** An answer that breaks off more often than this will not get better. */
const MOST_BREAKS = 10;
/** Blocks uploaded at a time. */
const UPLOADS = 4;

// What answers may be. A sealed record is a payload of 16 MiB at most, with vectors and an id; a list has an id of 1 KiB at most for every slot of a block; a piece of a model has 4 MiB.
const SMALL: Expected = { bytes: SMALL_BYTES };
const SMALL_AFTER_WORK: Expected = { bytes: SMALL_BYTES, works: true };
const COLLECTIONS: Expected = { bytes: 2 ** 24 };
const MANIFEST: Expected = { bytes: 2 ** 28 };
const BLOCK: Expected = { bytes: 2 ** 28, streamed: true };
const ITEMS: Expected = { bytes: Number.POSITIVE_INFINITY, streamed: true };
const ITEMS_OF_WORK: Expected = { ...ITEMS, works: true };
const RECORD_BYTES = 18 * 2 ** 20;
const LIST_BYTES = 2 ** 23;
const RESPONSE_BYTES = 2 ** 20;
const HELLO_LETTERS = 100;
const STAGE_LETTERS = 1000;

type When = 'always' | 'untouched';

interface Call {
  readonly operation: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: Body;
  readonly expected: Expected;
  /** Whether this error, after an attempt whose answer was lost, means that that attempt did what was asked. */
  readonly made?: (error: HersError) => Promise<boolean>;
}

/** A request whose answer has begun. Whoever gets it calls `done` when it is read. */
interface Attempt {
  readonly answer: Response;
  readonly watch: Watch;
  readonly signal: AbortSignal;
  readonly done: () => void;
}

export class HttpService implements Service {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #retries: Retries;
  readonly #closing = new AbortController();
  #uploads = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(where: string, options: HttpOptions = {}) {
    const url = parseUrl(where);
    const { token, insecure = false } = options;
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
      throw new HersError('INVALID_ARGUMENT', 'a token has no spaces and no line breaks; copy nothing but the token');
    if (token !== undefined && url.protocol === 'http:' && !isLoopback(url.hostname) && !insecure)
      throw new HersError(
        'INVALID_ARGUMENT',
        `a token sent to ${url.origin} could be read on the way; use https, or say insecure: true if the line is safe`,
      );
    this.#base = url.origin + url.pathname.replace(/\/+$/, '');
    this.#headers = {
      // Ciphertexts do not get smaller. Pages may not say so.
      ...(isNode ? { 'accept-encoding': 'identity' } : {}),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    this.#retries = new Retries(options);
  }

  /** Asks the server who it is: an address or a token that is wrong is noticed now and not later. */
  async hello(options?: CallOptions): Promise<HelloBody> {
    const call: Call = { operation: 'connect', method: 'GET', path: '/v1', expected: SMALL };
    const { server, version, bodyBytes } = fieldsOf(await this.#json(call, options));
    if (server !== 'hers') throw new HersError('INVALID_ARGUMENT', `${this.#base} is not a HERS server`);
    if (!(isText(version, HELLO_LETTERS) && isCount(bodyBytes))) throw this.#nonsense();
    return { server, version: printable(version), bodyBytes };
  }

  // — requests —

  /** One attempt, as far as the head of the answer. */
  async #send({ method, path, body, expected }: Call, options?: CallOptions): Promise<Attempt> {
    const { signal, stop, done: release } = this.#signal(options?.signal);
    const onLate = (what: string) =>
      stop(new Passing(new HersError('UNAVAILABLE', `${this.#base} ${what}`), { untouched: false }));
    const watch = new Watch({ expected, quietMs: this.#retries.quietMs, body, onLate });
    const done = () => {
      watch.end();
      release();
    };
    try {
      signal.throwIfAborted();
      const content = body?.content();
      const answer = await fetch(this.#base + path, {
        method,
        // Servers want it with every change, because a page cannot send it without asking.
        headers: { ...this.#headers, ...(method === 'GET' ? {} : { 'content-type': OCTETS }) },
        signal,
        redirect: 'manual',
        credentials: 'omit',
        cache: 'no-store',
        ...(content === undefined ? {} : { body: content as BodyInit, duplex: 'half' }),
      } as RequestInit);
      watch.head();
      await checkRedirect(answer, this.#base);
      if (!answer.ok) throw await refusal(answer, watch);
      return { answer, watch, signal, done };
    } catch (error) {
      done();
      throw this.#failure(error, signal, body);
    }
  }

  /** What a failed request means. */
  #failure(error: unknown, signal: AbortSignal, body?: Body): unknown {
    if (signal.aborted) return signal.reason;
    const source = body?.failure();
    if (source) return source.error;
    if (error instanceof HersError || error instanceof Passing) return error;
    const { code, message = code } = causeOf(error);
    // Browsers do not say why.
    const reason = `: ${message ?? 'is it running, and are pages of this origin allowed (hers serve --cors)?'}`;
    const unavailable = new HersError('UNAVAILABLE', `${this.#base} cannot be reached${reason}`);
    if (code !== undefined && !PASSING.has(code)) return unavailable;
    return new Passing(unavailable, { untouched: code === 'ECONNREFUSED' });
  }

  /** An answer that is well formed and says what it cannot say. */
  #nonsense(): HersError {
    return new HersError('MALFORMED', `what ${this.#base} answers is not from a HERS server`);
  }

  /** One of its own for every request: those that live long would collect what every request hangs on them. */
  #signal(given: AbortSignal | undefined): {
    signal: AbortSignal;
    stop: (reason: unknown) => void;
    done: () => void;
  } {
    const sources = [this.#closing.signal, ...(given ? [given] : [])];
    const either = new AbortController();
    const stop = (event: Event) => either.abort((event.target as AbortSignal).reason);
    for (const source of sources)
      if (source.aborted) either.abort(source.reason);
      else source.addEventListener('abort', stop, { once: true });
    return {
      signal: either.signal,
      stop: (reason) => either.abort(reason),
      done: () => {
        for (const source of sources) source.removeEventListener('abort', stop);
      },
    };
  }

  /** Calls until it works, and gives the whole answer. */
  async #call(
    call: Call,
    options?: CallOptions & { readonly onLost?: () => void },
    when: When = 'always',
  ): Promise<Uint8Array> {
    const { signal, done } = this.#signal(options?.signal);
    const { operation, body, expected } = call;
    try {
      return await this.#retries.run(
        { operation, signal, when: () => (body && !body.repeatable ? 'never' : when) },
        async () => {
          let attempt: Attempt | undefined;
          try {
            attempt = await this.#send(call, options);
            return await wholeAnswer(attempt.answer, attempt.watch, expected.bytes);
          } catch (error) {
            const failure = this.#failure(error, attempt?.signal ?? signal, body);
            if (failure instanceof Passing && !failure.untouched) options?.onLost?.();
            throw failure;
          } finally {
            attempt?.done();
          }
        },
      );
    } finally {
      done();
      await body?.done();
    }
  }

  async #json(call: Call, options?: CallOptions, when?: When): Promise<unknown> {
    return parseAnswer(await this.#call(call, options, when));
  }

  async #nothing(call: Call, options?: CallOptions, when?: When): Promise<void> {
    let lost = false;
    const onLost = () => {
      lost = true;
    };
    try {
      await this.#call(call, { ...options, onLost }, when);
    } catch (error) {
      if (!(lost && error instanceof HersError && (await call.made?.(error)))) throw error;
    }
  }

  /**
   * A stream of things. A line that breaks is taken up again by `ask`, which is told how many were delivered, if it can be. Every attempt is read by a `read` of its own, which is told
   * the same.
   */
  async *#stream<T>(
    operation: string,
    ask: (delivered: number) => Omit<Call, 'operation'> | undefined,
    read: (pieces: AsyncIterable<Uint8Array>, delivered: number) => AsyncIterable<T>,
    options?: CallOptions,
  ): AsyncGenerator<T> {
    const { signal, done } = this.#signal(options?.signal);
    let delivered = 0;
    let breaks = 0;
    let current: { items: AsyncIterator<T>; attempt: Attempt } | undefined;
    try {
      for (;;) {
        const next = await this.#retries.run(
          { operation, signal, when: () => (ask(delivered) ? 'always' : 'never') },
          async () => {
            try {
              if (!current) {
                const call: Call = { operation, ...ask(delivered)! };
                const attempt = await this.#send(call, options);
                const pieces = piecesOf(attempt.answer, attempt.watch, call.expected.bytes);
                current = { items: read(pieces, delivered)[Symbol.asyncIterator](), attempt };
              }
              signal.throwIfAborted();
              return await current.items.next();
            } catch (error) {
              const failure = this.#failure(error, current?.attempt.signal ?? signal);
              if (current && ++breaks > MOST_BREAKS) throw failure instanceof Passing ? failure.error : failure;
              current?.attempt.done();
              current = undefined;
              throw passing(failure);
            }
          },
        );
        if (next.done) return;
        delivered++;
        yield next.value;
      }
    } finally {
      await current?.items.return?.().then(undefined, () => {});
      current?.attempt.done();
      done();
    }
  }

  /** Runs `upload` when fewer than so many run: more at a time would only take memory. */
  async #upload<T>(upload: () => Promise<T>): Promise<T> {
    if (this.#uploads >= UPLOADS) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#uploads++;
    try {
      return await upload();
    } finally {
      this.#uploads--;
      this.#waiting.shift()?.();
    }
  }

  // — collections —

  async createCollection(
    name: string,
    created: { readonly id: Uint8Array; readonly descriptor: Uint8Array; readonly manifest: Uint8Array },
  ): Promise<void> {
    checkNew(name);
    const body = wholeBody(encodeMessage({ name, id: hex(created.id) }, [created.descriptor, created.manifest]));
    const made = async (error: HersError) =>
      error.code === 'ALREADY_EXISTS' && hex((await this.getCollection(name)).id) === hex(created.id);
    const path = '/v1/collections';
    await this.#nothing({ operation: 'createCollection', method: 'POST', path, body, expected: SMALL, made });
  }

  async listCollections(): Promise<CollectionInfo[]> {
    const path = '/v1/collections';
    const answer = await this.#json({ operation: 'listCollections', method: 'GET', path, expected: COLLECTIONS });
    const { collections } = fieldsOf(answer);
    if (!Array.isArray(collections)) throw this.#nonsense();
    return collections.map(decodeInfo);
  }

  async getCollection(name: string): Promise<CollectionInfo> {
    const path = this.#path(name);
    const info = decodeInfo(await this.#json({ operation: 'getCollection', method: 'GET', path, expected: SMALL }));
    if (info.name !== name)
      throw new HersError('INTEGRITY', `the server was asked for ${name}, and describes another collection`);
    return info;
  }

  async deleteCollection(name: string): Promise<void> {
    const made = async (error: HersError) => error.code === 'NOT_FOUND';
    const [path, expected] = [this.#path(name), SMALL_AFTER_WORK];
    await this.#nothing({ operation: 'deleteCollection', method: 'DELETE', path, expected, made });
  }

  // — changes —

  async getManifest(name: string): Promise<{ readonly version: number; readonly manifest: Uint8Array }> {
    const path = this.#path(name, 'manifest');
    const answer = await this.#call({ operation: 'getManifest', method: 'GET', path, expected: MANIFEST });
    const { head, parts } = decodeMessage(answer, 1);
    const { version } = fieldsOf(head);
    if (!isCount(version) || parts.length !== 1) throw this.#nonsense();
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
    return this.#upload(async () => {
      const body = await gatherBody(pieces, options?.signal);
      return this.#stage({ operation: 'stageBlock', method: 'POST', path, body }, options);
    });
  }

  async #stage(call: Omit<Call, 'expected'>, options?: CallOptions): Promise<StageId> {
    const { stage } = fieldsOf(await this.#json({ ...call, expected: SMALL_AFTER_WORK }, options));
    if (!isText(stage, STAGE_LETTERS)) throw this.#nonsense();
    return stage;
  }

  async commit(name: string, change: Change): Promise<number> {
    const path = this.#path(name, 'commit');
    const {
      expected,
      manifest,
      records,
      removed = [],
      blocks,
      sums = [],
      dropped = [],
      lists,
      droppedLists = [],
    } = change;
    const head = {
      expected,
      records,
      blocks,
      lists,
      sums: sums.map(({ part, maxAdditions }) => ({ part, maxAdditions })),
    };
    const body = wholeBody(
      encodeMessage(head, [
        manifest,
        packIds(removed, HANDLE_BYTES, 'a handle'),
        packIds(
          sums.flatMap(({ base, result }) => [base, result]),
          BLOCK_ID_BYTES,
          'a block id',
        ),
        packIds(dropped, BLOCK_ID_BYTES, 'a block id'),
        packIds(droppedLists, LIST_ID_BYTES, 'a list id'),
      ]),
    );
    // Committing the same manifest twice is the same as once, so an answer that was lost is asked for again.
    const call: Call = { operation: 'commit', method: 'POST', path, body, expected: SMALL_AFTER_WORK };
    const { version } = fieldsOf(await this.#json(call));
    if (!isCount(version)) throw this.#nonsense();
    return version;
  }

  // — reading —

  async *getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<SealedRecord> {
    for (const some of parts(handles)) yield* this.#getRecords(name, some, options);
  }

  async *#getRecords(
    name: string,
    handles: readonly Uint8Array[],
    options?: CallOptions,
  ): AsyncGenerator<SealedRecord> {
    const path = this.#path(name, 'records/get');
    const ask = (delivered: number) => ({
      method: 'POST' as const,
      path,
      body: wholeBody(packIds(handles.slice(delivered), HANDLE_BYTES, 'a handle')),
      expected: ITEMS,
    });
    const read = (pieces: AsyncIterable<Uint8Array>, delivered: number) =>
      counted(readItems(pieces, RECORD_BYTES), handles.length - delivered);
    let next = 0;
    for await (const item of this.#stream('getRecords', ask, read, options)) {
      const [handle, sealed] = [item.subarray(0, HANDLE_BYTES), item.subarray(HANDLE_BYTES)];
      const asked = handles[next++];
      if (handle.length !== asked.length || handle.some((byte, i) => byte !== asked[i]))
        throw new HersError('INTEGRITY', 'the server gave another record than it was asked for');
      yield { handle, sealed };
    }
  }

  async *getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<Uint8Array> {
    for (const some of parts(ids)) yield* this.#getLists(name, some, options);
  }

  async *#getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, 'lists/get');
    const ask = (delivered: number) => ({
      method: 'POST' as const,
      path,
      body: wholeBody(packIds(ids.slice(delivered), LIST_ID_BYTES, 'a list id')),
      expected: ITEMS,
    });
    const read = (pieces: AsyncIterable<Uint8Array>, delivered: number) =>
      counted(readItems(pieces, LIST_BYTES), ids.length - delivered);
    yield* this.#stream('getLists', ask, read, options);
  }

  async *getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, `blocks/${hex(blockId)}`);
    const call = { method: 'GET', path, expected: BLOCK } as const;
    const ask = (delivered: number) => (delivered === 0 ? call : undefined);
    yield* this.#stream('getBlock', ask, (pieces) => pieces, options);
  }

  async *search(name: string, request: SearchRequest, options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, 'search');
    const { version, blocks, queries } = request;
    const some = blocks ? [packIds(blocks, BLOCK_ID_BYTES, 'a block id')] : [];
    for (const group of groups(queries)) {
      const body = wholeBody(encodeMessage({ version, ...(blocks ? { some: true } : {}) }, [...some, ...group]));
      const call = { method: 'POST', path, body, expected: ITEMS_OF_WORK } as const;
      for await (const { response, again } of this.#stream('search', () => call, unrepeated(), options))
        if (!again) yield response;
    }
  }

  // — upkeep —

  async purge(name: string, options?: CallOptions): Promise<void> {
    const path = this.#path(name, 'purge');
    await this.#nothing({ operation: 'purge', method: 'POST', path, expected: SMALL_AFTER_WORK }, options);
  }

  async *snapshot(name: string, options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, 'snapshot');
    const call = { method: 'GET', path, expected: ITEMS_OF_WORK } as const;
    const ask = (delivered: number) => (delivered === 0 ? call : undefined);
    yield* this.#stream('snapshot', ask, (pieces) => pieces, options);
  }

  async restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void> {
    this.#checkOpen();
    checkNew(name);
    const path = this.#path(name, 'snapshot');
    const body = await gatherBody(pieces, options?.signal);
    const call: Call = { operation: 'restore', method: 'PUT', path, body, expected: SMALL_AFTER_WORK };
    await this.#nothing(call, options, 'untouched');
  }

  async close(): Promise<void> {
    this.#closing.abort(new HersError('CLOSED', 'this connection is closed'));
  }

  #checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  /** A name that no collection can have must not become another path. */
  #path(name: string, rest?: string): string {
    this.#checkOpen();
    if (!isCollectionName(name)) throw new HersError('NOT_FOUND', `there is no collection ${JSON.stringify(name)}`);
    return rest === undefined ? collectionPath(name) : `${collectionPath(name)}/${rest}`;
  }
}

/** As many as are asked for in one request; one part at least, so that even nothing is asked for. */
function* parts(ids: readonly Uint8Array[]): Generator<readonly Uint8Array[]> {
  if (ids.length <= MOST_IDS) yield ids;
  else for (let at = 0; at < ids.length; at += MOST_IDS) yield ids.slice(at, at + MOST_IDS);
}

function parseUrl(where: string): URL {
  const url = URL.canParse(where) ? new URL(where) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new HersError('INVALID_ARGUMENT', `${JSON.stringify(where)} is not the address of a server`);
  if (url.username || url.password || url.search || url.hash)
    throw new HersError(
      'INVALID_ARGUMENT',
      'the address of a server holds no password, query or fragment; a token goes into the option token',
    );
  return url;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

function checkNew(name: string): void {
  if (!isCollectionName(name))
    throw new HersError(
      'INVALID_ARGUMENT',
      'the name of a collection has 1 to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit',
    );
}

async function* framedRecords(records: Many<SealedRecord>): AsyncGenerator<Uint8Array> {
  for await (const { handle, sealed } of records) {
    if (!(handle instanceof Uint8Array && handle.length === HANDLE_BYTES))
      throw new HersError('INVALID_ARGUMENT', `a handle has ${HANDLE_BYTES} bytes`);
    yield frame(concat(handle, sealed));
  }
}

/** As many queries together as fit, and one at least; with none there is one empty group, which still compares versions. */
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

/** As many items as were asked for. */
async function* counted(items: AsyncIterable<Uint8Array>, count: number): AsyncGenerator<Uint8Array> {
  let left = count;
  for await (const item of items) {
    if (left-- === 0) throw new HersError('INTEGRITY', 'the server gave more than it was asked for');
    yield item;
  }
  if (left > 0) throw new HersError('INTEGRITY', `the server left out ${left} of ${count} things it was asked for`);
}

/**
 * Reads the responses of one search. An answer that broke off is given again from the start, in another order: what an earlier attempt delivered comes `again`. What comes twice in one answer
 * is INTEGRITY, for a server could go on so for ever.
 */
function unrepeated(): (
  pieces: AsyncIterable<Uint8Array>,
) => AsyncGenerator<{ readonly response: Uint8Array; readonly again: boolean }> {
  const earlier = new Set<string>();
  let current = new Set<string>();
  return async function* (pieces) {
    for (const key of current) earlier.add(key);
    current = new Set();
    for await (const response of readItems(pieces, RESPONSE_BYTES)) {
      const { queryId, blockId } = peekResponse(response);
      const key = String.fromCharCode(...queryId, ...blockId);
      if (current.has(key)) throw new HersError('INTEGRITY', 'the server answered twice for one block');
      current.add(key);
      yield { response, again: earlier.has(key) };
    }
  };
}

function isText(value: unknown, most: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= most;
}

/** A stream that ends before its end is a line that broke. */
function passing(error: unknown): unknown {
  return error instanceof HersError && error.code === 'UNAVAILABLE' ? new Passing(error, { untouched: false }) : error;
}

/** What breaks when a server restarts or a line is bad. Names that do not exist and certificates that do not fit stay as they are. */
const PASSING = new Set(
  `ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT ENETUNREACH EHOSTUNREACH EAI_AGAIN
   UND_ERR_SOCKET UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT`.split(/\s+/),
);

/** Node says why a fetch failed; browsers do not. */
function causeOf(error: unknown): { readonly code?: string; readonly message?: string } {
  const { cause } = error as { cause?: { code?: unknown; message?: unknown } };
  if (typeof cause !== 'object' || cause === null) return {};
  // Some quote what the other side sent.
  const text = (value: unknown) => (typeof value === 'string' && value !== '' ? printable(value) : undefined);
  const [code, message] = [text(cause.code), text(cause.message)];
  return { ...((code ?? message) ? { code: code ?? message! } : {}), ...(message ? { message } : {}) };
}
