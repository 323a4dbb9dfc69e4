// One request on its way through a handler: its body, its signal, and how its answer is sent.

import { Readable } from 'node:stream';
import { HersError, itemPieces, type Message, OCTETS, readMessage } from '@hers/service';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { bodyOf } from './body.ts';
import type { Limits } from './limits.ts';

/** Counts bytes that came and went. */
export interface Traffic {
  received(bytes: number): void;
  sent(bytes: number): void;
}

export class Call {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Ends when the client is gone, or the request has taken too long. */
  readonly signal: AbortSignal;
  readonly limits: Limits;
  readonly #traffic: Traffic;

  constructor(request: FastifyRequest, reply: FastifyReply, signal: AbortSignal, limits: Limits, traffic: Traffic) {
    this.request = request;
    this.reply = reply;
    this.signal = signal;
    this.limits = limits;
    this.#traffic = traffic;
  }

  /** The collection in the path. */
  get name(): string {
    return (this.request.params as { name: string }).name;
  }

  /** FORBIDDEN when the token is for another collection than the one a body names. */
  mayTouch(name: string): void {
    const only = this.request.token?.collection;
    if (only !== undefined && only !== name) throw new HersError('FORBIDDEN', 'this token is for another collection');
  }

  /** The body as it comes. */
  body({ endless = false } = {}): AsyncGenerator<Uint8Array> {
    return bodyOf(this.request.raw, {
      bytes: endless ? undefined : this.limits.bodyBytes,
      stallMs: 1000 * this.limits.stallSeconds,
      onBytes: (bytes) => this.#traffic.received(bytes),
    });
  }

  /** The whole body. */
  async octets(): Promise<Uint8Array> {
    return Buffer.concat(await Array.fromAsync(this.body()));
  }

  /** The body as a message, with a head that fits its schema and as many parts as it must have. */
  async message<Head>(schema: object, parts: { least: number; most: number }): Promise<Message<Head>> {
    const message = await readMessage(this.body());
    const validate = this.request.compileValidationSchema(schema);
    if (!validate(message.head)) {
      const [error] = validate.errors ?? [];
      const where = error?.instancePath ? `${error.instancePath} ` : '';
      throw new HersError('INVALID_ARGUMENT', `the head of this message does not fit: ${where}${error?.message ?? ''}`);
    }
    const { length } = message.parts;
    if (length < parts.least || length > parts.most)
      throw new HersError('MALFORMED', `this message has ${length} parts, not what it should have`);
    return message as Message<Head>;
  }

  /** Answers with a stream. The first piece is waited for, so that what fails at once fails with a status. */
  async stream(pieces: AsyncIterable<Uint8Array>): Promise<FastifyReply> {
    const source = pieces[Symbol.asyncIterator]();
    const first = await source.next();
    this.reply.header('content-type', OCTETS);
    return this.reply.send(Readable.from(this.#paced(first, source), { objectMode: false, highWaterMark: 2 ** 18 }));
  }

  items(items: AsyncIterable<readonly Uint8Array[]>): Promise<FastifyReply> {
    return this.stream(itemPieces(items));
  }

  /** A client that does not read is given up. While this waits in `yield`, it is the client's turn. */
  async *#paced(first: IteratorResult<Uint8Array>, source: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
    const { socket } = this.request.raw;
    try {
      for (let next = first; !next.done; next = await source.next()) {
        const timer = setTimeout(() => socket.destroy(), 1000 * this.limits.stallSeconds);
        try {
          yield next.value;
        } finally {
          clearTimeout(timer);
        }
        this.#traffic.sent(next.value.length);
      }
    } finally {
      await source.return?.();
    }
  }
}
