// Reads what a server answers. It is not trusted: it may want to fill the memory of its clients, or
// to keep them waiting forever.

import { decodeError, HersError, printable } from '@hers/service';
import { choosesEncoding } from '#fetch';
import { type Body, NOTHING_SENT, type Sent } from './http-body.ts';
import { TransientError } from './retry.ts';

export interface Expected {
  /** The most bytes of its body. */
  readonly bytes: number;
  /**
   * The server may work for long before it answers, and between the pieces of a streamed answer.
   */
  readonly works?: boolean;
  /** Passed on piece by piece, so the whole may take any time. */
  readonly streamed?: boolean;
  /** Megabytes: where there is something faster than fetch, that is used. */
  readonly large?: boolean;
  /** Nobody needs a piece of it any more when the next one is asked for. */
  readonly passing?: boolean;
}

/** Descriptions, acknowledgements and errors. */
export const SMALL_BYTES: number = 2 ** 16;
/** A server at work may be silent for this many times the default. */
const AT_WORK = 20;
/**
 * Bytes a second, on average: else a byte now and then would hold a client forever. What is sent
 * goes into buffers on the way, so it is counted by a higher rate.
 */
const MIN_RATE = 2 ** 10;
const MIN_SENDING_RATE = 2 ** 14;
/** Memory reserved because of a stated length; beyond that, only as bytes come. */
const AT_ONCE_BYTES = 2 ** 20;

export interface WatchOptions {
  readonly expected: Expected;
  /** How long a server may be silent by default. */
  readonly quietMs: number;
  readonly body: Body | undefined;
  /** Called with what the server failed to do; ends the request. */
  readonly onLate: (what: string) => void;
}

/**
 * Watches the time of one request. Only time spent waiting for the server counts, not time spent
 * making the body or reading the answer. It is counted in ticks, which do not come while this
 * process is busy, when bytes may have arrived that were not read yet.
 */
export class Watch {
  readonly #options: WatchOptions;
  readonly #tickMs: number;
  readonly #timer: ReturnType<typeof setInterval>;
  #phase: 'head' | 'reading' | 'resting' = 'head';
  /** Sent before the head has come, received after it. */
  #bytes = 0;
  /** Milliseconds since something moved, and in all. */
  #idle = 0;
  #total = 0;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#tickMs = Math.min(1000, options.quietMs / 8);
    this.#timer = setInterval(() => this.#tick(), this.#tickMs);
    // A request keeps a process of Node alive by itself.
    (this.#timer as { unref?: () => void }).unref?.();
  }

  head(): void {
    this.#phase = 'resting';
    this.#bytes = this.#idle = this.#total = 0;
  }

  reads(): void {
    this.#phase = 'reading';
  }

  got(bytes: number): void {
    this.#phase = 'resting';
    this.#bytes += bytes;
    if (bytes > 0) this.#idle = 0;
  }

