// A connection to a server: requests by `fetch`, from Node or from a page, with retries, time
// limits, and streams that are resumed where they broke off.

import {
  type CallOptions,
  eitherSignal,
  HersError,
  isLoopback,
  OCTETS,
  type OptionNames,
  printable,
  refuseUnknown,
} from '@hers/service';
import { choosesEncoding, fetchLarge, saysWhy } from '#fetch';
import {
  type Answered,
  checkRedirect,
  type Expected,
  fieldsOf,
  isCount,
  leadsTo,
  parseAnswer,
  piecesOf,
  refusal,
  SMALL_BYTES,
  Watch,
  wholeAnswer,
} from './http-answer.ts';
import { type Body, wholeBody } from './http-body.ts';
import { Retries, type RetryOptions, TransientError } from './retry.ts';

/** Makes a request, as `fetch` does. */
export type Fetch = (url: string, init: RequestInit) => Promise<Answered>;

/** How to speak to a server. */
export interface HttpOptions extends RetryOptions {
  /** The bearer token, as `hers tokens create` printed it. */
  readonly token?: string;
  /** Send the token to another machine over a connection that is not encrypted. */
  readonly insecure?: boolean;
  /**
   * What requests are made with, where that of the platform does not do.
   *
   * @internal
   */
  readonly fetch?: Fetch;
}

export const HTTP_OPTIONS: OptionNames<HttpOptions> = {
  token: true,
  insecure: true,
  fetch: true,
  retryMs: true,
  onRetry: true,
};

/** An answer that breaks off more often than this will not get better. */
const MAX_BREAKS = 10;
const UPLOADS = 4;

type When = 'always' | 'untouched';

export interface Call {
  readonly operation: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: Body;
  readonly expected: Expected;
  /** Whether this error, after an attempt whose answer was lost, means that that one succeeded. */
  readonly made?: (error: HersError) => Promise<boolean>;
}

/** A request whose answer has begun. The caller calls `done` when it has read it. */
interface Attempt {
  readonly answer: Answered;
  readonly base: string;
  readonly watch: Watch;
  readonly signal: AbortSignal;
  readonly done: () => void;
}

export class Connection {
  /** Addresses of the nodes of a cluster, or of one server, without a slash at their ends. */
  readonly #bases: readonly string[];
  #used = 0;
  readonly #headers: Record<string, string>;
  readonly #retries: Retries;
  readonly #fetch: Fetch;
  readonly #fetchLarge: Fetch;
  readonly #closing = new AbortController();
  /** Whether it is known by now that the scheme of the address is the server's. */
  #schemeKnown = false;
  #uploads = 0;
  readonly #queued: (() => void)[] = [];

  constructor(where: string | readonly string[], options: HttpOptions) {
    refuseUnknown(options, HTTP_OPTIONS, 'a connection');
    const urls = (typeof where === 'string' ? [where] : where).map(parseUrl);
    const { token, insecure = false } = options;
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
      throw new HersError('INVALID_ARGUMENT', 'a token has no spaces and no line breaks; copy nothing but the token');
    const exposed = urls.find((url) => url.protocol === 'http:' && !isLoopback(url.hostname));
    if (token !== undefined && exposed && !insecure)
      throw new HersError(
        'INVALID_ARGUMENT',
        `a token sent to ${exposed.origin} could be read on the way; use https, or say insecure: true if the network is safe`,
      );
    this.#bases = urls.map((url) => url.origin + url.pathname.replace(/\/+$/, ''));
    this.#headers = {
      // Ciphertexts cannot be compressed. Browsers do not allow this header.
      ...(choosesEncoding ? { 'accept-encoding': 'identity' } : {}),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    this.#retries = new Retries(options);
    // The platform's own must be called as a function of its own.
    this.#fetch = options.fetch ?? ((...args) => fetch(...args));
    this.#fetchLarge = options.fetch ?? fetchLarge ?? this.#fetch;
  }

  get base(): string {
    return this.#bases[this.#used]!;
  }

