import assert from 'node:assert/strict';
import fs, { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { checksum } from '@hers/ring';
import { PageSums } from './page-sums.ts';
import { ReadAhead, readWal } from './wal.ts';

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hers-wal-'));
});
after(() => rm(folder, { recursive: true, force: true }));

describe('a file that is read ahead', () => {
  const PIECE = 1000;
  const content = Uint32Array.from({ length: 600_000 }, (_, i) => Math.imul(i, 0x9e3779b1));
  const bytes = new Uint8Array(content.buffer);

  async function opened<T>(work: (file: number, path: string) => T | Promise<T>): Promise<T> {
    const path = join(folder, 'content');
    await writeFile(path, bytes);
    const file = openSync(path, 'r');
    try {
      return await work(file, path);
    } finally {
      closeSync(file);
    }
  }

  it('gives the same pieces, in any order and from any place', () =>
    opened((file) => {
      const ahead = new ReadAhead(file, bytes.length, PIECE);
      const last = bytes.length - PIECE;
      const inOrder = Array.from({ length: 2000 }, (_, i) => 7 + 1120 * i);
      const anywhere = Array.from({ length: 300 }, (_, i) => content[i] % last);
      for (const position of [...inOrder, ...anywhere, last, 0, 3, 4]) {
        const at = ahead.at(position);
        assert.equal(at % 4, 0);
        assert.equal(ahead.words[at / 4], ahead.view.getUint32(at, true));
        assert.ok(
          Buffer.compare(ahead.bytes.subarray(at, at + PIECE), bytes.subarray(position, position + PIECE)) === 0,
          `at ${position}`,
        );
      }
    }));

  it('gives zeros for what the file no longer holds', () =>
    opened(async (file, path) => {
      const ahead = new ReadAhead(file, bytes.length, PIECE);
      ahead.at(0);
      await truncate(path, 2_000_500);
      const at = ahead.at(2_000_000);
      assert.deepEqual(ahead.bytes.slice(at, at + 500), bytes.slice(2_000_000, 2_000_500));
      assert.ok(ahead.bytes.subarray(at + 500, at + PIECE).every((byte) => byte === 0));
    }));
});

describe('a log of several megabytes', () => {
  const PAGE = 4096;

  /** As SQLite writes it: 40 commits, which change some pages again and again. */
  async function withLog<T>(work: (log: number, size: number, db: DatabaseSync) => T): Promise<T> {
    const path = join(folder, 'log.db');
    const db = new DatabaseSync(path);
    db.exec(
      'PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB)',
    );
    const put = db.prepare('INSERT OR REPLACE INTO t VALUES (?, ?)');
    for (let commit = 0; commit < 40; commit++) {
      db.exec('BEGIN');
      for (let i = 0; i < 40; i++) put.run((commit * 29 + i * 7) % 700, Buffer.alloc(3000, commit * 40 + i));
      db.exec('COMMIT');
    }
    const log = openSync(`${path}-wal`, 'r+');
    try {
      return work(log, fstatSync(log).size, db);
    } finally {
      closeSync(log);
      db.close();
      await rm(path);
    }
  }

  it('is read as SQLite reads it', () =>
    withLog((log, size, db) => {
      assert.ok(size > 3 * 2 ** 20, `${size}`);
      const wal = readWal(log, size);
      assert.equal(wal.damage, undefined);
      const sums = new PageSums(PAGE, 0, new BigUint64Array(0)).with(log, size, wal, 1);
      db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      const file = openSync(join(folder, 'log.db'), 'r');
      try {
        assert.equal(fstatSync(file).size, wal.databasePages * PAGE);
        const page = Buffer.alloc(PAGE);
        const expected = new BigUint64Array(wal.databasePages);
        for (const i of expected.keys()) {
          readSync(file, page, 0, PAGE, i * PAGE);
          expected[i] = checksum(page);
        }
        assert.deepEqual(sums.encode(), new PageSums(PAGE, 1, expected).encode());
      } finally {
        closeSync(file);
      }
    }));

  it('is read once, and its pages once more, however often they were changed', (t) =>
    withLog((log, size) => {
      const reads = t.mock.method(fs, 'readSync');
      syncBuiltinESMExports();
      try {
        const wal = readWal(log, size);
        new PageSums(PAGE, 0, new BigUint64Array(0)).with(log, size, wal, 1);
      } finally {
        reads.mock.restore();
        syncBuiltinESMExports();
      }
      const megabytes = Math.ceil(size / 2 ** 20);
      assert.ok(reads.mock.callCount() <= 2 * megabytes + 4, `${reads.mock.callCount()} of ${megabytes} MB`);
      assert.ok(reads.mock.callCount() >= megabytes);
    }));

  it('is damaged where any bit of it is, but for the last commit, which a crash may have cut', () =>
    withLog((log, size) => {
      const frames = (size - 32) / (24 + PAGE);
      for (const frame of [0, 1, 254, 255, 508, 509, frames - 45, frames - 1]) {
        const position = 32 + frame * (24 + PAGE) + 24 + ((frame * 331) % PAGE);
        const byte = Buffer.alloc(1);
        readSync(log, byte, 0, 1, position);
        byte[0] ^= 4;
        writeSync(log, byte, 0, 1, position);
        const { damage, pages } = readWal(log, size);
        if (frame === frames - 1) assert.ok(damage === undefined && pages.size > 0);
        else assert.match(damage ?? 'nothing', /acknowledged/, `frame ${frame} of ${frames}`);
        byte[0] ^= 4;
        writeSync(log, byte, 0, 1, position);
      }
      assert.equal(readWal(log, size).damage, undefined);
    }));
});
