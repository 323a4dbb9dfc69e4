// Replaces every file and folder of a store by something else, exchanges files, and simulates
// errors of the operating system. Every call must end soon, with an error of ours that names the
// file. Everything else must stay usable.
//
// Long: damage.test.ts is the short form.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { constants } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { ReferenceKernel } from '@hers/scan';
import type { Block } from '@hers/scheme';
import { HersError, type SealedRecord } from '@hers/service';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import { withFolder } from '../testing/crash.ts';
import { hex } from './base/bytes.ts';
import { storageError } from './base/storage-errors.ts';
import { type FolderStore, openStore } from './store.ts';

const kernel = async () => new ReferenceKernel();
const listId = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
const text = (value: string) => new TextEncoder().encode(value);
const open = (folder: string) => openStore(folder, { kernel, onBackgroundError: () => {}, quietMs: 60_000 });

/** Exits the process when nothing else can: the only thread is blocked in a system call. */
async function within<T>(seconds: number, what: string, work: () => Promise<T>): Promise<T> {
  const script = `setTimeout(() => {
    require('node:fs').writeSync(2, ${JSON.stringify(`${what} does not end\n`)});
    process.kill(process.pid, 'SIGKILL');
  }, ${1000 * seconds})`;
  const watchdog = new Worker(script, { eval: true, execArgv: [] });
  try {
    return await work();
  } finally {
    await watchdog.terminate();
  }
}

// — a folder with a little of everything —

interface Content {
  readonly records: SealedRecord[];
  readonly lists: Uint8Array[];
  readonly blocks: Block[];
  version: number;
}

const NAMES = ['first', 'second'];
const KEYS = [new Uint8Array(16).fill(1), new Uint8Array(16).fill(2)];
const contents = new Map<string, Content>();
let original = '';
let finished = () => {};

/**
 * Two collections, each with a pack, two segments of one kind, and loose blocks. It is left as
 * after a crash, so that there is a log.
 */
before(async () => {
  const ready = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  finished = end.resolve;
  withFolder(async (parent) => {
    const store = await open(join(parent, 'open'));
    for (const [i, name] of NAMES.entries()) contents.set(name, await fill(store, name, 20 + i));
    original = join(parent, 'original');
    cpSync(join(parent, 'open'), original, { recursive: true });
    mkdirSync(join(original, 'lost+found'));
    writeFileSync(join(original, 'lost+found/1-00ff.block'), 'x');
    await store.close();
    ready.resolve();
    await end.promise;
  }).catch(ready.reject);
  await ready.promise;
});
after(() => finished());

async function fill(store: FolderStore, name: string, seed: number): Promise<Content> {
  const samples = new Samples(seed);
  await store.createCollection(name, { id: samples.id(), descriptor: samples.bytes(9), manifest: text(`${name} 1`) });
  const all: Content = { records: [], lists: [], blocks: [], version: 1 };
  const keyId = KEYS[NAMES.indexOf(name)];
  // The first ones go into segments, the others stay loose.
  for (const count of [130, 2]) {
    // All of the same length, so that only the content tells them apart.
    const records = Array.from({ length: 50 }, () => samples.record(80));
    const lists = [samples.bytes(300)];
    const blocks = Array.from({ length: count }, () => samples.block({ width: 1, keyId }));
    await store.commit(name, {
      expected: all.version,
      manifest: text(`${name} ${++all.version}`),
      records: [await store.stageRecords(name, records)],
      lists: await Promise.all(lists.map((list) => store.stageList(name, list))),
      blocks: await Promise.all(blocks.map((block) => store.stageBlock(name, [encodeBlock(block)]))),
    });
    if (count > 2) await store.purge(name);
    all.records.push(...records);
    all.lists.push(...lists);
    all.blocks.push(...blocks);
  }
  return all;
}

