// One request on its way through a handler: its body, its signal, and how its answer is sent.

import {
  type CallOptions,
  decodeMessage,
  freeBytes,
  HersError,
  ID_COST,
  type Many,
  type Message,
  type Partitions,
  unpackIds,
} from '@hers/service';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Answer, type BodyLimits, bodyOf, wholeBody } from './body.ts';
import type { Guest } from './guests.ts';
import { type ItemParts, type Piece, type SendOptions, sendItems, sendPieces } from './items.ts';
import type { Limits } from './limits.ts';
import type { Token } from './tokens.ts';

/** Counts bytes that came and went. */
export interface Traffic {
  received(bytes: number): void;
  sent(bytes: number): void;
}

export interface CallTools {
  readonly limits: Limits;
  readonly traffic: Traffic;
  /** What a large body waits for now and then, if anything. */
  readonly courtesy: () => Promise<void> | undefined;
  /** Hears why an answer ended that had begun. */
  readonly onFailure: (error: unknown) => void;
}

const NOTHING = new Uint8Array(0);

/**
 * A large body rests after so many bytes, which are less than most pieces: one that comes in tiny
 * ones would rest for hours.
 */
const REST_BYTES = 2 ** 15;

export class Call {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly guest: Guest;
  readonly limits: Limits;
  collection: string | undefined;
  /** When the body had come, when the answer was ready to be sent: `performance.now()`. */
  receivedAt: number | undefined;
  answeredAt: number | undefined;
  readonly #traffic: Traffic;
  readonly #courtesy: CallTools['courtesy'];
  readonly #onFailure: CallTools['onFailure'];
  #streams = false;
  #whole: Uint8Array = NOTHING;

  constructor(request: FastifyRequest, reply: FastifyReply, guest: Guest, tools: CallTools) {
    this.request = request;
    this.reply = reply;
    this.guest = guest;
    this.limits = tools.limits;
    this.#traffic = tools.traffic;
    this.#courtesy = tools.courtesy;
    this.#onFailure = tools.onFailure;
    this.collection = (request.params as { name?: string } | undefined)?.name;
  }

  get name(): string {
    return this.collection!;
  }

  get token(): Token | undefined {
    return this.request.token;
  }

  /** Ends when the client is gone, the request has taken too long, or had to make room. */
  get signal(): AbortSignal {
    return this.guest.ending.signal;
  }

  /** For the Service: when to stop, who counts memory, and what the token is limited to. */
  get options(): Required<CallOptions> {
    return { signal: this.signal, hold: this.hold, partitions: this.partitions };
  }

  /** The partitions that the token is limited to, if it is. */
  get partitions(): Partitions | undefined {
    const partitions = this.token?.partitions;
    return partitions && new Set(partitions);
  }

  readonly hold = (bytes: number): void => this.guest.hold.take(bytes);

  /** The collection that a body names. FORBIDDEN when the token is for another. */
  touch(name: string): void {
    this.collection = name;
    const only = this.token?.collection;
    if (only !== undefined && only !== name) throw new HersError('FORBIDDEN', 'this token is for another collection');
  }

  /** The body as it comes, passed on at once: who reads it copies what is kept of a piece. */
  stream(): AsyncGenerator<Uint8Array> {
    const limits = this.#bodyLimits(undefined);
    let unrested = 0;
    const onBytes = (bytes: number) => {
      limits.onBytes?.(bytes);
      unrested += bytes;
    };
    const rest = () => {
      if (unrested < REST_BYTES) return undefined;
      unrested = 0;
      return this.#courtesy();
    };
    return bodyOf(this.request.raw, { ...limits, onBytes, rest });
  }

  #bodyLimits(bytes: number | undefined): BodyLimits {
    const onBytes = (came: number) => this.#traffic.received(came);
    const { pace, hold } = this.guest;
    const litter = (left: number) => hold.litter(left);
    return { bytes, stallMs: 1000 * this.limits.stallSeconds, signal: this.signal, pace, onBytes, litter };
  }

  /** The whole body, which counts as held in memory until the request is over. */
  async octets(): Promise<Uint8Array> {
    const limits = this.#bodyLimits(this.limits.bodyBytes);
    this.#whole = await wholeBody(this.request.raw, limits, this.hold);
    this.receivedAt = performance.now();
    return this.#whole;
  }

  /** Frees the body, with all views of it, which nobody may use any more (docs/tuning.md). */
  freeBody(): void {
    const { length } = this.#whole;
    if (length > 0 && freeBytes(this.#whole)) this.guest.hold.gave(length);
    this.#whole = NOTHING;
  }

  /** The body as a message, with a head that fits its schema and at most so many parts. */
  async message<Head>(schema: object, most: number): Promise<Message<Head>> {
    const message = decodeMessage(await this.octets(), most);
    const validate = this.request.compileValidationSchema(schema);
    if (!validate(message.head)) {
      const [error] = validate.errors ?? [];
      const where = error?.instancePath ? `${error.instancePath} ` : '';
      throw new HersError('INVALID_ARGUMENT', `the head of this message does not fit: ${where}${error?.message ?? ''}`);
    }
    return message as Message<Head>;
  }

  /** Ids out of a body: what they unpack to is many times their bytes. */
  readonly unpack = (bytes: Uint8Array, length: number, what: string): Uint8Array[] => this.ids(bytes, length, what);

  ids(bytes: Uint8Array, length: number, what: string, most: number = Number.POSITIVE_INFINITY): Uint8Array[] {
    const count = bytes.length / length;
    if (count > most) throw new HersError('TOO_LARGE', `${count} at a time are too many; ask for ${most} at most`);
    this.guest.hold.takeWithin(ID_COST * count, `${count} ids`);
    return unpackIds(bytes, length, what);
  }

  /** Whether the answer is a stream, which knows itself when to end. */
  get streams(): boolean {
    return this.#streams;
  }

  #answer(): Answer {
    this.#streams = true;
    return new Answer(this.reply, {
      stallMs: 1000 * this.limits.stallSeconds,
      pace: this.guest.pace,
      signal: this.signal,
      onBegin: () => {
        this.answeredAt = performance.now();
      },
      onSent: (bytes) => this.#traffic.sent(bytes),
    });
  }

  /**
   * Answers with a stream. Its first piece is waited for, so that what fails at once fails with a
   * status.
   */
  async pieces(pieces: Many<Uint8Array>): Promise<FastifyReply> {
    const answer = this.#answer();
    try {
      for await (const piece of pieces) await answer.write(piece);
      answer.end();
    } catch (error) {
      if (!answer.begun) throw error;
      this.#onFailure(error);
      answer.breakOff();
    }
    return this.reply;
  }

  items(batches: AsyncIterable<readonly ItemParts[]>): Promise<FastifyReply> {
    return this.#send((answer, options) => sendItems(answer, batches, options));
  }

  itemPieces(pieces: AsyncIterable<Piece>): Promise<FastifyReply> {
    return this.#send((answer, options) => sendPieces(answer, pieces, options));
  }

  async #send(send: (answer: Answer, options: SendOptions) => Promise<void>): Promise<FastifyReply> {
    const answer = this.#answer();
    try {
      const reserve = (bytes: number) => this.guest.hold.reserve(bytes);
      await send(answer, { reserve, onFailure: this.#onFailure });
    } catch (error) {
      if (!answer.begun) throw error;
      // Not even the error could be told.
      answer.breakOff();
    }
    return this.reply;
  }
}
