// An answer of octets on its way to a client: a piece at a time, and the next when the one before
// was taken. Who takes them too slowly is given up.

import type { ServerResponse } from 'node:http';
import { HersError, OCTETS } from '@hers/service';
import type { FastifyReply } from 'fastify';
import type { Pace } from './pace.ts';

export interface AnswerOptions {
  /** A client that takes nothing for so long is given up. */
  readonly stallMs: number;
  readonly pace: Pace;
  /** Ends it where it is. */
  readonly signal: AbortSignal;
  /** Hears when it begins, and what was taken. */
  readonly onBegin: () => void;
  readonly onSent: (bytes: number) => void;
}

export class Answer {
  readonly #reply: FastifyReply;
  readonly #response: ServerResponse;
  readonly #options: AnswerOptions;
  /** From then on its status is sent. */
  begun = false;

  constructor(reply: FastifyReply, options: AnswerOptions) {
    this.#reply = reply;
    this.#response = reply.raw;
    this.#options = options;
  }

  /** The connection is closed. */
  get gone(): boolean {
    return this.#response.destroyed;
  }

  #begin(): void {
    this.begun = true;
    this.#options.onBegin();
    const { statusCode } = this.#reply;
    const headers = { ...this.#reply.getHeaders(), 'content-type': OCTETS } as Record<string, string>;
    this.#reply.hijack();
    this.#response.writeHead(statusCode, headers);
  }

  /** Resolves when the client has taken it. */
  write(bytes: Uint8Array): Promise<void> {
    if (!this.begun) this.#begin();
    const response = this.#response;
    const { stallMs, pace, signal, onSent } = this.#options;
    return new Promise((resolve, reject) => {
      const gone = (): Error => (signal.aborted ? signal.reason : new HersError('UNAVAILABLE', 'the client is gone'));
      const closed = () => settle(gone());
      const stop = () => response.destroy();
      const settle = (error?: Error | null) => {
        clearTimeout(timer);
        response.off('close', closed);
        signal.removeEventListener('abort', stop);
        pace.moved(error ? 0 : bytes.length);
        if (!error && pace.isTooSlow(stallMs)) response.destroy();
        if (error) return reject(error instanceof HersError ? error : gone());
        onSent(bytes.length);
        resolve();
      };
      const timer = setTimeout(stop, stallMs);
      if (response.destroyed) return closed();
      response.once('close', closed);
      signal.addEventListener('abort', stop, { once: true });
      pace.wait();
      response.write(bytes, settle);
    });
  }

  end(): void {
    if (!this.begun) this.#begin();
    this.#response.end();
  }

  /** It cannot be finished: the client must notice. */
  breakOff(): void {
    this.#response.destroy();
  }
}
