// Nodes speak HTTP to each other, as clients do, on a port of their own and with a token that only
// nodes have.

import type { Agent } from 'node:http';
import {
  fetchLarge,
  fieldsOf,
  type HttpOptions,
  HttpService,
  type PieceReader,
  SMALL_BYTES,
  wholeBody,
} from '@hers/client/transport';
import { type RunningServer, type ServeOptions, startServer } from '@hers/server';
import {
  type CallOptions,
  collectionPath,
  decodeError,
  decodeMessage,
  eitherSignal,
  encodeMessage,
  encodeShardSearch,
  Grouped,
  HersError,
  type Message,
  messageParts,
  OCTETS,
  readItemGroups,
  type SearchCallOptions,
  type SearchedShard,
  type StageId,
  withMethods,
} from '@hers/service';
import { encodeShardChange, type ShardChange, type ShardState, type StagedChange } from '@hers/store/stages';
import type { Certified } from './certified.ts';
import type { ShardService } from './shard.ts';

const SMALL_AFTER_WORK = { bytes: SMALL_BYTES, works: true } as const;
const RESPONSE_BYTES = 2 ** 20;
/**
 * A node that is silent for so long counts as gone. Nothing is retried here for longer: the
 * coordinator asks another node.
 */
const QUIET_MS = 2_000;
/** One that scans may be silent for longer. */
const SEARCH_QUIET_MS = 40_000;

export interface ShardsOptions extends Pick<HttpOptions, 'token' | 'insecure'> {
  readonly certified?: Certified;
}

export class HttpShards extends HttpService implements ShardService {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #certified: Certified | undefined;
  readonly #closing = new AbortController();

  constructor(url: string, options: ShardsOptions) {
    const { certified, ...rest } = options;
    const ask = certified && { fetch: (to: string, init: RequestInit) => fetchLarge(to, init, certified()) };
    super(url, { ...rest, ...ask, retryMs: QUIET_MS });
    this.#url = url.replace(/\/+$/, '');
    this.#token = options.token;
    this.#certified = certified;
  }

  async prepare(name: string, change: ShardChange, options?: CallOptions): Promise<StageId> {
    const { head, parts } = decodeMessage(encodeShardChange(change), 5) as Message<object>;
    const partitions = options?.partitions && [...options.partitions];
    const body = wholeBody(encodeMessage({ ...head, partitions }, parts));
    const path = `${collectionPath(name)}/changes`;
    const call = { operation: 'prepare', method: 'POST', path, body, expected: SMALL_AFTER_WORK } as const;
    const { stage } = fieldsOf(await this.connection.json(call));
    if (typeof stage !== 'string') throw this.connection.nonsense();
    return stage;
  }

  async apply(name: string, { change, version, state }: StagedChange): Promise<number> {
    const body = wholeBody(encodeMessage({ change, version, state }, []));
    const path = `${collectionPath(name)}/apply`;
    const call = { operation: 'apply', method: 'POST', path, body, expected: SMALL_AFTER_WORK } as const;
    const { version: now } = fieldsOf(await this.connection.json(call));
    if (typeof now !== 'number') throw this.connection.nonsense();
    return now;
  }

  async getState(name: string, options?: CallOptions): Promise<ShardState> {
    const path = `${collectionPath(name)}/state`;
    const call = { operation: 'getState', method: 'GET', path, expected: { bytes: SMALL_BYTES } } as const;
    const { version, state } = fieldsOf(await this.connection.json(call, options));
    if (typeof version !== 'number' || typeof state !== 'string') throw this.connection.nonsense();
    return { version, state };
  }

