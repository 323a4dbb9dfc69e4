// Restores a snapshot. The new collection has no name until the last frame has arrived and matches.
// Opening a folder removes collections without a name.

import { type Block, decodeBlock } from '@hers/scheme';
import { HANDLE_BYTES, HersError, type Many, unframe } from '@hers/service';
import { hex, sameBytes, sha256 } from './base/bytes.ts';
import { fault } from './base/faults.ts';
import { Holding } from './base/holding.ts';
import { MAX_BLOCK_BYTES } from './blocks/rebuild.ts';
import { newBlockRow } from './blocks/source.ts';
import type { Collection } from './collection.ts';
import { decodePlace, LIST, MAX_CONTENT, RECORD } from './files/entry.ts';
import { Batch, CHUNK_BYTES, ROW_BYTES } from './files/vault.ts';
import { decodeSnapshotHeader, HashedStream, MAX_FRAME_BYTES, PART, type SnapshotHeader } from './snapshot.ts';

/** Entries written per transaction of the catalogue, and memory per entry, however short it is. */
const BATCH_BYTES = 2 ** 25;
const ENTRY_COST = 256;

const malformed = (what: string) => new HersError('MALFORMED', `this snapshot ${what}; nothing was restored`);

/** Pieces, until the consumer stops. */
async function* until(pieces: Many<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    signal.throwIfAborted();
    yield piece;
  }
}

/** Fills `make(header)`, a collection without a name, from the stream. */
export async function fillFromSnapshot(
  pieces: Many<Uint8Array>,
  make: (header: SnapshotHeader) => Collection,
  signal: AbortSignal,
  hold?: (bytes: number) => void,
): Promise<void> {
  using holding = new Holding(hold);
  let filling: Filling | undefined;
  const stream = new HashedStream();
  let announced: Uint8Array | undefined;
  try {
    for await (const content of unframe(stream.pass(until(pieces, signal)), MAX_FRAME_BYTES, hold)) {
      signal.throwIfAborted();
      if (announced) throw malformed('goes on behind its end');
      if (!filling) {
        const header = decodeSnapshotHeader(content);
        filling = new Filling(make(header), header);
        fault('restore.begun');
      } else if (content[0] === PART.end) {
        announced = content.subarray(1);
      } else {
        holding.become(filling.holds(content));
        await filling.take(content);
      }
    }
    if (!filling || !announced) throw malformed('is cut off');
    if (!sameBytes(announced, stream.digest())) throw malformed('was altered on the way');
    await filling.finish(signal);
  } finally {
    await filling?.end();
  }
}

/**
 * The pieces of a block, joined as they arrive: a list of many small ones would take far more
 * memory than their bytes.
 */
class BlockPieces {
  #bytes = new Uint8Array(0);
  #filled = 0;

  get begun(): boolean {
    return this.#filled > 0;
  }

