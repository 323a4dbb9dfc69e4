// How one node asks another to search: queries of megabytes go out from where they lie, and the
// pieces of the answer are passed on as they come. `fetch` would copy both several times over, and
// every copy is garbage: for small shards that is more work than the scan.

import { type Agent, type ClientRequest, type IncomingMessage, request as plainly } from 'node:http';
import { request as securely } from 'node:https';
import { decodeError, HersError, OCTETS } from '@hers/service';

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