  /** The next attempt goes to another node than the one that has failed. */
  #leave(base: string, failure: unknown): void {
    if (failure instanceof TransientError && base === this.base) this.#used = (this.#used + 1) % this.#bases.length;
  }

  checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  close(): void {
    this.#closing.abort(new HersError('CLOSED', 'this connection is closed'));
  }

  /** One attempt, up to the head of the answer. */
  async #send({ method, path, body, expected }: Call, options?: CallOptions): Promise<Attempt> {
    const { signal, stop, done: release } = eitherSignal(this.#closing.signal, options?.signal);
    const { base } = this;
    const onLate = (what: string) =>
      stop(new TransientError(new HersError('UNAVAILABLE', `${base} ${what}`), { untouched: false }));
    const watch = new Watch({ expected, quietMs: this.#retries.quietMs, body, onLate });
    const done = () => {
      watch.end();
      release();
    };
    try {
      signal.throwIfAborted();
      const content = body?.content();
      const isStream = content instanceof ReadableStream;
      const isLarge = expected.large && content instanceof Uint8Array;
      const answer: Answered = await (isLarge ? this.#fetchLarge : this.#fetch)(base + path, {
        method,
        // Servers require this type for every change: a page cannot send it without a CORS check.
        headers: { ...this.#headers, ...(method === 'GET' ? {} : { 'content-type': OCTETS }) },
        signal,
        // Node keeps all of a stream for a redirect that it might follow, unless that is an error.
        ...(isStream ? { redirect: 'error', window: null } : { redirect: 'manual' }),
        credentials: 'omit',
        cache: 'no-store',
        ...(content === undefined ? {} : { body: content as BodyInit, duplex: 'half' }),
      } as RequestInit);
      watch.head();
      this.#schemeKnown = true;
      await checkRedirect(answer, base);
      if (!answer.ok) throw await refusal(answer, watch);
      return { answer, base, watch, signal, done };
    } catch (error) {
      const failure = await this.#checkScheme(this.#failure(error, signal, body), signal);
      this.#leave(base, failure);
      done();
      throw failure;
    }
  }

  /**
   * A server with TLS closes a connection without it, as one that restarts does: that is found out
   * once, before everything is retried in vain.
   */
  async #checkScheme(failure: unknown, signal: AbortSignal): Promise<unknown> {
    const mayBeTls = failure instanceof TransientError && !failure.untouched && this.base.startsWith('http:');
    if (this.#schemeKnown || !mayBeTls || !saysWhy) return failure;
    this.#schemeKnown = true;
    const other = this.base.replace(/^http:/, 'https:');
    if (!(await hasTls(other, signal))) return failure;
    return new HersError('INVALID_ARGUMENT', `${this.base} speaks TLS; its address is ${other}`);
  }

  #failure(error: unknown, signal: AbortSignal, body?: Body): unknown {
    if (signal.aborted) return signal.reason;
    const source = body?.failure();
    if (source) return source.error;
    if (error instanceof HersError || error instanceof TransientError) return error;
    const { code, message = code } = causeOf(error);
    if (message === REDIRECTED) return leadsTo(this.base);
    if (code !== undefined && NOT_TLS.has(code))
      return new HersError(
        'INVALID_ARGUMENT',
        `${this.base} does not speak TLS; if that is meant, its address is ${this.base.replace(/^https:/, 'http:')}`,
      );
    // Browsers do not say why.
    const reason = `: ${message ?? 'is it running, and are pages of this origin allowed (hers serve --cors)?'}`;
    const unavailable = new HersError('UNAVAILABLE', `${this.base} cannot be reached${reason}`);
    if (code !== undefined && !TRANSIENT.has(code)) return unavailable;
    return new TransientError(unavailable, { untouched: code === 'ECONNREFUSED' });
  }

  nonsense(): HersError {
    return new HersError('MALFORMED', `what ${this.base} answers is not from a HERS server`);
  }

  /** Retries until it succeeds, and returns the whole answer. */
  async call(
    call: Call,
    options?: CallOptions & { readonly onLost?: () => unknown },
    when: When = 'always',
  ): Promise<Uint8Array> {
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
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
            if (attempt) this.#leave(attempt.base, failure);
            // A node of a cluster that says UNAVAILABLE may have done it, or may yet do it.
            const isUnsure =
              failure instanceof TransientError && (!failure.untouched || failure.error.code === 'UNAVAILABLE');
            if (isUnsure) options?.onLost?.();
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

  async json(call: Call, options?: CallOptions, when?: When): Promise<unknown> {
    return parseAnswer(await this.call(call, options, when));
  }

  async nothing(call: Call, options?: CallOptions, when?: When): Promise<void> {
    let lost = false;
    try {
      await this.call(call, { ...options, onLost: () => (lost = true) }, when);
    } catch (error) {
      if (!(lost && error instanceof HersError && (await call.made?.(error)))) throw error;
    }
  }

  /**
   * A stream of items. If the connection drops, `ask` makes the request that resumes it after the
   * items that were delivered, or none if that is impossible. `read` is called once per attempt.
   */
  async *stream<T>(
    operation: string,
    ask: (delivered: number) => Omit<Call, 'operation'> | undefined,
    read: (pieces: AsyncIterable<Uint8Array>, delivered: number) => AsyncIterable<T>,
    options?: CallOptions,
  ): AsyncGenerator<T> {
    const { signal, done } = eitherSignal(this.#closing.signal, options?.signal);
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
                const pieces = piecesOf(attempt.answer, attempt.watch, call.expected);
                current = { items: read(pieces, delivered)[Symbol.asyncIterator](), attempt };
              }
              signal.throwIfAborted();
              return await current.items.next();
            } catch (error) {
              const failure = retried(this.#failure(error, current?.attempt.signal ?? signal));
              if (current) this.#leave(current.attempt.base, failure);
              if (current && ++breaks > MAX_BREAKS) throw failure instanceof TransientError ? failure.error : failure;
              current?.attempt.done();
              current = undefined;
              throw failure;
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

  /** Runs `upload` when fewer than UPLOADS run: more at a time would only take memory. */
  async upload<T>(upload: () => Promise<T>): Promise<T> {
    if (this.#uploads >= UPLOADS) await new Promise<void>((resolve) => this.#queued.push(resolve));
    this.#uploads++;
    try {
      return await upload();
    } finally {
      this.#uploads--;
      this.#queued.shift()?.();
    }
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

/** A truncated stream means that the connection dropped: retry it. */
function retried(error: unknown): unknown {
  return error instanceof HersError && error.code === 'UNAVAILABLE'
    ? new TransientError(error, { untouched: false })
    : error;
}

/**
 * Fails when a server restarts or a connection is bad; wrong names and certificates are not here.
 */
const TRANSIENT = new Set(
  `ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT ENETUNREACH EHOSTUNREACH EAI_AGAIN
   UND_ERR_SOCKET UND_ERR_CONNECT_TIMEOUT UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT`.split(/\s+/),
);

/** What Node says of a redirect that is an error. */
const REDIRECTED = 'unexpected redirect';

/** What OpenSSL calls bytes that are no TLS. */
const NOT_TLS: ReadonlySet<string> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);
const PROBE_MS = 2000;

/** Whether an address speaks TLS: something answers there, or shows a certificate at least. */
async function hasTls(address: string, signal: AbortSignal): Promise<boolean> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
  try {
    const answer = await fetch(address, { redirect: 'manual', signal: limited });
    await answer.body?.cancel();
    return true;
  } catch (error) {
    return /CERT|SIGNATURE/.test(causeOf(error).code ?? '');
  }
}

/** Node says why a fetch failed; browsers do not. */
function causeOf(error: unknown): { readonly code?: string; readonly message?: string } {
  const { cause } = error as { cause?: { code?: unknown; message?: unknown } };
  if (typeof cause !== 'object' || cause === null) return {};
  // Some messages quote what the server sent.
  const text = (value: unknown) => (typeof value === 'string' && value !== '' ? printable(value) : undefined);
  const [code, message] = [text(cause.code), text(cause.message)];
  return { ...((code ?? message) ? { code: code ?? message! } : {}), ...(message ? { message } : {}) };
}

/**
 * Makes the one call of a device: posts an envelope, and returns its number. A retry does not put
 * it there twice, because of its nonce.
 */
export async function postEnvelope(
  connection: Connection,
  path: string,
  envelope: Uint8Array,
  options?: CallOptions,
): Promise<number> {
  const expected = { bytes: SMALL_BYTES, works: true };
  const call = { operation: 'post', method: 'POST', path, body: wholeBody(envelope), expected } as const;
  const { number } = fieldsOf(await connection.json(call, options));
  if (!isCount(number)) throw connection.nonsense();
  return number;
}
