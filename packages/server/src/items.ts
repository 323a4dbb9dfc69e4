// Streams of items, put together into pieces and written as fast as the client takes them. The
// pieces are used again and again: fresh ones for every answer would keep the garbage collector as
// busy as the scan.

import { encodeError, freeBytes, ITEM_KIND } from '@hers/service';
import type { Answer } from './body.ts';

/** An item in one or more parts, which follow each other. */
export type ItemParts = readonly Uint8Array[];

export type Piece = Buffer<ArrayBuffer>;

/**
 * Enough that the cost of a write does not matter, and little enough that decryption starts early.
 */
const PIECE_BYTES = 2 ** 17;
/** Pieces that are kept for others (docs/tuning.md). */
const MAX_FREE = 64;
const free: Piece[] = [];

/** Takes back what nobody else has any more. What is not kept is freed at once, not collected. */
function givePiece({ buffer }: Piece): void {
  if (free.length < MAX_FREE) free.push(Buffer.from(buffer));
  else freeBytes(new Uint8Array(buffer));
}

/** Items laid into pieces, which begin and end anywhere in an item. */
export class Pieces {
  #full: Piece[] = [];
  #piece: Piece | undefined;
  #filled = 0;

  /** Copies an item; returns how many bytes that takes. */
  put(parts: ItemParts, kind: number): number {
    const length = this.begin(parts);
    for (const part of parts) this.add(part);
    this.end(kind);
    return 4 + length;
  }

  // The same in steps, for items that are larger than a piece.

  begin(parts: ItemParts): number {
    let length = 1;
    for (const part of parts) length += part.length;
    if (this.#filled + 4 > PIECE_BYTES) this.finish();
    this.#filled = this.#open().writeUInt32LE(length, this.#filled);
    return length;
  }

  add(part: Uint8Array): void {
    for (let at = 0; at < part.length; ) {
      const piece = this.#open();
      const use = Math.min(part.length - at, PIECE_BYTES - this.#filled);
      piece.set(use === part.length ? part : part.subarray(at, at + use), this.#filled);
      this.#filled += use;
      at += use;
    }
  }

  end(kind: number): void {
    this.#open()[this.#filled++] = kind;
  }

  #open(): Piece {
    if (this.#filled === PIECE_BYTES) this.finish();
    this.#piece ??= free.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);
    return this.#piece;
  }

  /** What is there can be taken, though it does not fill a piece. */
  finish(): void {
    if (this.#piece) this.#full.push(this.#piece.subarray(0, this.#filled));
    this.#piece = undefined;
    this.#filled = 0;
  }

  get isReady(): boolean {
    return this.#full.length > 0;
  }

  take(): Piece | undefined {
    return this.#full.shift();
  }

  /** Nobody will take what is left. */
  release(): void {
    this.finish();
    for (const piece of this.#full) givePiece(piece);
    this.#full = [];
  }
}

export interface SendOptions {
  readonly reserve: (bytes: number) => void;
  readonly onFailure: (error: unknown) => void;
}

export function sendItems(
  answer: Answer,
  batches: AsyncIterable<readonly ItemParts[]>,
  options: SendOptions,
): Promise<void> {
  return sendPieces(answer, inPieces(batches), options);
}

async function* inPieces(batches: AsyncIterable<readonly ItemParts[]>): AsyncGenerator<Piece> {
  const pieces = new Pieces();
  let isBegun = false;
  try {
    for await (const batch of batches)
      for (const parts of batch) {
        pieces.begin(parts);
        for (const part of parts)
          for (let at = 0; at < part.length; at += PIECE_BYTES) {
            pieces.add(part.subarray(at, at + PIECE_BYTES));
            for (let piece = pieces.take(); piece; piece = pieces.take()) {
              isBegun = true;
              yield piece;
            }
          }
        pieces.end(ITEM_KIND.item);
      }
    pieces.put([], ITEM_KIND.end);
    yield* rest(pieces);
  } catch (error) {
    // What came before it is sent before it, if anything was.
    if (isBegun) yield* rest(pieces);
    throw error;
  } finally {
    pieces.release();
  }
}

function* rest(pieces: Pieces): Generator<Piece> {
  pieces.finish();
  for (let piece = pieces.take(); piece; piece = pieces.take()) yield piece;
}

/**
 * Sends pieces of items, each of which is used again when it was sent. The last item is among them,
 * unless they end with an error: then that becomes the last item. Nothing is sent before the first
 * piece is there, so what fails before it fails with a status.
 */
export async function sendPieces(
  answer: Answer,
  pieces: AsyncIterable<Piece>,
  { reserve, onFailure }: SendOptions,
): Promise<void> {
  // A piece that is filled, and one on its way.
  reserve(2 * PIECE_BYTES);
  let writing: Promise<void> = Promise.resolve();
  const write = async (piece: Piece) => {
    await writing;
    // One whose write failed may still be on its way somewhere: it is not used again.
    writing = answer.write(piece).then(() => givePiece(piece));
    // A failure is noticed by the next piece, or at the end.
    writing.catch(() => {});
  };
  const end = async () => {
    await writing;
    answer.end();
  };
  try {
    for await (const piece of pieces) await write(piece);
    await end();
  } catch (error) {
    if (!answer.begun) throw error;
    onFailure(error);
    if (answer.gone) return;
    const last = new Pieces();
    last.put([Buffer.from(JSON.stringify(encodeError(error)))], ITEM_KIND.failed);
    for (const piece of rest(last)) await write(piece);
    await end();
  }
}
