// Reads which collection and version a snapshot is of, while it streams by, to check afterwards
// that the store has restored exactly that. The format is that of the store (its snapshot.ts): the
// first frame is
//
//   'HERSSNAP', version, zero, collection id (16), version of the manifest (u64), records (u64),
//   lists, blocks, length of the descriptor (u32), zero, descriptor, manifest

import type { Many } from '@hers/service';
import { hex } from '../bytes.ts';
import { manifestHash } from '../formats/manifest.ts';
import type { Seen } from './versions.ts';

const MAGIC = 0x50414e5353524548n; // 'HERSSNAP'
const SNAPSHOT_VERSION = 1;
const LENGTH_BYTES = 4;
const FIELDS_BYTES = 64;
/**
 * If the first frame is longer, only the id and version of the manifest are known, not its hash.
 */
const MAX_BYTES = 2 ** 20;

export class SnapshotHead {
  #bytes = new Uint8Array(2 ** 12);
  #filled = 0;

  /** The same pieces. */
  async *pass(pieces: Many<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      this.#keep(piece);
      yield piece;
    }
  }

  #keep(piece: Uint8Array): void {
    const part = piece.subarray(0, MAX_BYTES - this.#filled);
    const wanted = this.#filled + part.length;
    if (wanted > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(2 * this.#bytes.length, wanted));
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(part, this.#filled);
    this.#filled = wanted;
  }

  /** Undefined if what streamed by is no snapshot. */
  async seen(): Promise<Seen | undefined> {
    const bytes = this.#bytes.subarray(0, this.#filled);
    const end = LENGTH_BYTES + FIELDS_BYTES;
    if (bytes.length < end) return undefined;
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const fields = new DataView(bytes.buffer, LENGTH_BYTES, FIELDS_BYTES);
    const version = Number(fields.getBigUint64(32, true));
    if (fields.getBigUint64(0, true) !== MAGIC || fields.getUint32(8, true) !== SNAPSHOT_VERSION) return undefined;
    if (!Number.isSafeInteger(version)) return undefined;
    const id = hex(bytes.subarray(LENGTH_BYTES + 16, LENGTH_BYTES + 32));
    if (LENGTH_BYTES + length > bytes.length) return { id, version };
    const manifest = bytes.slice(end + fields.getUint32(56, true), LENGTH_BYTES + length);
    return { id, version, hash: await manifestHash(manifest) };
  }
}
