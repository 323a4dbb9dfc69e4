// How fetch behaves in Node, and something faster for answers of megabytes: fetch leaves as much
// garbage as it reads several times over, and the engine then collects during every search.

import { Agent, type ClientRequest, type IncomingMessage, request as requestPlainly } from 'node:http';
import { request as requestSecurely } from 'node:https';
import { connect, type NetConnectOpts, type Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { freeBytes } from '@hers/service';
import type { Answered, PieceReader } from './http-answer.ts';

/** Uploads can be streams, over HTTP/1.1. */
export const canStream = true;
/** Node says which encodings it accepts, unless told not to, and shows that of an answer. */
export const choosesEncoding = true;
/** A failure has a cause. */
export const saysWhy = true;

/** What one read takes from a socket at most. */
const READ_BYTES = 2 ** 18;
/** As long as Node's own agents keep a connection that nobody uses. */
const IDLE_MS = 5000;

/**
 * Connections that read into one buffer each, whose content is copied at once: else each read
 * leaves 64 KiB of garbage. TLS has buffers of its own.
 */
class ReusingAgent extends Agent {
  override createConnection(options: NetConnectOpts): Socket {
    const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
    const callback = (bytes: number) => socket.emit('data', buffer.subarray(0, bytes)) || true;
    const socket: Socket = connect({ ...options, onread: { buffer, callback } });
    return socket;
  }
}

const reusing = new ReusingAgent({ keepAlive: true, timeout: IDLE_MS });

/** Read ahead of the reader. */
const AHEAD_BYTES = 2 ** 18;

/** A body may be given in parts, which are sent from where they lie. */
export type Init = Omit<RequestInit, 'body'> & { readonly body?: BodyInit | readonly Uint8Array[] | null };

/**
 * Does what `fetch` would, but follows no redirect and decompresses nothing. An agent of the
 * caller's own may show a certificate; false opens a connection for this request alone.
 */
export function fetchLarge(url: string, init: Init, agent?: Agent | false): Promise<Answered> {
  const { method, signal, body } = init as { method: string; signal: AbortSignal; body?: Content };
  const parts = body === undefined || body instanceof ReadableStream ? [] : [body].flat();
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const headers = {
    ...(init.headers as Record<string, string>),
    ...(parts.length > 0 ? { 'content-length': length } : {}),
  };
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) => reject(new TypeError('the request failed', { cause }));
    const request = url.startsWith('https:')
      ? requestSecurely(url, { method, headers, signal, agent })
      : requestPlainly(url, { method, headers, signal, agent: agent ?? reusing });
    request.on('response', (answer) => resolve(answered(request, answer)));
    // After the answer has begun, its reader hears of it.
    request.on('error', fail);
    request.on('upgrade', (_, socket) => {
      socket.destroy();
      fail(new Error('the server wants to speak something else than HTTP'));
    });
    if (body instanceof ReadableStream) {
      pipeline(body, request).catch(fail);
      return;
    }
    request.cork();
    for (const part of parts) request.write(part);
    request.end();
    request.uncork();
  });
}

type Content = Uint8Array | readonly Uint8Array[] | ReadableStream;

function answered(request: ClientRequest, answer: IncomingMessage): Answered {
  const { statusCode: status = 0, headers } = answer;
  const reader = new IncomingReader(request, answer);
  return {
    status,
    ok: status >= 200 && status < 300,
    type: 'default',
    headers: { get: (name) => headers[name]?.toString() ?? null },
    body: { getReader: () => reader, cancel: () => reader.cancel() },
  };
}

class IncomingReader implements PieceReader {
  readonly #answer: IncomingMessage;
  readonly #pieces: Buffer[] = [];
  #bytes = 0;
  #isOver = false;
  #failure: { readonly cause: unknown } | undefined;
  #wake: (() => void) | undefined;

  constructor(request: ClientRequest, answer: IncomingMessage) {
    this.#answer = answer;
    const failed = (cause: unknown) => {
      this.#failure ??= { cause };
      this.#wake?.();
    };
    answer.on('data', (piece: Buffer) => {
      this.#pieces.push(piece);
      this.#bytes += piece.length;
      if (this.#bytes > AHEAD_BYTES) answer.pause();
      this.#wake?.();
    });
    answer.on('end', () => {
      this.#isOver = true;
      // A server that answers before it has read everything will not read the rest.
      if (!request.writableFinished) request.destroy();
      this.#wake?.();
    });
    answer.on('error', failed);
    answer.on('close', () => {
      if (!this.#isOver) failed(Object.assign(new Error('the answer broke off'), { code: 'ECONNRESET' }));
    });
  }

  async read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array }> {
    for (;;) {
      const value = this.#pieces.shift();
      if (value) {
        this.#bytes -= value.length;
        if (this.#bytes <= AHEAD_BYTES && this.#answer.isPaused()) this.#answer.resume();
        return { done: false, value };
      }
      if (this.#isOver) return { done: true };
      if (this.#failure) throw new TypeError('the answer broke off', this.#failure);
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = undefined;
    }
  }

  /** Nothing else is in the memory of a piece: Node copies each into memory of its own. */
  free(piece: Uint8Array): void {
    freeBytes(piece);
  }

  async cancel(): Promise<void> {
    if (!this.#isOver) this.#answer.destroy();
  }
}
