// Connections to clients: which are open, which have a request under way, and those that never say
// anything sensible.

import type { Socket } from 'node:net';
import { HersError } from '@hers/service';
import { JSON_TYPE, refusalOf } from './errors.ts';
import { half } from './limits.ts';

/** For the last bytes of the last answers. */
const FLUSH_MS = 100;

/**
 * The connections of one address: those without a request under way, the longest quiet first, and
 * the others.
 */
interface Address {
  readonly quiet: Set<Socket>;
  count: number;
}

/** TCP and TLS see one connection as two sockets, which have this in common. */
const endpointOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;

/**
 * Open connections, and which of them have a request under way. There are so many at most, and half
 * of them from one address; whoever comes then takes the place of one that has no request under
 * way, so that nobody can shut others out by saying nothing.
 */
export class Connections {
  readonly #limit: number;
  readonly #requests = new Map<Socket, number>();
  /** With a request whose answer is not ready. */
  readonly #unanswered = new Set<Socket>();
  readonly #bare = new Set<Socket>();
  readonly #addresses = new Map<string, Address>();
  readonly #sockets = new Map<string, Socket>();
  #running = 0;
  #closing = false;
  #idle: (() => void) | undefined;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#requests.size;
  }

  get requests(): number {
    return this.#running;
  }

  arrived(socket: Socket): void {
    const { remoteAddress } = socket;
    // Gone already.
    if (remoteAddress === undefined) return;
    let address = this.#addresses.get(remoteAddress);
    if (!address) this.#addresses.set(remoteAddress, (address = { quiet: new Set(), count: 0 }));
    const { quiet } = address;
    const endpoint = endpointOf(socket);
    this.#bare.add(socket);
    this.#sockets.set(endpoint, socket);
    address.count++;
    socket.once('close', () => {
      this.#bare.delete(socket);
      if (this.#sockets.get(endpoint) === socket) this.#sockets.delete(endpoint);
      quiet.delete(socket);
      if (--address.count === 0) this.#addresses.delete(remoteAddress);
    });
    if (address.count > half(this.#limit)) dropOne(address, socket);
    else if (this.#bare.size > this.#limit) dropOne(this.#busiest(), socket);
    if (!socket.destroyed) quiet.add(socket);
  }

  #busiest(): Address {
    let busiest: Address | undefined;
    for (const address of this.#addresses.values()) if (!busiest || address.count > busiest.count) busiest = address;
    return busiest!;
  }

  /** One that can carry requests. */
  add(socket: Socket): void {
    if (this.#closing) {
      socket.destroy();
      return;
    }
    this.#requests.set(socket, 0);
    socket.once('close', () => this.#requests.delete(socket));
  }

  /** Whether a request is under way on a connection, as `arrived` knows it. */
  #mark(socket: Socket, isQuiet: boolean): void {
    const bare = this.#sockets.get(endpointOf(socket));
    const quiet = this.#addresses.get(socket.remoteAddress ?? '')?.quiet;
    if (!bare || bare.destroyed || !quiet) return;
    if (isQuiet) quiet.add(bare);
    else quiet.delete(bare);
  }

  /**
   * Whether a connection has a request that is not answered yet, or answers that the client has not
   * taken. One may be on its way: its client has it before we know.
   */
  isBusy(socket: Socket): boolean {
    return this.#unanswered.has(socket) || (this.#requests.get(socket) ?? 0) > 1;
  }

  /** What is left is up to the client: such a connection may have to make room. */
  answered(socket: Socket): void {
    this.#unanswered.delete(socket);
    this.#mark(socket, true);
  }

  began(socket: Socket): void {
    this.#running++;
    this.#unanswered.add(socket);
    this.#requests.set(socket, (this.#requests.get(socket) ?? 0) + 1);
    this.#mark(socket, false);
  }

  ended(socket: Socket): void {
    this.#running--;
    this.#unanswered.delete(socket);
    const left = (this.#requests.get(socket) ?? 1) - 1;
    if (this.#requests.has(socket)) this.#requests.set(socket, left);
    if (left === 0) this.#mark(socket, true);
    if (!this.#closing) return;
    if (left === 0) socket.destroySoon();
    if (this.#running === 0) this.#idle?.();
  }

  /**
   * Connections without a request go at once, the others when theirs is answered, and all of them
   * after `ms`.
   */
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

/**
 * Ends the connection that has been quiet for longest, or, where all are busy, the one that has
 * just come.
 */
function dropOne({ quiet }: Address, newest: Socket): void {
  const [longest = newest] = quiet;
  quiet.delete(longest);
  longest.destroy();
}

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