/** A copy of the folder, changed by `change`. */
async function withChanged<T>(
  about: string,
  change: (folder: string) => Promise<unknown> | unknown,
  work: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = `${original}-changed`;
  rmSync(folder, { recursive: true, force: true });
  cpSync(original, folder, { recursive: true });
  const undo = await change(folder);
  try {
    return await within(30, about, () => work(folder));
  } catch (error) {
    throw new Error(about, { cause: error });
  } finally {
    if (undo instanceof Function) await undo();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Files of a folder of the store that belong to a collection. */
function filesOf(folder: string, name: string): string[] {
  const key = `${NAMES.indexOf(name) + 1}-`;
  return readdirSync(join(original, folder))
    .filter((file) => file.startsWith(key))
    .map((file) => `${folder}/${file}`);
}

/**
 * Does everything that can be done with a collection. Returns what failed, by name; everything else
 * must be right.
 */
async function useAll(store: FolderStore, name: string): Promise<Map<string, unknown>> {
  const { records, lists, blocks, version } = contents.get(name)!;
  const failed = new Map<string, unknown>();
  const attempt = async (what: string, work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      failed.set(what, error);
    }
  };
  await attempt('records', async () => {
    const handles = records.map(({ handle }) => handle);
    const found = await Array.fromAsync(store.getRecords(name, handles));
    assert.deepEqual(
      found.map(({ sealed }) => hex(sealed)),
      records.map(({ sealed }) => hex(sealed)),
    );
  });
  await attempt('lists', async () => {
    const found = await Array.fromAsync(store.getLists(name, lists.map(listId)));
    assert.deepEqual(found.map(hex), lists.map(hex));
  });
  for (const block of blocks)
    await attempt('blocks', async () => {
      const found = Buffer.concat(await Array.fromAsync(store.getBlock(name, block.blockId)));
      assert.equal(hex(found), hex(encodeBlock(block)));
    });
  await attempt('search', async () => {
    const query = new Samples(5).query({ width: 1, keyId: KEYS[NAMES.indexOf(name)] });
    const found = await Array.fromAsync(store.search(name, { version, queries: [encodeQuery(query)] }));
    assert.deepEqual(found.map(hex).sort(), expectedResponses(blocks, [query]).map(hex).sort());
  });
  await attempt('snapshot', async () => {
    const snapshot = await Array.fromAsync(store.snapshot(name));
    await store.restore(`${name}-copy`, snapshot);
    await store.deleteCollection(`${name}-copy`);
  });
  await attempt('scrub', async () => {
    for await (const { collection, file, damage } of store.scrub())
      if (damage && (collection ?? name) === name) failed.set(`scrub of ${file}`, damage);
  });
  await attempt('purge', () => store.purge(name));
  await attempt('commit', async () => {
    const samples = new Samples(99);
    const block = samples.block({ width: 1, keyId: KEYS[NAMES.indexOf(name)] });
    const [record, list] = [samples.record(), samples.bytes(10)];
    await store.commit(name, {
      expected: version,
      manifest: text('next'),
      records: [await store.stageRecords(name, [record])],
      lists: [await store.stageList(name, list)],
      blocks: [await store.stageBlock(name, [encodeBlock(block)])],
    });
    assert.equal((await Array.fromAsync(store.getRecords(name, [record.handle]))).length, 1);
    assert.equal((await Array.fromAsync(store.getLists(name, [listId(list)]))).length, 1);
    await Array.fromAsync(store.getBlock(name, block.blockId));
  });
  return failed;
}

/** Throws unless the error is one of ours that names one of the files. */
function assertNames(error: unknown, files: readonly string[], what: string): void {
  const named = error instanceof HersError && files.some((file) => error.message.includes(file));
  assert.ok(named, `${what}: ${error instanceof HersError ? error.message : (error as Error)?.stack}`);
  assert.ok(['DAMAGED', 'STORAGE', 'LOCKED'].includes(error.code), `${what}: ${error.code} ${error.message}`);
}

// — something else in the place of a file —

/** Returns a function that undoes it, if removing the file is not enough. */
type Replacement = (path: string) => unknown;

const REPLACEMENTS: Record<string, Replacement> = {
  'a folder': (path) => mkdirSync(path),
  'a folder that is not empty': (path) => {
    mkdirSync(path);
    writeFileSync(join(path, 'file'), 'x');
  },
  'a pipe': (path) => {
    assert.equal(spawnSync('mkfifo', [path]).status, 0);
  },
  'a link to itself': (path) => symlinkSync(path, path),
  'a link to nothing': (path) => symlinkSync(`${path}-nothing`, path),
  'a link to a device': (path) => symlinkSync('/dev/zero', path),
  'an empty file': (path) => writeFileSync(path, ''),
  'a socket': async (path) => {
    const server: Server = createServer();
    await new Promise<void>((resolve) => server.listen(path, resolve));
    return () => new Promise((resolve) => server.close(resolve));
  },
};

async function replaced(folder: string, file: string, replace: Replacement) {
  rmSync(join(folder, file), { recursive: true });
  return replace(join(folder, file));
}

/** Files of one collection: it loses what is in them, and nothing else. */
describe('something else in the place of a file of a collection', () => {
  for (const [part, needed] of [
    ['vault', ['records', 'lists', 'snapshot', 'scrub']],
    ['segments', ['blocks', 'search', 'snapshot', 'scrub']],
    ['blocks', ['blocks', 'search', 'snapshot', 'scrub']],
  ] as const)
    for (const [what, replace] of Object.entries(REPLACEMENTS))
      it(`${part}: ${what}`, async () => {
        const [file] = filesOf(part, 'first');
        await withChanged(
          `${what} in the place of ${file}`,
          (folder) => replaced(folder, file, replace),
          async (folder) => {
            const store = await open(folder);
            try {
              const failed = await useAll(store, 'first');
              for (const [use, error] of failed) assertNames(error, [file], use);
              for (const use of needed)
                assert.ok(
                  [...failed.keys()].some((key) => key.startsWith(use)),
                  `${use} did not notice`,
                );
              assert.ok(!failed.has('commit'), `commit: ${failed.get('commit')}`);
              assert.deepEqual(await useAll(store, 'second'), new Map());
            } finally {
              await store.close();
            }
          },
        );
      });
});

/** Files that all collections depend on: the folder is refused, or works. */
describe('something else in the place of a file or folder of the store', () => {
  const CATALOGUE = ['db', 'db-wal', 'db-shm', 'sums', 'journal'].map((end) => `catalogue.${end}`);
  for (const file of ['format', 'lock', 'writer', 'reserve', ...CATALOGUE, 'vault', 'blocks', 'segments', 'lost+found'])
    for (const [what, replace] of Object.entries(REPLACEMENTS))
      it(`${file}: ${what}`, async () => {
        assert.ok(existsSync(join(original, file)));
        // What is lost of the catalogue shows in the rest of it.
        const names = file.startsWith('catalogue') ? ['catalogue.'] : [file];
        await withChanged(
          `${what} in the place of ${file}`,
          (folder) => replaced(folder, file, replace),
          async (folder) => {
            let store: FolderStore;
            try {
              store = await open(folder);
            } catch (error) {
              assertNames(error, names, 'opening');
              return;
            }
            try {
              for (const name of NAMES)
                for (const [use, error] of await useAll(store, name)) assertNames(error, names, use);
            } finally {
              await store.close();
            }
          },
        );
      });
});

// — files exchanged —

function exchange(folder: string, one: string, other: string): void {
  const [a, b] = [join(folder, one), join(folder, other)];
  renameSync(a, `${a}.kept`);
  renameSync(b, a);
  renameSync(`${a}.kept`, b);
}

describe('files exchanged', () => {
  const two = (folder: string): [string, string] => [filesOf(folder, 'first')[0], filesOf(folder, 'second')[0]];
  const one = (folder: string) => filesOf(folder, 'first').slice(0, 2) as [string, string];
  const ofBlocks = ['blocks', 'search', 'snapshot', 'scrub'];
  const ofVault = ['records', 'lists', 'snapshot', 'scrub'];
  const cases: [string, () => [string, string], readonly string[]][] = [
    ['segments of two collections', () => two('segments'), ofBlocks],
    ['segments of one collection', () => one('segments'), ofBlocks],
    ['blocks of two collections', () => two('blocks'), ofBlocks],
    ['blocks of one collection', () => one('blocks'), ofBlocks],
    ['packs of two collections', () => two('vault'), ofVault],
    ['packs of one collection', () => one('vault'), ofVault],
  ];

  for (const [about, files, needed] of cases)
    it(`${about} are DAMAGED, and the rest is not`, async () => {
      const pair = files();
      assert.ok(pair[0] && pair[1] && pair[0] !== pair[1]);
      await withChanged(
        about,
        (folder) => exchange(folder, ...pair),
        async (folder) => {
          const store = await open(folder);
          const failed = await useAll(store, 'first');
          for (const [use, error] of failed) {
            assertNames(error, [...pair, 'vault/1-*.pack'], use);
            assert.equal((error as HersError).code, 'DAMAGED', use);
          }
          for (const use of needed)
            assert.ok(
              [...failed.keys()].some((key) => key.startsWith(use)),
              `${use} did not notice`,
            );
          assert.ok(!failed.has('commit'), `commit: ${failed.get('commit')}`);
          await store.close();
          // Nothing that was exchanged is lost.
          exchange(folder, ...pair);
          const again = await open(folder);
          contents.get('first')!.version++;
          try {
            assert.deepEqual([...(await useAll(again, 'second'))], []);
            const handles = contents.get('first')!.records.map(({ handle }) => handle);
            assert.equal((await Array.fromAsync(again.getRecords('first', handles))).length, handles.length);
            for (const block of contents.get('first')!.blocks)
              await Array.fromAsync(again.getBlock('first', block.blockId));
          } finally {
            contents.get('first')!.version--;
            await again.close();
          }
        },
      );
    });
});

it('a purge does not take what it finds in the wrong pack for deleted', () =>
  withFolder(async (folder) => {
    const samples = new Samples(3);
    const name = 'faces';
    const store = await open(folder);
    await store.createCollection(name, { id: samples.id(), descriptor: text('d'), manifest: text('1') });
    const packs: SealedRecord[][] = [];
    for (const expected of [1, 2]) {
      // All of the same length, so that only the content tells them apart.
      const records = Array.from({ length: 20 }, () => samples.record(80));
      packs.push(records);
      const stage = await store.stageRecords(name, records);
      await store.commit(name, { expected, manifest: text(`${expected + 1}`), records: [stage] });
      await store.purge(name);
    }
    const removed = packs.map(([first]) => first.handle);
    await store.commit(name, { expected: 3, manifest: text('4'), removed });
    await store.close();
    exchange(folder, 'vault/1-1.pack', 'vault/1-2.pack');
    const exchanged = await open(folder);
    await assert.rejects(exchanged.purge(name), (error) => {
      assertNames(error, ['vault/1-1.pack', 'vault/1-2.pack'], 'purge');
      return true;
    });
    await exchanged.close();
    exchange(folder, 'vault/1-1.pack', 'vault/1-2.pack');
    const again = await open(folder);
    const handles = packs.flatMap(([, ...rest]) => rest).map(({ handle }) => handle);
    assert.equal((await Array.fromAsync(again.getRecords(name, handles))).length, handles.length);
    await again.purge(name);
    assert.equal((await Array.fromAsync(again.getRecords(name, handles))).length, handles.length);
    await again.close();
  }));

// — what a system may say —

describe('errors of the system', () => {
  const failure = (code: string, syscall?: string) =>
    Object.assign(new Error(`${code}: so says the test`), { code, ...(syscall ? { syscall } : {}) });

  it('each becomes one of ours that names the file', () => {
    const expected: [string, string, RegExp][] = [
      ['ENOSPC', 'STORAGE', /no room left on the disk for vault\/1-1\.pack/],
      ['EROFS', 'STORAGE', /vault\/1-1\.pack cannot be written: the folder is read-only/],
      ['EMFILE', 'STORAGE', /vault\/1-1\.pack cannot be opened/],
      ['EIO', 'STORAGE', /reports an error at vault\/1-1\.pack/],
      ['ENOENT', 'DAMAGED', /vault\/1-1\.pack is damaged: it is missing/],
      ['EISDIR', 'DAMAGED', /vault\/1-1\.pack is damaged: a folder is in its place/],
      ['ERR_FS_EISDIR', 'DAMAGED', /vault\/1-1\.pack is damaged: a folder is in its place/],
      ['ENOTDIR', 'DAMAGED', /vault\/1-1\.pack is damaged: a file is in the place of a folder/],
      ['ELOOP', 'DAMAGED', /vault\/1-1\.pack is damaged: a symbolic link/],
      ['EEXIST', 'DAMAGED', /vault\/1-1\.pack is damaged: something else is in its place/],
      ['ENOTEMPTY', 'DAMAGED', /vault\/1-1\.pack is damaged: something else is in its place/],
      ['ESPIPE', 'DAMAGED', /vault\/1-1\.pack is damaged/],
      ['ENAMETOOLONG', 'INVALID_ARGUMENT', /the path of vault\/1-1\.pack is too long/],
      ['EFBIG', 'STORAGE', /no file as long as vault\/1-1\.pack/],
      ['EBUSY', 'STORAGE', /vault\/1-1\.pack is being used by something else/],
      ['EAGAIN', 'STORAGE', /vault\/1-1\.pack is being used by something else/],
      ['EWOULDBLOCK', 'STORAGE', /vault\/1-1\.pack is being used by something else/],
      ['ETXTBSY', 'STORAGE', /vault\/1-1\.pack is being used by something else/],
      ['ESTALE', 'STORAGE', /the disk that holds vault\/1-1\.pack was lost/],
      ['EINVAL', 'STORAGE', /refuses vault\/1-1\.pack \(EINVAL: so says the test\)/],
      ['EREMOTEIO', 'STORAGE', /refuses vault\/1-1\.pack \(EREMOTEIO: so says the test\)/],
    ];
    for (const [code, ours, message] of expected) {
      const error = storageError(failure(code), 'vault/1-1.pack');
      assert.ok(error instanceof HersError, code);
      assert.equal(error.code, ours, code);
      assert.match(error.message, message, code);
    }
  });

  it('so do those of SQLite, with and without details', () => {
    const expected: [number, string, RegExp][] = [
      [3, 'STORAGE', /catalogue\.db cannot be written: the folder is read-only/], // PERM
      [5, 'LOCKED', /catalogue\.db is in use by another process/], // BUSY
      [6, 'LOCKED', /catalogue\.db is in use by another process/], // LOCKED
      [7, 'STORAGE', /refuses catalogue\.db \(so says SQLite\)/], // NOMEM
      [8 | (3 << 8), 'STORAGE', /catalogue\.db cannot be written: the folder is read-only/], // READONLY_ROLLBACK
      [10 | (4 << 8), 'STORAGE', /reports an error at catalogue\.db/], // IOERR_FSYNC
      [10 | (19 << 8), 'STORAGE', /no room left on the disk for catalogue\.db/], // IOERR_SHMSIZE
      [11, 'DAMAGED', /catalogue\.db is damaged: so says SQLite/], // CORRUPT
      [13, 'STORAGE', /no room left on the disk for catalogue\.db/], // FULL
      [14, 'STORAGE', /catalogue\.db cannot be opened/], // CANTOPEN
      [15, 'LOCKED', /catalogue\.db is in use by another process/], // PROTOCOL
      [22, 'STORAGE', /no file as long as catalogue\.db/], // NOLFS
      [26, 'DAMAGED', /catalogue\.db is damaged: so says SQLite/], // NOTADB
    ];
    const ofSqlite = (errcode: number) =>
      Object.assign(new Error('so says SQLite'), { code: 'ERR_SQLITE_ERROR', errcode });
    for (const [errcode, ours, message] of expected) {
      const error = storageError(ofSqlite(errcode), 'catalogue.db');
      assert.ok(error instanceof HersError, `${errcode}`);
      assert.equal(error.code, ours, `${errcode}`);
      assert.match(error.message, message);
    }
    const mistake = ofSqlite(1); // SQLITE_ERROR: a statement of ours is wrong
    assert.equal(storageError(mistake, 'catalogue.db'), mistake);
  });

  it('a device that cannot be opened is damage, one that fails later is not', () => {
    for (const code of ['ENXIO', 'ENODEV', 'EOPNOTSUPP']) {
      assert.equal((storageError(failure(code, 'open'), 'x') as HersError).code, 'DAMAGED');
      assert.equal((storageError(failure(code, 'read'), 'x') as HersError).code, 'STORAGE');
    }
  });

  it('those that Node knows by number only are known', () => {
    const numbered = (errno: number) =>
      Object.assign(failure(`Unknown system error ${-errno}`, 'write'), { errno: -errno });
    assert.match(String(storageError(numbered(constants.errno.EDQUOT), 'x')), /no room left on the disk for x/);
    assert.match(String(storageError(numbered(constants.errno.ESTALE), 'x')), /the disk that holds x was lost/);
    assert.match(String(storageError(numbered(9999), 'x')), /refuses x \(Unknown system error -9999/);
  });

  it('what is wrong with a program passes through', () => {
    const mistakes: unknown[] = [
      new TypeError('x is not a function'),
      new RangeError('too much'),
      failure('ERR_INVALID_ARG_TYPE'),
      failure('ABORT_ERR'),
      new HersError('STALE', 'again'),
      'a string',
      undefined,
    ];
    for (const mistake of mistakes) assert.equal(storageError(mistake, 'x'), mistake);
  });
});
