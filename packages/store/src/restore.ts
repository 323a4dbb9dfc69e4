// Restores a snapshot. The new collection has no name until the last frame has arrived and matches.
// Opening a folder removes collections without a name.

import type { Block } from '@hers/scheme';
import { HANDLE_BYTES, type Many } from '@hers/service';
import { hex, sha256 } from './base/bytes.ts';
import { fault } from './base/faults.ts';
import { Holding } from './base/holding.ts';
import { newBlockRow } from './blocks/source.ts';
import type { Collection } from './collection.ts';
import { LIST, RECORD } from './files/entry.ts';
import { Batch, CHUNK_BYTES, ROW_BYTES } from './files/vault.ts';
import { malformed, readSnapshot, type SnapshotHeader, type SnapshotPart } from './snapshot.ts';

/** Entries written per transaction of the catalogue, and memory per entry, however short it is. */
const BATCH_BYTES = 2 ** 25;
const ENTRY_COST = 256;

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
  try {
    for await (const part of readSnapshot(until(pieces, signal), hold)) {
      signal.throwIfAborted();
      if (part.kind === 'header') {
        filling = new Filling(make(part.header), part.header, holding);
        fault('restore.begun');
      } else await filling!.take(part);
    }
    await filling!.finish(signal);
  } finally {
    await filling?.end();
  }
}

class Filling {
  readonly #collection: Collection;
  readonly #announced: Pick<SnapshotHeader, 'records' | 'lists' | 'blocks'>;
  readonly #holding: Holding;
  #batch: Batch;
  #kinds: number[] = [];
  #listIds: Uint8Array[] = [];
  #bytes = 0;
  /** Bytes written at a time: a chunk, or one larger entry. */
  #largest = CHUNK_BYTES;

  constructor(collection: Collection, { records, lists, blocks }: SnapshotHeader, holding: Holding) {
    this.#collection = collection;
    this.#announced = { records, lists, blocks };
    this.#holding = holding;
    this.#batch = new Batch(collection.vault);
  }

  async take(part: Exclude<SnapshotPart, { kind: 'header' }>): Promise<void> {
    if (part.kind === 'block') return this.#addBlock(part.block, part.encoded);
    const { content } = part;
    // A chunk of entries being written, and what is known of each.
    this.#largest = Math.max(this.#largest, content.length);
    this.#holding.become(ENTRY_COST * this.#kinds.length + this.#largest);
    if (part.kind === 'record') return this.#add(RECORD, content.subarray(0, HANDLE_BYTES), content);
    const id = sha256(content);
    this.#listIds.push(id);
    return this.#add(LIST, id.subarray(0, HANDLE_BYTES), content);
  }

  async #add(kind: typeof RECORD | typeof LIST, handle: Uint8Array, content: Uint8Array): Promise<void> {
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
        if (kind === RECORD) changes.push(row);
        else tables.putList(this.#listIds[list++], row.subarray(HANDLE_BYTES));
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

  async #addBlock(block: Block, encoded: Uint8Array): Promise<void> {
    const collection = this.#collection;
    if (collection.blocks.has(hex(block.blockId))) throw malformed('holds a block twice');
    const file = await collection.writeBlock(encoded);
    await collection.syncNames();
    const row = newBlockRow(block, { hash: sha256(encoded), bytes: encoded.length }, file);
    collection.folder.catalogue.transaction(
      () => collection.tables.addBlock(row),
      () => [{ number: collection.number, seeds: [row] }],
    );
    collection.addBlock(row);
    fault('restore.blocks');
  }

  async finish(signal: AbortSignal): Promise<void> {
    await this.#flush();
    const { records, lists, blocks } = this.#announced;
    // A handle, list or block that occurs twice would count as one.
    const { tables } = this.#collection;
    const kept = this.#collection.records.count() === records && tables.lists().length === lists;
    if (!kept || this.#collection.blocks.size !== blocks) throw malformed('does not hold what its header announces');
    signal.throwIfAborted();
  }

  end(): Promise<void> {
    return this.#batch.end();
  }
}