  /**
   * Memory for these and one more piece of this many bytes. The last piece completes a block, which
   * is then decoded.
   */
  holds(more: number): number {
    return 3 * Math.max(this.#bytes.length, this.#filled + more);
  }

  add(piece: Uint8Array): void {
    if (piece.length === 0) throw malformed('holds an empty piece of a block');
    const end = this.#filled + piece.length;
    if (end > MAX_BLOCK_BYTES) throw malformed('holds something too long to be a block');
    if (end > this.#bytes.length) {
      const larger = new Uint8Array(Math.min(MAX_BLOCK_BYTES, Math.max(2 * this.#bytes.length, end)));
      larger.set(this.#bytes.subarray(0, this.#filled));
      this.#bytes = larger;
    }
    this.#bytes.set(piece, this.#filled);
    this.#filled = end;
  }

  /** All of them. */
  take(): Uint8Array {
    const whole = this.#bytes.subarray(0, this.#filled);
    this.#bytes = new Uint8Array(0);
    this.#filled = 0;
    return whole;
  }
}

function decodedBlock(encoded: Uint8Array): Block {
  try {
    return decodeBlock(encoded);
  } catch (error) {
    if (!(error instanceof HersError)) throw error;
    const code = error.code === 'UNSUPPORTED_VERSION' ? error.code : 'MALFORMED';
    throw new HersError(code, `a block in this snapshot cannot be read (${error.message}); nothing was restored`);
  }
}

class Filling {
  readonly #collection: Collection;
  /** What the header announces. The header itself is not kept: its manifest may be large. */
  readonly #announced: Pick<SnapshotHeader, 'records' | 'lists' | 'blocks'>;
  readonly #pieces = new BlockPieces();
  #batch: Batch;
  #kinds: number[] = [];
  #listIds: Uint8Array[] = [];
  #bytes = 0;
  /** Bytes written at a time: a chunk, or one larger entry. */
  #largest = CHUNK_BYTES;
  #records = 0;
  #lists = 0;
  #blocks = 0;

  constructor(collection: Collection, { records, lists, blocks }: SnapshotHeader) {
    this.#collection = collection;
    this.#announced = { records, lists, blocks };
    this.#batch = new Batch(collection.vault);
  }

  /**
   * Memory once `content` has arrived: a chunk of entries being written, what is known of each, and
   * the block being joined.
   */
  holds(content: Uint8Array): number {
    const isPiece = content[0] === PART.blockPiece || content[0] === PART.blockEnd;
    this.#largest = Math.max(this.#largest, content.length);
    return ENTRY_COST * this.#kinds.length + this.#largest + this.#pieces.holds(isPiece ? content.length : 0);
  }

  async take(content: Uint8Array): Promise<void> {
    const [kind] = content;
    const rest = content.subarray(1);
    if (this.#pieces.begun && kind !== PART.blockPiece && kind !== PART.blockEnd) throw malformed('breaks off a block');
    switch (kind) {
      case PART.record:
        if (++this.#records > this.#announced.records) throw malformed('holds more records than it announces');
        if (rest.length < HANDLE_BYTES) throw malformed('holds a record without a handle');
        await this.#add(RECORD, rest.subarray(0, HANDLE_BYTES), rest);
        break;
      case PART.list: {
        if (++this.#lists > this.#announced.lists) throw malformed('holds more lists than it announces');
        const id = sha256(rest);
        this.#listIds.push(id);
        await this.#add(LIST, id.subarray(0, HANDLE_BYTES), rest);
        break;
      }
      case PART.blockPiece:
      case PART.blockEnd:
        if (this.#blocks >= this.#announced.blocks) throw malformed('holds more blocks than it announces');
        this.#pieces.add(rest);
        if (kind === PART.blockEnd) await this.#addBlock(this.#pieces.take());
        break;
      default:
        throw malformed('holds something unknown');
    }
  }

  async #add(kind: typeof RECORD | typeof LIST, handle: Uint8Array, content: Uint8Array): Promise<void> {
    if (content.length > MAX_CONTENT) throw malformed('holds a record or list that is too long');
    const full = this.#batch.add(kind, handle, content);
    if (full !== undefined) await full;
    this.#kinds.push(kind);
    this.#bytes += ENTRY_COST + content.length;
    if (this.#bytes >= BATCH_BYTES) await this.#flush();
  }

  async #flush(): Promise<void> {
    if (this.#kinds.length === 0) return;
    await this.#batch.finish();
    const { tables, records, folder, vault } = this.#collection;
    await vault.syncNames();
    const changes: Uint8Array[] = [];
    let list = 0;
    const fresh = folder.catalogue.transaction(() => {
      this.#kinds.forEach((kind, i) => {
        const row = this.#batch.rows.subarray(ROW_BYTES * i, ROW_BYTES * (i + 1));
        if (kind === RECORD) {
          changes.push(row);
          return;
        }
        const { pack, offset, length } = decodePlace(row, HANDLE_BYTES);
        tables.extendPack(pack, offset + length);
        tables.countLive(pack, length);
        tables.putList(this.#listIds[list++], row.subarray(HANDLE_BYTES));
      });
      return records.write(Buffer.concat(changes));
    });
    for (const { batch, entries } of fresh) records.take(batch, entries);
    fault('restore.records');
    this.#batch = new Batch(vault);
    this.#kinds = [];
    this.#listIds = [];
    this.#bytes = 0;
    if (records.ripe) await records.merge(() => new Promise(setImmediate));
  }

  async #addBlock(encoded: Uint8Array): Promise<void> {
    const collection = this.#collection;
    const block = decodedBlock(encoded);
    if (collection.blocks.has(hex(block.blockId))) throw malformed('holds a block twice');
    const file = await collection.writeBlock(encoded);
    await collection.syncNames();
    const row = newBlockRow(block, { hash: sha256(encoded), bytes: encoded.length }, file);
    collection.folder.catalogue.transaction(
      () => collection.tables.addBlock(row),
      () => [{ number: collection.number, seeds: [row] }],
    );
    collection.addBlock(row);
    this.#blocks++;
    fault('restore.blocks');
  }

  async finish(signal: AbortSignal): Promise<void> {
    await this.#flush();
    const { records, lists, blocks } = this.#announced;
    const counted = this.#records === records && this.#lists === lists && this.#blocks === blocks;
    // A handle, list or block that occurs twice would count as one.
    const { tables } = this.#collection;
    const kept = this.#collection.records.count() === records && tables.lists().length === lists;
    if (!counted || !kept || this.#collection.blocks.size !== blocks)
      throw malformed('does not hold what its header announces');
    signal.throwIfAborted();
  }

  end(): Promise<void> {
    return this.#batch.end();
  }
}