  end(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    if (this.#phase === 'resting') return;
    const { body, onLate } = this.#options;
    const sent = body?.sent() ?? NOTHING_SENT;
    if (this.#phase === 'head') {
      if (sent.waiting) return;
      if (sent.bytes !== this.#bytes) this.#idle = 0;
      this.#bytes = sent.bytes;
    }
    this.#idle += this.#tickMs;
    this.#total += this.#tickMs;
    const { idle, total } = this.#phase === 'head' ? this.#beforeHead(sent) : this.#afterHead();
    if (this.#idle > idle) onLate(`was silent for ${inSeconds(this.#idle)}`);
    else if (this.#total > total)
      onLate(`${this.#phase === 'head' ? 'takes' : 'sends'} too little at a time: it took ${inSeconds(this.#total)}`);
    else return;
    this.end();
  }

  #beforeHead({ bytes, last }: Sent): { idle: number; total: number } {
    const { expected, quietMs } = this.#options;
    const ms = quietMs * (expected.works ? AT_WORK : 1);
    const perByte = 1000 / MIN_SENDING_RATE;
    return { idle: ms + last * perByte, total: ms + bytes * perByte };
  }

  #afterHead(): { idle: number; total: number } {
    const { expected, quietMs } = this.#options;
    const receiving = (1000 * this.#bytes) / MIN_RATE;
    if (expected.streamed) {
      const ms = quietMs * (expected.works ? AT_WORK : 1);
      return { idle: ms, total: ms + receiving };
    }
    // The work is done when the head comes, and little follows.
    const most = expected.bytes <= SMALL_BYTES ? quietMs : AT_WORK * quietMs;
    return { idle: quietMs, total: Math.min(most, quietMs + receiving) };
  }
}

const inSeconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

/**
 * The pieces of an answer, refused as soon as they are more than `limit` bytes. Leaving early ends
 * the request. Chromium's network panel shows some requests whose answers are read by a reader as
 * ERR_ABORTED, though they were read to their end. It does not with `arrayBuffer()`, which has no
 * limit.
 */
export async function* piecesOf(
  answer: Answered,
  watch: Watch,
  { bytes: limit, passing = false }: Pick<Expected, 'bytes' | 'passing'>,
): AsyncGenerator<Uint8Array> {
  const { body } = answer;
  try {
    checkHead(answer, limit);
  } catch (error) {
    await discard(answer);
    throw error;
  }
  if (!body) return;
  const reader = body.getReader();
  let total = 0;
  try {
    for (;;) {
      watch.reads();
      const { done, value } = await reader.read();
      watch.got(value?.length ?? 0);
      if (done || !value) return;
      total += value.length;
      if (total > limit) throw tooLarge(limit);
      if (value.length > 0) yield value;
      if (passing) reader.free?.(value);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

export async function wholeAnswer(answer: Answered, watch: Watch, limit: number): Promise<Uint8Array> {
  let held = new Uint8Array(Math.min(announced(answer), limit, AT_ONCE_BYTES));
  let filled = 0;
  for await (const piece of piecesOf(answer, watch, { bytes: limit })) {
    if (filled + piece.length > held.length) {
      const larger = new Uint8Array(Math.min(limit, Math.max(2 * held.length, filled + piece.length)));
      larger.set(held);
      held = larger;
    }
    held.set(piece, filled);
    filled += piece.length;
  }
  return held.subarray(0, filled);
}

/** What JSON says; MALFORMED where it is none. */
export function parseAnswer(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new HersError('MALFORMED', 'this answer is not JSON; is it from a HERS server?');
  }
}

/** The fields of an answer, none where it has none. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function checkHead(answer: Answered, limit: number): void {
  if (isCompressed(answer))
    throw new HersError(
      'MALFORMED',
      'this answer is compressed, which nobody asked for; turn compression off in what stands before the server',
    );
  if (announced(answer) > limit) throw tooLarge(limit);
}

/**
 * A few compressed bytes can expand to any number. A page cannot refuse compression, nor always see
 * it: there, the expanded bytes are counted.
 */
function isCompressed({ headers }: Answered): boolean {
  return choosesEncoding && !/^(?:identity)?$/i.test(headers.get('content-encoding') ?? '');
}

function announced({ headers }: Answered): number {
  const length = Number(headers.get('content-length') ?? 0);
  return length > 0 ? length : 0;
}

function tooLarge(limit: number): HersError {
  return new HersError('TOO_LARGE', `this answer is larger than ${limit} bytes, which no HERS server sends`);
}

/** Ends an answer that nobody will read. */
async function discard(answer: Answered): Promise<void> {
  await answer.body?.cancel().catch(() => {});
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Refuses a redirect, which is never followed: the token is for the server that was named. */
export async function checkRedirect(answer: Answered, base: string): Promise<void> {
  // Browsers do not say where it leads.
  if (answer.type !== 'opaqueredirect' && !REDIRECTS.has(answer.status)) return;
  const location = answer.headers.get('location');
  const address = location !== null && URL.canParse(location, base) ? new URL(location, base).href : undefined;
  await discard(answer);
  throw leadsTo(base, address === undefined ? undefined : printable(address));
}

export function leadsTo(base: string, address = 'another address'): HersError {
  return new HersError('INVALID_ARGUMENT', `${base} leads to ${address}; connect to that one if you trust it`);
}

export async function refusal(answer: Answered, watch: Watch): Promise<unknown> {
  let error: HersError | undefined;
  try {
    error = decodeError(parseAnswer(await wholeAnswer(answer, watch, SMALL_BYTES)));
  } catch {}
  error ??= new HersError(
    answer.status === 429 ? 'OVERLOADED' : answer.status >= 500 ? 'UNAVAILABLE' : 'INVALID_ARGUMENT',
    `the server, or something before it, answered ${answer.status} without saying why`,
  );
  if (error.code !== 'OVERLOADED' && error.code !== 'UNAVAILABLE') return error;
  const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN);
  return new TransientError(error, { afterMs: Number.isFinite(seconds) ? 1000 * seconds : undefined, untouched: true });
}

export interface PieceReader {
  /** As `ReadableStreamDefaultReader` does. */
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
  cancel(): Promise<void>;
  /** Frees the memory of a piece that nobody needs any more, where nothing else is in it. */
  free?(piece: Uint8Array): void;
}

/** What fetch gives, and what does the same, as it is read here. */
export interface Answered {
  readonly status: number;
  readonly ok: boolean;
  readonly type: string;
  readonly headers: { get(name: string): string | null };
  readonly body: { getReader(): PieceReader; cancel(): Promise<void> } | null;
}
