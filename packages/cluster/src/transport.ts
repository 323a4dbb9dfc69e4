// Nodes speak HTTP to each other, as clients do, on a port of their own and with a token that only
// nodes have.

import { Agent, type ClientRequest, type IncomingMessage, request as plainly } from 'node:http';
import { Agent as SecureAgent, request as securely } from 'node:https';
import { fieldsOf, type HttpOptions, HttpService, SMALL_BYTES, wholeBody } from '@hers/client/transport';
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
  readonly #agent: Agent;
  /** Those that show a certificate, where nodes have one. */
  readonly #certified: Certified | undefined;
  readonly #closing = new AbortController();

  constructor(url: string, options: ShardsOptions) {
    const { certified, ...rest } = options;
    super(url, { ...rest, ...(certified ? { fetch: certified.fetch } : {}), retryMs: QUIET_MS });
    this.#url = url.replace(/\/+$/, '');
    this.#token = options.token;
    this.#certified = certified;
    this.#agent = new (url.startsWith('https:') ? SecureAgent : Agent)({ keepAlive: true });
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
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
    const question = {
      url: `${this.#url}/v1/shards/search`,
      token: this.#token,
      agent: this.#certified?.agent() ?? this.#agent,
      signal,
    };
    try {
      yield* readItemGroups(answerTo({ ...question, parts, quietMs: SEARCH_QUIET_MS }), RESPONSE_BYTES);
    } finally {
      done();
    }
  }

  override async close(): Promise<void> {
    this.#closing.abort(new HersError('CLOSED', 'this connection is closed'));
    this.#agent.destroy();
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
  readonly agent: Agent;
  readonly signal: AbortSignal;
  /** A node that is silent for so long counts as gone. */
  readonly quietMs: number;
}

/** Bytes of an answer that says why there is none. */
const REASON_BYTES = 2 ** 16;

/** The pieces of an answer. UNAVAILABLE if the node is gone or busy, now or in the middle. */
export async function* answerTo(question: Question): AsyncGenerator<Uint8Array> {
  const { signal } = question;
  const watch = new Silence(question.quietMs);
  let answer: IncomingMessage | undefined;
  try {
    signal.throwIfAborted();
    answer = await watch.over(post(question, watch));
    if (answer.statusCode !== 200) throw await refusal(answer);
    const pieces: AsyncIterator<Buffer> = answer[Symbol.asyncIterator]();
    for (;;) {
      const { done, value } = await watch.over(pieces.next());
      if (done) return;
      yield value;
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof HersError) throw error;
    const why = watch.isLate ? 'it is silent' : (error as Error).message;
    throw new HersError('UNAVAILABLE', `${question.url} cannot be reached: ${why}`);
  } finally {
    watch.end();
    if (answer && !answer.readableEnded) answer.destroy();
  }
}

/** Ends a request during which the other side says nothing for too long, while it is waited for. */
class Silence {
  readonly #ms: number;
  #timer: NodeJS.Timeout | undefined;
  request: ClientRequest | undefined;
  isLate = false;

  constructor(ms: number) {
    this.#ms = ms;
  }

  async over<T>(waiting: Promise<T>): Promise<T> {
    this.#timer = setTimeout(() => {
      this.isLate = true;
      this.request?.destroy();
    }, this.#ms);
    try {
      return await waiting;
    } finally {
      this.end();
    }
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

async function post(question: Question, watch: Silence): Promise<IncomingMessage> {
  try {
    return await attempt(question, watch, question.agent);
  } catch (error) {
    // A connection that was kept may have been closed at the other end just now.
    const mayBeClosed = watch.request?.reusedSocket && isClosed(error);
    if (question.signal.aborted || watch.isLate || !mayBeClosed) throw error;
    return attempt(question, watch, false);
  }
}

const isClosed = (error: unknown) => ['ECONNRESET', 'EPIPE'].includes(String((error as { code?: unknown }).code));

/** Up to the head of the answer. */
function attempt(
  { url, token, parts, signal }: Question,
  watch: Silence,
  agent: Agent | false,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const send = url.startsWith('https:') ? securely : plainly;
    const headers = {
      'content-type': OCTETS,
      'content-length': parts.reduce((sum, { length }) => sum + length, 0),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    const request = send(url, { method: 'POST', headers, agent, signal });
    watch.request = request;
    request.on('response', resolve);
    request.on('error', reject);
    request.cork();
    for (const part of parts) request.write(part);
    request.end();
    request.uncork();
  });
}

/** The error that a node refused a question with. */
async function refusal(answer: IncomingMessage): Promise<HersError> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > REASON_BYTES) break;
    pieces.push(piece);
  }
  let error: HersError | undefined;
  try {
    error = decodeError(JSON.parse(Buffer.concat(pieces).toString()));
  } catch {}
  // Another node may have less to do.
  if (error && error.code !== 'OVERLOADED') return error;
  return new HersError('UNAVAILABLE', error?.message ?? `a node answered ${answer.statusCode} without saying why`);
}
