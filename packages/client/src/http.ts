// A Service at the other end of a line: `hers serve`, spoken to by fetch, from Node or from a page.

import { peekResponse } from '@hers/scheme';
import {
  type CallOptions,
  type Change,
  type CollectionBody,
  type CollectionInfo,
  collectionPath,
  decodeError,
  decodeInfo,
  decodeMessage,
  encodeMessage,
  frame,
  HANDLE_BYTES,
  type HelloBody,
  HersError,
  isCollectionName,
  LIST_ID_BYTES,
  type ManifestHead,
  type Many,
  OCTETS,
  packIds,
  readItems,
  type SealedRecord,
  type SearchRequest,
  type Service,
  type StageBody,
  type StageId,
} from '@hers/service';
import { concat, hex } from './bytes.ts';
import { type Body, gatherBody, wholeBody } from './http-body.ts';
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

type When = 'always' | 'untouched';

interface Call {
  readonly operation: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: Body;
  /** Whether this error, after an attempt whose answer was lost, means that that attempt did what was asked. */
  readonly made?: (error: HersError) => Promise<boolean>;
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
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.#retries = new Retries(options);
  }

  /** Asks the server who it is: an address or a token that is wrong is noticed now and not later. */
  async hello(options?: CallOptions): Promise<HelloBody> {
    const hello = await this.#json<HelloBody>({ operation: 'connect', method: 'GET', path: '/v1' }, options);
    if (hello?.server !== 'hers') throw new HersError('INVALID_ARGUMENT', `${this.#base} is not a HERS server`);
    return hello;
  }

  // — requests —

  /** One attempt, as far as the head of the answer. Whoever gets the answer calls `done` when it is read. */
  async #send({ method, path, body }: Call, options?: CallOptions): Promise<{ answer: Response; done: () => void }> {
    const { signal, done } = this.#signal(options?.signal);
    let answer: Response;
    try {
      signal.throwIfAborted();
      const content = body?.content();
      answer = await fetch(this.#base + path, {
        method,
        headers: { ...this.#headers, ...(body ? { 'content-type': OCTETS } : {}) },
        signal,
        redirect: 'error',
        credentials: 'omit',
        cache: 'no-store',
        ...(content === undefined ? {} : { body: content as BodyInit, duplex: 'half' }),
      } as RequestInit);
    } catch (error) {
      done();
      throw this.#failure(error, signal, body);
    }
    if (answer.ok) return { answer, done };
    try {
      throw await refusal(answer);
    } catch (error) {
      throw this.#failure(error, signal, body);
    } finally {
      done();
    }
  }

  /** What a failed request means. */
  #failure(error: unknown, signal: AbortSignal, body?: Body): unknown {
    if (signal.aborted) return signal.reason;
    const source = body?.failure();
    if (source) return source.error;
    if (error instanceof HersError || error instanceof Passing) return error;
    if (error instanceof SyntaxError)
      return new HersError('MALFORMED', `what ${this.#base} answers is not from a HERS server`);
    const { code, message = code } = causeOf(error);
    // Browsers do not say why.
    const reason = `: ${message ?? 'is it running, and are pages of this origin allowed (hers serve --cors)?'}`;
    const unavailable = new HersError('UNAVAILABLE', `${this.#base} cannot be reached${reason}`);
    if (code !== undefined && !PASSING.has(code)) return unavailable;
    return new Passing(unavailable, { untouched: code === 'ECONNREFUSED' });
  }

  /** One of its own for every request: those that live long would collect what every request hangs on them. */
  #signal(given: AbortSignal | undefined): { signal: AbortSignal; done: () => void } {
    const sources = [this.#closing.signal, ...(given ? [given] : [])];
    const either = new AbortController();
    const stop = (event: Event) => either.abort((event.target as AbortSignal).reason);
    for (const source of sources)
      if (source.aborted) either.abort(source.reason);
      else source.addEventListener('abort', stop, { once: true });
    return {
      signal: either.signal,
      done: () => {
        for (const source of sources) source.removeEventListener('abort', stop);
      },
    };
  }

  /** Calls until it works, and reads the answer with `read`. */
  async #call<T>(
    call: Call,
    read: (answer: Response) => Promise<T>,
    options?: CallOptions & { readonly onLost?: () => void },
    when: When = 'always',
  ): Promise<T> {
    const { signal, done } = this.#signal(options?.signal);
    const { operation, body } = call;
    try {
      return await this.#retries.run(
        { operation, signal, when: () => (body && !body.repeatable ? 'never' : when) },
        async () => {
          let sent: (() => void) | undefined;
          try {
            const attempt = await this.#send(call, options);
            sent = attempt.done;
            return await read(attempt.answer);
          } catch (error) {
            const failure = this.#failure(error, signal, body);
            if (failure instanceof Passing && !failure.untouched) options?.onLost?.();
            throw failure;
          } finally {
            sent?.();
          }
        },
      );
    } finally {
      done();
      await body?.done();
    }
  }

  #json<T>(call: Call, options?: CallOptions, when?: When): Promise<T> {
    return this.#call(call, async (answer) => (await answer.json()) as T, options, when);
  }

  async #nothing(call: Call, options?: CallOptions, when?: When): Promise<void> {
    let lost = false;
    const onLost = () => {
      lost = true;
    };
    try {
      await this.#call(call, async (answer) => void (await answer.arrayBuffer()), { ...options, onLost }, when);
    } catch (error) {
      if (!(lost && error instanceof HersError && (await call.made?.(error)))) throw error;
    }
  }

  /** A stream of things. A line that breaks is taken up again by `ask`, which is told how many were delivered, if it can be. */
  async *#stream<T>(
    operation: string,
    ask: (delivered: number) => Omit<Call, 'operation'> | undefined,
    read: (pieces: AsyncIterable<Uint8Array>) => AsyncIterable<T>,
    options?: CallOptions,
  ): AsyncGenerator<T> {
    const { signal, done } = this.#signal(options?.signal);
    let delivered = 0;
    let breaks = 0;
    let current: { items: AsyncIterator<T>; done: () => void } | undefined;
    try {
      for (;;) {
        const next = await this.#retries.run(
          { operation, signal, when: () => (ask(delivered) ? 'always' : 'never') },
          async () => {
            try {
              if (!current) {
                const { answer, done: sent } = await this.#send({ operation, ...ask(delivered)! }, options);
                current = { items: read(piecesOf(answer))[Symbol.asyncIterator](), done: sent };
              }
              signal.throwIfAborted();
              return await current.items.next();
            } catch (error) {
              const failure = this.#failure(error, signal);
              if (current && ++breaks > MOST_BREAKS) throw failure instanceof Passing ? failure.error : failure;
              current?.done();
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
      current?.done();
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
    await this.#nothing({ operation: 'createCollection', method: 'POST', path: '/v1/collections', body, made });
  }

  async listCollections(): Promise<CollectionInfo[]> {
    const { collections } = await this.#json<{ collections: CollectionBody[] }>({
      operation: 'listCollections',
      method: 'GET',
      path: '/v1/collections',
    });
    return collections.map(decodeInfo);
  }

  async getCollection(name: string): Promise<CollectionInfo> {
    return decodeInfo(await this.#json({ operation: 'getCollection', method: 'GET', path: this.#path(name) }));
  }

  async deleteCollection(name: string): Promise<void> {
    const made = async (error: HersError) => error.code === 'NOT_FOUND';
    await this.#nothing({ operation: 'deleteCollection', method: 'DELETE', path: this.#path(name), made });
  }

  // — changes —

  async getManifest(name: string): Promise<{ readonly version: number; readonly manifest: Uint8Array }> {
    const call: Call = { operation: 'getManifest', method: 'GET', path: this.#path(name, 'manifest') };
    const { head, parts } = await this.#call(call, async (answer) =>
      decodeMessage(new Uint8Array(await answer.arrayBuffer())),
    );
    return { version: (head as ManifestHead).version, manifest: parts[0] };
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

  async #stage(call: Call, options?: CallOptions): Promise<StageId> {
    return (await this.#json<StageBody>(call, options)).stage;
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
    return (await this.#json<{ version: number }>({ operation: 'commit', method: 'POST', path, body })).version;
  }

  // — reading —

  async *getRecords(name: string, handles: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<SealedRecord> {
    const path = this.#path(name, 'records/get');
    const ask = (delivered: number) => ({
      method: 'POST' as const,
      path,
      body: wholeBody(packIds(handles.slice(delivered), HANDLE_BYTES, 'a handle')),
    });
    for await (const item of this.#stream('getRecords', ask, readItems, options))
      yield { handle: item.subarray(0, HANDLE_BYTES), sealed: item.subarray(HANDLE_BYTES) };
  }

  async *getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, 'lists/get');
    const ask = (delivered: number) => ({
      method: 'POST' as const,
      path,
      body: wholeBody(packIds(ids.slice(delivered), LIST_ID_BYTES, 'a list id')),
    });
    yield* this.#stream('getLists', ask, readItems, options);
  }

  async *getBlock(name: string, blockId: Uint8Array, options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, `blocks/${hex(blockId)}`);
    const ask = (delivered: number) => (delivered === 0 ? { method: 'GET' as const, path } : undefined);
    yield* this.#stream('getBlock', ask, (pieces) => pieces, options);
  }

  async *search(name: string, request: SearchRequest, options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, 'search');
    const { version, blocks, queries } = request;
    const some = blocks ? [packIds(blocks, BLOCK_ID_BYTES, 'a block id')] : [];
    for (const group of groups(queries)) {
      const body = wholeBody(encodeMessage({ version, ...(blocks ? { some: true } : {}) }, [...some, ...group]));
      const seen = new Set<string>();
      for await (const response of this.#stream('search', () => ({ method: 'POST', path, body }), readItems, options)) {
        // An answer that broke off is given again from the start, in another order.
        const { queryId, blockId } = peekResponse(response);
        const key = String.fromCharCode(...queryId, ...blockId);
        if (seen.has(key)) continue;
        seen.add(key);
        yield response;
      }
    }
  }

  // — upkeep —

  async purge(name: string, options?: CallOptions): Promise<void> {
    await this.#nothing({ operation: 'purge', method: 'POST', path: this.#path(name, 'purge') }, options);
  }

  async *snapshot(name: string, options?: CallOptions): AsyncGenerator<Uint8Array> {
    const path = this.#path(name, 'snapshot');
    const ask = (delivered: number) => (delivered === 0 ? { method: 'GET' as const, path } : undefined);
    yield* this.#stream('snapshot', ask, (pieces) => pieces, options);
  }

  async restore(name: string, pieces: Many<Uint8Array>, options?: CallOptions): Promise<void> {
    this.#checkOpen();
    checkNew(name);
    const path = this.#path(name, 'snapshot');
    const body = await gatherBody(pieces, options?.signal);
    await this.#nothing({ operation: 'restore', method: 'PUT', path, body }, options, 'untouched');
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

/** The pieces of an answer. Leaving early ends the request. */
async function* piecesOf(answer: Response): AsyncGenerator<Uint8Array> {
  if (!answer.body) return;
  const reader = answer.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** What a refused request is told. */
async function refusal(answer: Response): Promise<unknown> {
  let error: HersError | undefined;
  try {
    error = decodeError(await answer.json());
  } catch {}
  error ??= new HersError(
    answer.status === 429 ? 'OVERLOADED' : answer.status >= 500 ? 'UNAVAILABLE' : 'INVALID_ARGUMENT',
    `the server, or something before it, answered ${answer.status} without saying why`,
  );
  if (error.code !== 'OVERLOADED' && error.code !== 'UNAVAILABLE') return error;
  const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN);
  return new Passing(error, { afterMs: Number.isFinite(seconds) ? 1000 * seconds : undefined, untouched: true });
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
  const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);
  const [code, message] = [text(cause.code), text(cause.message)];
  return { ...((code ?? message) ? { code: code ?? message! } : {}), ...(message ? { message } : {}) };
}
