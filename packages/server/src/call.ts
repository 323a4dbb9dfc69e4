// One request on its way through a handler: its body, its signal, and how its answer is sent.

import { Readable } from 'node:stream';
import { decodeMessage, HersError, type Message, OCTETS } from '@hers/service';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type BodyLimits, bodyOf, wholeBody } from './body.ts';
import { type ItemParts, sendItems } from './items.ts';
import type { Limits } from './limits.ts';
import type { Memory } from './memory.ts';
import type { Token } from './tokens.ts';

/** Counts bytes that came and went. */
export interface Traffic {
  received(bytes: number): void;
  sent(bytes: number): void;
}

export interface CallTools {
  readonly limits: Limits;
  readonly memory: Memory;
  readonly traffic: Traffic;
  /** Hears why an answer ended that had begun. */
  readonly onFailure: (error: unknown) => void;
}

export class Call {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  /** Ends when the client is gone, or the request has taken too long. */
  readonly signal: AbortSignal;
  readonly limits: Limits;
  /** The collection it is about, where that is known. */
  collection: string | undefined;
  /** When the body had come, when the answer was ready to be sent: `performance.now()`. */
  receivedAt: number | undefined;
  answeredAt: number | undefined;
  readonly #memory: Memory;
  readonly #traffic: Traffic;
  readonly #onFailure: CallTools['onFailure'];
  #held = 0;

  constructor(request: FastifyRequest, reply: FastifyReply, signal: AbortSignal, tools: CallTools) {
    this.request = request;
    this.reply = reply;
    this.signal = signal;
    this.limits = tools.limits;
    this.#memory = tools.memory;
    this.#traffic = tools.traffic;
    this.#onFailure = tools.onFailure;
    this.collection = (request.params as { name?: string } | undefined)?.name;
  }

  /** The collection in the path. */
  get name(): string {
    return this.collection!;
  }

  get token(): Token | undefined {
    return this.request.token;
  }

  /** The collection that a body names. FORBIDDEN when the token is for another. */
  touch(name: string): void {
    this.collection = name;
    const only = this.token?.collection;
    if (only !== undefined && only !== name) throw new HersError('FORBIDDEN', 'this token is for another collection');
  }

  /** The body as it comes, passed on at once. */
  stream(): AsyncGenerator<Uint8Array> {
    return bodyOf(
      this.request.raw,
      this.#bodyLimits(undefined, (bytes) => this.#traffic.received(bytes)),
    );
  }

  #bodyLimits(bytes: number | undefined, onBytes: (bytes: number) => void): BodyLimits {
    return { bytes, stallMs: 1000 * this.limits.stallSeconds, signal: this.signal, onBytes };
  }

  /** The whole body, which counts as held in memory until the request is over. */
  async octets(): Promise<Uint8Array> {
    const limits = this.#bodyLimits(this.limits.bodyBytes, (bytes) => {
      this.#traffic.received(bytes);
      this.#memory.take(bytes, this.#held);
      this.#held += bytes;
    });
    const whole = await wholeBody(this.request.raw, limits);
    this.receivedAt = performance.now();
    return whole;
  }

  /** The body as a message, with a head that fits its schema and as many parts as it must have. */
  async message<Head>(schema: object, parts: { least: number; most: number }): Promise<Message<Head>> {
    const message = decodeMessage(await this.octets());
    const validate = this.request.compileValidationSchema(schema);
    if (!validate(message.head)) {
      const [error] = validate.errors ?? [];
      const where = error?.instancePath ? `${error.instancePath} ` : '';
      throw new HersError('INVALID_ARGUMENT', `the head of this message does not fit: ${where}${error?.message ?? ''}`);
    }
    const { length } = message.parts;
    if (length < parts.least || length > parts.most)
      throw new HersError('MALFORMED', `this message has ${length} parts, and should have ${parts.least}`);
    return message as Message<Head>;
  }

  /** Answers with a stream. The first piece is waited for, so that what fails at once fails with a status. */
  async answer(pieces: AsyncIterable<Uint8Array>): Promise<FastifyReply> {
    const source = pieces[Symbol.asyncIterator]();
    const first = await source.next();
    this.answeredAt = performance.now();
    this.reply.header('content-type', OCTETS);
    return this.reply.send(Readable.from(this.#paced(first, source), { objectMode: false, highWaterMark: 2 ** 18 }));
  }

  /** Answers with items, as they come. */
  items(batches: AsyncIterable<readonly ItemParts[]>): Promise<FastifyReply> {
    return sendItems(this.reply, batches, {
      stallMs: 1000 * this.limits.stallSeconds,
      onAnswer: () => {
        this.answeredAt = performance.now();
      },
      onSent: (bytes) => this.#traffic.sent(bytes),
      onFailure: this.#onFailure,
    });
  }

  /** A client that does not read is given up. While this waits in `yield`, it is the client's turn. */
  async *#paced(first: IteratorResult<Uint8Array>, source: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
    const { socket } = this.request.raw;
    const timer = setTimeout(() => socket.destroy(), 1000 * this.limits.stallSeconds);
    try {
      for (let next = first; !next.done; next = await source.next()) {
        timer.refresh();
        yield next.value;
        this.#traffic.sent(next.value.length);
      }
    } finally {
      clearTimeout(timer);
      await source.return?.();
    }
  }

  /** Gives back what it held. */
  end(): void {
    this.#memory.give(this.#held);
    this.#held = 0;
  }
}