  searchShards(
    shards: readonly SearchedShard[],
    queries: readonly Uint8Array[],
    options?: SearchCallOptions,
  ): AsyncIterable<Uint8Array> {
    const { head, parts } = encodeShardSearch(shards, queries);
    return new Grouped(() => this.#search(messageParts(head, parts), options));
  }

  /** An answer that breaks off is for the coordinator to replace. */
  async *#search(
    parts: readonly Uint8Array[],
    options: SearchCallOptions | undefined,
  ): AsyncGenerator<readonly Uint8Array[]> {
    using either = eitherSignal(this.#closing.signal, options?.signal);
    const { signal } = either;
    const question = {
      url: `${this.#url}/v1/shards/search`,
      token: this.#token,
      agent: this.#certified?.(),
      signal,
    };
    yield* readItemGroups(answerTo({ ...question, parts, quietMs: SEARCH_QUIET_MS }), RESPONSE_BYTES);
  }

  override async close(): Promise<void> {
    this.#closing.abort(new HersError('CLOSED', 'this connection is closed'));
    await super.close();
  }

  async drain(node: string, draining: boolean): Promise<void> {
    const body = wholeBody(encodeMessage({ node, draining }, []));
    const path = '/v1/cluster/drain';
    await this.connection.nothing({ operation: 'drain', method: 'POST', path, body, expected: SMALL_AFTER_WORK });
  }

  async setReplicas(collection: string, replicas: number): Promise<void> {
    const body = wholeBody(encodeMessage({ replicas }, []));
    const path = `${collectionPath(collection)}/replicas`;
    await this.connection.nothing({ operation: 'setReplicas', method: 'POST', path, body, expected: SMALL_AFTER_WORK });
  }

  async replace(): Promise<void> {
    throw new HersError('INVALID_ARGUMENT', 'a node replaces its own shards alone');
  }
}

/** Of one token, which all nodes have: their own limits are those of the servers for clients. */
const LIMITS = {
  bodyBytes: 2 ** 28 + 2 ** 20,
  memoryBytes: 2 ** 31,
  scans: 64,
  queue: 1024,
  requests: 2 ** 16,
  requestsPerSecond: 2 ** 20,
  requestSeconds: 600,
  graceSeconds: 2,
};

/** Serves the shards of a node to the others. The store is left open when it closes. */
export function serveShards(
  shards: ShardService,
  options: Pick<ServeOptions, 'host' | 'port' | 'tls' | 'tokens' | 'allowPlaintext' | 'allowAnyone' | 'log'>,
): Promise<RunningServer> {
  return startServer(withMethods(shards, { close: async () => {} }), { ...options, limits: LIMITS, shards });
}

// How one node asks another to search: queries of megabytes go out from where they lie, and the
// pieces of the answer are passed on as they come. `fetch` would copy both several times over, and
// every copy is garbage: for small shards that is more work than the scan.

export interface Question {
  readonly url: string;
  readonly token: string | undefined;
  /** The body, in parts that follow each other. */
  readonly parts: readonly Uint8Array[];
  /** Keeps connections for the next question. */
  readonly agent?: Agent | undefined;
  readonly signal: AbortSignal;
  /** A node that is silent for so long counts as gone. */
  readonly quietMs: number;
}

/** Bytes of an answer that says why there is none. */
const REASON_BYTES = 2 ** 16;

/** The pieces of an answer. UNAVAILABLE if the node is gone or busy, now or in the middle. */
export async function* answerTo({
  url,
  token,
  parts,
  agent,
  quietMs,
  signal: given,
}: Question): AsyncGenerator<Uint8Array> {
  using either = eitherSignal(given);
  const { signal, stop } = either;
  const unreachable = (why: string) => new HersError('UNAVAILABLE', `${url} cannot be reached: ${why}`);
  const ask = (over: Agent | false | undefined) => {
    const headers = { 'content-type': OCTETS, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    return fetchLarge(url, { method: 'POST', headers, body: parts, signal }, over);
  };
  /** Only while the other side is waited for can it be silent. */
  const waited = async <T>(waiting: Promise<T>): Promise<T> => {
    const timer = setTimeout(stop, quietMs, unreachable('it is silent'));
    try {
      return await waiting;
    } finally {
      clearTimeout(timer);
    }
  };
  let reader: PieceReader | undefined;
  try {
    signal.throwIfAborted();
    // A connection that was kept may have been closed at the other end just now.
    const again = (error: unknown) => (isClosed(error) ? ask(false) : Promise.reject(error));
    const { status, body } = await waited(ask(agent).catch(again));
    reader = body!.getReader();
    if (status !== 200) throw await waited(refusal(status, reader));
    for (;;) {
      const { value } = await waited(reader.read());
      if (!value) return;
      yield value;
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw error instanceof HersError ? error : unreachable(causeOf(error).message);
  } finally {
    await reader?.cancel();
  }
}

/** Returns the reason that `fetchLarge` gives. */
const causeOf = (error: unknown) => (error as { cause: Error & { code?: string } }).cause;
const isClosed = (error: unknown) => ['ECONNRESET', 'EPIPE'].includes(causeOf(error).code ?? '');

async function refusal(status: number, pieces: PieceReader): Promise<HersError> {
  let text = Buffer.alloc(0);
  for (let next = await pieces.read(); next.value && text.length <= REASON_BYTES; next = await pieces.read())
    text = Buffer.concat([text, next.value]);
  let error: HersError | undefined;
  try {
    error = decodeError(JSON.parse(text.toString()));
  } catch {}
  // Another node may have less to do.
  if (error && error.code !== 'OVERLOADED') return error;
  return new HersError('UNAVAILABLE', error?.message ?? `a node answered ${status} without saying why`);
}
