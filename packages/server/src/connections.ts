// Lines to clients: which are open, which have a request under way, and those that never say anything sensible.

import type { Socket } from 'node:net';
import { HersError } from '@hers/service';
import { JSON_TYPE, refusalOf } from './errors.ts';

/** For the last bytes of the last answers. */
const FLUSH_MS = 100;

/** Open connections, and which of them have a request under way. */
export class Connections {
  readonly #requests = new Map<Socket, number>();
  readonly #bare = new Set<Socket>();
  #running = 0;
  #closing = false;
  #idle: (() => void) | undefined;

  get size(): number {
    return this.#requests.size;
  }

  get requests(): number {
    return this.#running;
  }

  add(socket: Socket): void {
    if (this.#closing) {
      socket.destroy();
      return;
    }
    this.#requests.set(socket, 0);
    socket.once('close', () => this.#requests.delete(socket));
  }

  /** One that may never become a connection. */
  addBare(socket: Socket): void {
    this.#bare.add(socket);
    socket.once('close', () => this.#bare.delete(socket));
  }

  began(socket: Socket): void {
    this.#running++;
    this.#requests.set(socket, (this.#requests.get(socket) ?? 0) + 1);
  }

  ended(socket: Socket): void {
    this.#running--;
    const left = (this.#requests.get(socket) ?? 1) - 1;
    if (this.#requests.has(socket)) this.#requests.set(socket, left);
    if (!this.#closing) return;
    if (left === 0) socket.destroySoon();
    if (this.#running === 0) this.#idle?.();
  }

  /** Connections without a request go at once, the others when theirs is answered, and all of them after `ms`. */
  async drain(ms: number): Promise<void> {
    this.#closing = true;
    for (const [socket, running] of this.#requests) if (running === 0) socket.destroy();
    if (this.#running > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        this.#idle = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    if (this.#running > 0) for (const socket of this.#requests.keys()) socket.destroy();
    // What was answered last may still be on its way.
    if (this.#bare.size > 0) await new Promise((resolve) => setTimeout(resolve, FLUSH_MS));
    for (const socket of this.#bare) socket.destroy();
  }
}

/** Answers what is not even HTTP, or comes too slowly to become it; returns the code. */
export function refuseSocket(error: Error & { code?: string }, socket: Socket): string {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return 'BROKEN_OFF';
  }
  const [status, text, reason] =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? [408, 'Request Timeout', new HersError('TIMED_OUT', 'the head of this request came too slowly')]
      : error.code === 'HPE_HEADER_OVERFLOW'
        ? [431, 'Request Header Fields Too Large', new HersError('TOO_LARGE', 'the head of this request is too large')]
        : [400, 'Bad Request', new HersError('MALFORMED', 'this is not a request of HTTP/1.1')];
  const { body } = refusalOf(reason);
  const json = JSON.stringify(body);
  socket.end(
    `HTTP/1.1 ${status} ${text}\r\ncontent-type: ${JSON_TYPE}\r\ncontent-length: ${Buffer.byteLength(json)}\r\nconnection: close\r\n\r\n${json}`,
  );
  return body.code;
}
