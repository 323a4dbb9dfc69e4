// Streams of items, put together into pieces and written as fast as the client takes them. The pieces are used again and again: fresh ones for every answer would keep the
// garbage collector as busy as the scan.

import type { ServerResponse } from 'node:http';
import { encodeError, HersError, ITEM_KIND, OCTETS } from '@hers/service';
import type { FastifyReply } from 'fastify';

/** An item in one or more parts, which follow each other. */
export type ItemParts = readonly Uint8Array[];

/** Enough that the cost of a write does not matter, and little enough that decryption starts early. */
const PIECE_BYTES = 2 ** 17;
const MOST_FREE = 32;
const free: Buffer[] = [];

const takePiece = (bytes: number) =>
  (bytes <= PIECE_BYTES && free.pop()) || Buffer.allocUnsafeSlow(Math.max(bytes, PIECE_BYTES));

function givePiece(piece: Buffer): void {
  if (piece.length === PIECE_BYTES && free.length < MOST_FREE) free.push(piece);
}

export interface SendOptions {
  /** A client that takes nothing for so long is given up. */
  readonly stallMs: number;
  /** Hears when the answer begins, and what was taken. */
  readonly onAnswer: () => void;
  readonly onSent: (bytes: number) => void;
  /** Hears of an error that came too late for a status. */
  readonly onFailure: (error: unknown) => void;
}

/** Nothing is sent before a first piece is full or all is there, so that what fails at once fails with a status; later errors become the last item. */
export async function sendItems(
  reply: FastifyReply,
  batches: AsyncIterable<readonly ItemParts[]>,
  options: SendOptions,
): Promise<FastifyReply> {
  const writer = new ItemWriter(reply, options);
  try {
    for await (const batch of batches)
      for (const parts of batch) {
        const full = writer.put(parts, ITEM_KIND.item);
        if (full) await full;
      }
    await writer.put([], ITEM_KIND.end);
    await writer.end();
  } catch (error) {
    if (!writer.begun) throw error;
    options.onFailure(error);
    if (!reply.raw.destroyed) {
      await writer.put([Buffer.from(JSON.stringify(encodeError(error)))], ITEM_KIND.failed);
      await writer.end();
    }
  } finally {
    writer.release();
  }
  return reply;
}

class ItemWriter {
  readonly #reply: FastifyReply;
  readonly #response: ServerResponse;
  readonly #options: SendOptions;
  #piece = takePiece(0);
  #filled = 0;
  /** The write of the piece before. */
  #writing: Promise<void> = Promise.resolve();
  begun = false;

  constructor(reply: FastifyReply, options: SendOptions) {
    this.#reply = reply;
    this.#response = reply.raw;
    this.#options = options;
  }

  /** Adds an item; what it returns must be waited for. */
  put(parts: ItemParts, kind: number): Promise<void> | undefined {
    let length = 1;
    for (const part of parts) length += part.length;
    if (this.#filled + 4 + length > this.#piece.length)
      return this.#flush(4 + length).then(() => this.#add(parts, length, kind));
    this.#add(parts, length, kind);
    return undefined;
  }

  #add(parts: ItemParts, length: number, kind: number): void {
    const piece = this.#piece;
    let at = piece.writeUInt32LE(length, this.#filled);
    for (const part of parts) {
      piece.set(part, at);
      at += part.length;
    }
    piece[at] = kind;
    this.#filled = at + 1;
  }

  /** Hands the piece over, once the one before is gone, and takes another with room for so many bytes. */
  async #flush(room: number): Promise<void> {
    await this.#writing;
    if (!this.begun) this.#begin();
    const piece = this.#piece;
    // One whose write failed may still be on its way somewhere: it is not used again.
    if (this.#filled > 0) this.#writing = this.#write(piece.subarray(0, this.#filled)).then(() => givePiece(piece));
    // A failure is noticed when the next piece is full, or at the end.
    this.#writing.catch(() => {});
    this.#piece = takePiece(room);
    this.#filled = 0;
  }

  #begin(): void {
    this.begun = true;
    this.#options.onAnswer();
    const { statusCode } = this.#reply;
    const headers = { ...this.#reply.getHeaders(), 'content-type': OCTETS } as Record<string, string>;
    this.#reply.hijack();
    this.#response.writeHead(statusCode, headers);
  }

  #write(bytes: Uint8Array): Promise<void> {
    const response = this.#response;
    return new Promise((resolve, reject) => {
      const gone = () => settle(new HersError('UNAVAILABLE', 'the client is gone'));
      const settle = (error?: Error | null) => {
        clearTimeout(timer);
        response.off('close', gone);
        if (error) return reject(error);
        this.#options.onSent(bytes.length);
        resolve();
      };
      const timer = setTimeout(() => response.destroy(), this.#options.stallMs);
      if (response.destroyed) return gone();
      response.once('close', gone);
      response.write(bytes, settle);
    });
  }

  async end(): Promise<void> {
    await this.#flush(0);
    await this.#writing;
    this.#response.end();
  }

  /** Nothing more will be put. */
  release(): void {
    givePiece(this.#piece);
    this.#piece = Buffer.alloc(0);
  }
}
