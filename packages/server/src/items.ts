// Streams of items, put together into pieces and written as fast as the client takes them. The
// pieces are used again and again: fresh ones for every answer would keep the garbage collector as
// busy as the scan.

import { encodeError, ITEM_KIND } from '@hers/service';
import type { Answer } from './answer.ts';

/** An item in one or more parts, which follow each other. */
export type ItemParts = readonly Uint8Array[];

/**
 * Enough that the cost of a write does not matter, and little enough that decryption starts early.
 */
const PIECE_BYTES = 2 ** 17;
const MAX_FREE = 32;
const free: Buffer[] = [];

const takePiece = () => free.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES);

function givePiece(piece: Buffer): void {
  if (free.length < MAX_FREE) free.push(piece);
}

/**
 * Nothing is sent before a first piece is full or all is there, so that what fails at once fails
 * with a status; later errors become the last item.
 */
export async function sendItems(
  answer: Answer,
  batches: AsyncIterable<readonly ItemParts[]>,
  { reserve, onFailure }: { readonly reserve: (bytes: number) => void; readonly onFailure: (error: unknown) => void },
): Promise<void> {
  // A piece that is filled, and one on its way.
  reserve(2 * PIECE_BYTES);
  const writer = new ItemWriter(answer);
  try {
    for await (const batch of batches)
      for (const parts of batch) {
        const full = writer.put(parts, ITEM_KIND.item);
        if (full !== undefined) await full;
      }
    await writer.put([], ITEM_KIND.end);
    await writer.end();
  } catch (error) {
    if (!answer.begun) throw error;
    onFailure(error);
    if (!answer.gone) {
      await writer.put([Buffer.from(JSON.stringify(encodeError(error)))], ITEM_KIND.failed);
      await writer.end();
    }
  } finally {
    writer.release();
  }
}

class ItemWriter {
  readonly #answer: Answer;
  #piece = takePiece();
  #filled = 0;
  /** The write of the piece before. */
  #writing: Promise<void> = Promise.resolve();

  constructor(answer: Answer) {
    this.#answer = answer;
  }

  /** Adds an item; what it returns must be waited for. */
  put(parts: ItemParts, kind: number): Promise<void> | undefined {
    let length = 1;
    for (const part of parts) length += part.length;
    if (4 + length > PIECE_BYTES) return this.#putLarge(parts, length, kind);
    if (this.#filled + 4 + length > PIECE_BYTES) return this.#flush().then(() => this.#add(parts, length, kind));
    this.#add(parts, length, kind);
    return undefined;
  }

  /** What does not fit into a piece is written as it is, a piece's length at a time. */
  async #putLarge(parts: ItemParts, length: number, kind: number): Promise<void> {
    if (this.#filled + 4 > PIECE_BYTES) await this.#flush();
    this.#filled = this.#piece.writeUInt32LE(length, this.#filled);
    await this.#flush();
    await this.#writing;
    for (const part of parts)
      for (let at = 0; at < part.length; at += PIECE_BYTES)
        await this.#answer.write(part.subarray(at, at + PIECE_BYTES));
    this.#filled = this.#piece.writeUInt8(kind, 0);
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

  /** Hands the piece over, once the one before is gone, and takes another. */
  async #flush(): Promise<void> {
    await this.#writing;
    const piece = this.#piece;
    // One whose write failed may still be on its way somewhere: it is not used again.
    if (this.#filled > 0)
      this.#writing = this.#answer.write(piece.subarray(0, this.#filled)).then(() => givePiece(piece));
    // A failure is noticed when the next piece is full, or at the end.
    this.#writing.catch(() => {});
    this.#piece = takePiece();
    this.#filled = 0;
  }

  async end(): Promise<void> {
    await this.#flush();
    await this.#writing;
    this.#answer.end();
  }

  /** Nothing more will be put. */
  release(): void {
    if (this.#piece.length > 0) givePiece(this.#piece);
    this.#piece = Buffer.alloc(0);
  }
}
