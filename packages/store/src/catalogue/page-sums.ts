// SQLite does not detect a flipped bit in a page. So the store keeps a checksum of every page of
// the catalogue in a file beside it, and compares them when a folder is opened.
//
// The database file changes only while the log is copied into it, and the new sums are written
// before that. So after any crash, every page that the log does not hold matches its sum. There is
// one exception: when a process exits without closing the folder, SQLite may copy the log without
// writing sums. The counter of transactions, which the database holds too, then shows that the sums
// are old.
//
//   0  'HERSSUMS'   8 version   12 page size   16 pages   20 transactions
//  24  pages × XXH64, then XXH64 of all before

import { readSync } from 'node:fs';
import { checksum } from '@hers/ring';
import { ReadAhead, type WalContent } from './wal.ts';

const MAGIC = 0x534d555353524548n; // 'HERSSUMS'
const VERSION = 1;
const SUMS_AT = 24;

export class PageSums {
  readonly pageSize: number;
  /** The database's counter when these sums were made. */
  readonly transactions: number;
  readonly #sums: BigUint64Array;

  constructor(pageSize: number, transactions: number, sums: BigUint64Array) {
    this.pageSize = pageSize;
    this.transactions = transactions;
    this.#sums = sums;
  }

  /** The sums of a database file of this many pages. */
  static of(file: number, pageSize: number, count: number, transactions: number): PageSums {
    const sums = new BigUint64Array(count);
    eachPage(file, pageSize, count, (page, bytes) => {
      sums[page - 1] = checksum(bytes);
    });
    return new PageSums(pageSize, transactions, sums);
  }

  get bytes(): number {
    return this.pageSize * this.#sums.length;
  }

  encode(): Uint8Array {
    const bytes = new Uint8Array(SUMS_AT + 8 * this.#sums.length + 8);
    const view = new DataView(bytes.buffer);
    view.setBigUint64(0, MAGIC, true);
    view.setUint32(8, VERSION, true);
    view.setUint32(12, this.pageSize, true);
    view.setUint32(16, this.#sums.length, true);
    view.setUint32(20, this.transactions, true);
    bytes.set(new Uint8Array(this.#sums.buffer, this.#sums.byteOffset, this.#sums.byteLength), SUMS_AT);
    view.setBigUint64(bytes.length - 8, checksum(bytes.subarray(0, -8)), true);
    return bytes;
  }

  /**
   * Undefined if these bytes are not sums, or are damaged. Sums can be computed again; until then
   * they prove nothing.
   */
  static decode(bytes: Uint8Array): PageSums | undefined {
    if (bytes.length < SUMS_AT + 8) return undefined;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const count = view.getUint32(16, true);
    if (
      view.getBigUint64(0, true) !== MAGIC ||
      view.getUint32(8, true) !== VERSION ||
      bytes.length !== SUMS_AT + 8 * count + 8 ||
      view.getBigUint64(bytes.length - 8, true) !== checksum(bytes.subarray(0, -8))
    )
      return undefined;
    const sums = new BigUint64Array(count);
    new Uint8Array(sums.buffer).set(bytes.subarray(SUMS_AT, bytes.length - 8));
    return new PageSums(view.getUint32(12, true), view.getUint32(20, true), sums);
  }

  /**
   * Pages (counted from 1) of the open database file that neither match their sum nor are in the
   * log.
   */
  damagedPages(file: number, size: number, wal: WalContent): number[] {
    const last = wal.databasePages > 0 ? Math.min(wal.databasePages, this.#sums.length) : this.#sums.length;
    const damaged: number[] = [];
    eachPage(file, this.pageSize, last, (page, bytes) => {
      const whole = page * this.pageSize <= size;
      if (!wal.pages.has(page) && !(whole && checksum(bytes) === this.#sums[page - 1])) damaged.push(page);
    });
    return damaged;
  }

  /** The sums after the log, open as `file`, will have been copied into the database. */
  with(file: number, size: number, wal: WalContent, transactions: number): PageSums {
    const sums = new BigUint64Array(wal.databasePages);
    sums.set(this.#sums.subarray(0, wal.databasePages));
    const ahead = new ReadAhead(file, size, this.pageSize);
    // The pages are in the order in which they came first, and may have come again.
    for (const [page, position] of [...wal.pages].sort(([, a], [, b]) => a - b)) {
      if (page > wal.databasePages) continue; // the database has shrunk since
      const at = ahead.at(position);
      sums[page - 1] = checksum(ahead.bytes.subarray(at, at + this.pageSize));
    }
    return new PageSums(this.pageSize, transactions, sums);
  }
}

function eachPage(file: number, size: number, count: number, visit: (page: number, bytes: Uint8Array) => void): void {
  const buffer = new Uint8Array(256 * size);
  for (let page = 1; page <= count; page += 256) {
    readSync(file, buffer, 0, buffer.length, (page - 1) * size);
    for (let i = 0; i < 256 && page + i <= count; i++) visit(page + i, buffer.subarray(i * size, (i + 1) * size));
  }
}
