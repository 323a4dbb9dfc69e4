// One flipped byte anywhere: either it does not matter, or the error names the damaged file. A read
// never returns bytes other than those stored, and everything outside the damaged place stays
// usable.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { ReferenceKernel } from '@hers/scan';
import type { Block } from '@hers/scheme';
import { HersError, type SealedRecord, type Service } from '@hers/service';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import { withFolder } from '../testing/crash.ts';
import { checkHolds, type Expected, Script } from '../testing/crash-script.ts';
import { hex } from './base/bytes.ts';
import { mendProofs } from './catalogue/catalogue-writer.ts';
import { readJournal } from './catalogue/journal.ts';
import { Disk } from './files/disk.ts';
import { type FolderStore, openStore } from './store.ts';

const kernel = async () => new ReferenceKernel();
const listId = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
const text = (value: string) => new TextEncoder().encode(value);

interface Content {
  readonly records: SealedRecord[];
  readonly lists: Uint8Array[];
  readonly blocks: Block[];
}

const NAMES = ['first', 'second'];
const contents = new Map<string, Content>();
let original = '';
let finished = () => {};

/** Two collections, each with a segment, loose blocks, records in the B-tree and fresh records. */
before(async () => {
  const ready = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  finished = end.resolve;
  withFolder(async (folder) => {
    const store = await openStore(folder, { kernel });
    for (const [i, name] of NAMES.entries()) contents.set(name, await fill(store, name, 10 + i));
    await store.close();
    original = folder;
    ready.resolve();
    await end.promise;
  }).catch(ready.reject);
  await ready.promise;
});
after(() => finished());

async function fill(store: Service, name: string, seed: number): Promise<Content> {
  const samples = new Samples(seed);
  const created = { id: samples.id(), descriptor: samples.bytes(30), manifest: text(`${name} 1`) };
  await store.createCollection(name, created);
  const all: Content = { records: [], lists: [], blocks: [] };
  for (const expected of [1, 2]) {
    const records = samples.records(200);
    const lists = [samples.bytes(2000), samples.bytes(100)];
    const blocks = Array.from({ length: expected === 1 ? 12 : 3 }, () => samples.block({ width: 2 }));
    await store.commit(name, {
      expected,
      manifest: text(`${name} ${expected + 1}`),
      records: [await store.stageRecords(name, records)],
      lists: await Promise.all(lists.map((list) => store.stageList(name, list))),
      blocks: await Promise.all(blocks.map((block) => store.stageBlock(name, [encodeBlock(block)]))),
    });
    if (expected === 1) await store.purge(name);
    all.records.push(...records);
    all.lists.push(...lists);
    all.blocks.push(...blocks);
  }
  return all;
}

/** Copies the folder, flips a byte, and passes the result on. */
async function withFlipped(file: string, at: number, work: (folder: string) => Promise<void>): Promise<void> {
  const folder = `${original}-flipped`;
  rmSync(folder, { recursive: true, force: true });
  cpSync(original, folder, { recursive: true });
  const path = join(folder, file);
  const bytes = readFileSync(path);
  bytes[at] ^= 1 << (at % 8);
  writeFileSync(path, bytes);
  try {
    await work(folder);
  } catch (error) {
    throw new Error(`with byte ${at} of ${file} flipped`, { cause: error });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Throws unless the error says that this file is damaged. */
function assertNames(error: unknown, file: string): void {
  assert.ok(error instanceof HersError, String(error));
  assert.equal(error.code, 'DAMAGED', error.message);
  assert.match(error.message, new RegExp(file.replace(/^.*\//, '').replaceAll('.', '\\.')));
}

/**
 * Requests everything, one by one. Returns what could not be read; everything else must be right.
 */
async function losses(store: Service, name: string, file: string): Promise<string[]> {
  const { records, lists, blocks } = contents.get(name)!;
  const lost: string[] = [];
  const attempt = async (what: string, get: () => Promise<string>, expected: string) => {
    try {
      assert.equal(await get(), expected, what);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      assertNames(error, file);
      lost.push(what);
    }
  };
  // All of them at once; if that fails, each half.
  const attemptAll = async <T>(
    what: string,
    items: readonly T[],
    get: (items: readonly T[]) => Promise<string>,
    expected: (item: T) => string,
  ) => {
    const before = lost.length;
    await attempt(what, () => get(items), items.map(expected).join());
    if (lost.length === before || items.length === 1) return;
    lost.pop();
    const half = items.length >> 1;
    await attemptAll(what, items.slice(0, half), get, expected);
    await attemptAll(what, items.slice(half), get, expected);
  };
  const getRecords = async (some: readonly SealedRecord[]) => {
    const found = await Array.fromAsync(
      store.getRecords(
        name,
        some.map(({ handle }) => handle),
      ),
    );
    return found.map(({ sealed }) => hex(sealed)).join();
  };
  await attemptAll('record', records, getRecords, ({ sealed }) => hex(sealed));
  const getLists = async (some: readonly Uint8Array[]) =>
    (await Array.fromAsync(store.getLists(name, some.map(listId)))).map(hex).join();
  await attemptAll('list', lists, getLists, hex);
  for (const block of blocks) {
    const get = async () => hex(Buffer.concat(await Array.fromAsync(store.getBlock(name, block.blockId))));
    await attempt('block', get, hex(encodeBlock(block)));
  }
  const query = new Samples(5).query({ width: 2 });
  const search = async (some: Block[]) => {
    const ids = some.map(({ blockId }) => blockId);
    const request = { version: 3, queries: [encodeQuery(query)], blocks: ids };
    return (await Array.fromAsync(store.search(name, request))).map(hex).sort().join();
  };
  const expected = (some: Block[]) => expectedResponses(some, [query]).map(hex).sort().join();
  await attempt('search of all', () => search(blocks), expected(blocks));
  for (const block of blocks.slice(9)) await attempt('search of a block', () => search([block]), expected([block]));
  const manifest = async () => hex((await store.getManifest(name)).manifest);
  await attempt('manifest', manifest, hex(text(`${name} 3`)));
  return lost;
}

/** Positions throughout a file: both ends, and `count` in between. */
function positions(file: string, count: number): number[] {
  const { size } = statSync(join(original, file));
  const between = Array.from({ length: count }, (_, i) => Math.floor(((i + 0.37) * size) / count));
  return [...new Set([0, 9, 20, size - 1, ...between])].filter((at) => at < size);
}

const filesIn = (folder: string) => readdirSync(join(original, folder)).map((file) => `${folder}/${file}`);
const ownerOf = (file: string) => NAMES[Number(/\/(\d+)-/.exec(file)![1]) - 1];

/**
 * Opens the damaged folder and returns what is lost in the file's collection. The other collection
 * must have lost nothing.
 */
async function lossesOf(file: string, at: number, check: (lost: string[], store: FolderStore) => void): Promise<void> {
  await withFlipped(file, at, async (folder) => {
    const store = await openStore(folder, { kernel });
    try {
      const owner = ownerOf(file);
      for (const name of NAMES) {
        const lost = await losses(store, name, file);
        if (name === owner) check(lost, store);
        else assert.deepEqual(lost, [], `${name} has nothing to do with it`);
      }
    } finally {
      await store.close();
    }
  });
}

/** What a scrub of the folder says is damaged, by file. */
async function scrubbed(folder: string): Promise<Map<string, HersError>> {
  const store = await openStore(folder, { kernel, onBackgroundError: () => {} });
  try {
    const damage = new Map<string, HersError>();
    for (const { name, damage: why } of store.damagedCollections()) damage.set(name, why);
    for await (const { file, damage: why } of store.scrub()) if (why) damage.set(file, why);
    return damage;
  } finally {
    await store.close();
  }
}

describe('a scrub', () => {
  it('reads every file of a folder to its end, and finds nothing wrong with what was written', async () => {
    const folder = `${original}-copy`; // a scrub may merge fresh records
    cpSync(original, folder, { recursive: true });
    const store = await openStore(folder, { kernel });
    const found = await Array.fromAsync(store.scrub());
    assert.deepEqual(
      found.filter(({ damage }) => damage),
      [],
    );
    const files = ['catalogue.db', ...['blocks', 'segments', 'vault'].flatMap(filesIn)];
    assert.deepEqual(found.map(({ file }) => file).sort(), files.sort());
    for (const { file, bytes, collection } of found) {
      if (file === 'catalogue.db') continue;
      assert.equal(collection, ownerOf(file));
      assert.equal(bytes, statSync(join(original, file)).size, file);
    }
    await store.close();
    rmSync(folder, { recursive: true });
  });

  it('goes on with the others where a collection is replaced or deleted while it is read', async () => {
    const folder = `${original}-replaced`;
    cpSync(original, folder, { recursive: true });
    const store = await openStore(folder, { kernel });
    const [first, ...others] = (await store.listCollections()).map(({ name }) => name);
    assert.ok(others.length > 0);
    const copy = await Array.fromAsync(store.snapshot(first));
    for (const end of [() => store.replace(first, copy), () => store.deleteCollection(first)]) {
      const seen = new Set<string>();
      let ended: Promise<void> | undefined;
      for await (const { collection, damage } of store.scrub()) {
        assert.equal(damage, undefined);
        if (collection) seen.add(collection);
        if (collection !== first || ended) continue;
        ended = end();
        await pause(200); // it waits for this scrub by now
      }
      assert.ok(ended);
      await ended;
      assert.deepEqual([...seen].sort(), [first, ...others].sort());
    }
    await store.close();
    rmSync(folder, { recursive: true });
  });

  it('finds a flipped byte wherever it is, names its file, and goes on with the others', async () => {
    for (const file of ['blocks', 'segments', 'vault'].flatMap((folder) => filesIn(folder).slice(0, 2))) {
      for (const at of positions(file, 8)) {
        await withFlipped(file, at, async (folder) => {
          const damage = await scrubbed(folder);
          assert.deepEqual([...damage.keys()], [file]);
          assertNames(damage.get(file), file);
        });
      }
    }
  });

  it('tells of a damaged catalogue, and which collections are lost with it; the others are read, and can be copied', async () => {
    const { size } = statSync(join(original, 'catalogue.db'));
    let partly = 0;
    for (let page = 4096; page < size; page += 3 * 4096) {
      await withFlipped('catalogue.db', page + 1234, async (folder) => {
        const refused = await openStore(folder, { kernel, onBackgroundError: () => {} }).then(
          (store) => store.close().then(() => false),
          () => true,
        );
        if (refused) return;
        const damage = await scrubbed(folder);
        assertNames(damage.get('catalogue.db'), 'catalogue.db');
        const lost = NAMES.filter((name) => damage.has(name));
        assert.ok(lost.length <= 1 && damage.size === 1 + lost.length, [...damage.keys()].join());
        if (lost.length === 0) return;
        partly++;
        const store = await openStore(folder, { kernel, onBackgroundError: () => {} });
        const other = NAMES.find((name) => name !== lost[0])!;
        const copy = await openStore(`${folder}-copy`, { kernel });
        try {
          await copy.restore(other, store.snapshot(other));
          assert.deepEqual(await losses(copy, other, ''), []);
        } finally {
          await Promise.all([store.close(), copy.close()]);
          rmSync(`${folder}-copy`, { recursive: true });
        }
      });
    }
    assert.ok(partly > 1);
  });

  it('finds a missing file', async () => {
    for (const folder of ['blocks', 'segments', 'vault']) {
      const [file] = filesIn(folder);
      await withFlipped(file, 0, async (flipped) => {
        rmSync(join(flipped, file));
        assertNames((await scrubbed(flipped)).get(file), file);
      });
    }
  });
});

describe('one flipped byte', () => {
  it('in a pack costs at most one record or list', async () => {
    let noticed = 0;
    for (const file of filesIn('vault')) {
      for (const at of positions(file, 12)) {
        await lossesOf(file, at, (lost) => {
          assert.ok(lost.length <= 1, lost.join());
          noticed += lost.length;
        });
      }
    }
    assert.ok(noticed >= 20, `only ${noticed} noticed`);
  });

  it('in a block of its own costs this block', async () => {
    for (const file of filesIn('blocks').slice(0, 3)) {
      for (const at of positions(file, 6)) {
        await lossesOf(file, at, (lost) => {
          assert.deepEqual(lost.sort(), ['block', 'search of a block', 'search of all']);
        });
      }
    }
  });

  it('in a segment costs searches that need it, and at most one block when it is in the data', async () => {
    for (const file of filesIn('segments')) {
      for (const at of positions(file, 8)) {
        await lossesOf(file, at, (lost) => {
          const blocks = lost.filter((what) => what === 'block').length;
          assert.ok(
            lost.every((what) => what === 'block' || what.startsWith('search')),
            lost.join(),
          );
          if (at >= 4096) assert.ok(blocks <= 1);
          assert.ok(lost.includes('search of all'));
          // Of the blocks that are searched one by one, three have files of their own.
          assert.equal(lost.filter((what) => what === 'search of a block').length, 3);
        });
      }
    }
  });

  it('in the catalogue costs one collection, or is said when the folder is opened', async () => {
    let refused = 0;
    let partly = 0;
    const { size } = statSync(join(original, 'catalogue.db'));
    for (let page = 0; page < size; page += 4096) {
      const at = page + (((page * 7) % 4096) >> 1) + 11;
      await withFlipped('catalogue.db', at, async (folder) => {
        let told = 0;
        const onBackgroundError = (error: unknown) => {
          assertNames(error, 'catalogue.db');
          told++;
        };
        let store: FolderStore;
        try {
          store = await openStore(folder, { kernel, onBackgroundError });
        } catch (error) {
          assertNames(error, 'catalogue.db');
          refused++;
          return;
        }
        try {
          const lost = await Promise.all(NAMES.map((name) => losses(store, name, 'catalogue.db')));
          assert.ok(lost.filter(({ length }) => length > 0).length <= 1);
          partly += Number(lost.some(({ length }) => length > 0));
          for (const name of NAMES) {
            const list = store
              .stageList(name, text('x'))
              .then((stage) => store.commit(name, { expected: 3, manifest: text('4'), lists: [stage] }));
            await assert.rejects(list, (error) => {
              assertNames(error, 'catalogue.db');
              return true;
            });
          }
        } finally {
          await store.close();
        }
        // Opening it did not make anything worse.
        const again = await openStore(folder, { kernel, onBackgroundError });
        await again.close();
        assert.equal(told, 2);
      });
    }
    assert.ok(refused > 0 && partly > 5, `refused ${refused} times, partly usable ${partly} times`);
  });

  it('in what proves the catalogue is a finding: all can be read, nothing written, until it is mended', async () => {
    for (const file of ['catalogue.sums', 'catalogue.journal']) {
      for (const at of positions(file, 5)) {
        await withFlipped(file, at, async (folder) => {
          // An invalid entry at the end is what a crash leaves before a transaction is
          // acknowledged. The catalogue has everything.
          const isTorn = readJournal(new Disk(folder))!.end < statSync(join(folder, 'catalogue.journal')).size;
          if (isTorn && file === 'catalogue.journal' && !readJournal(new Disk(folder))!.damage) return;
          const flipped = readFileSync(join(folder, file));
          for (const mode of ['write', 'read'] as const) {
            const told: unknown[] = [];
            const store = await openStore(folder, { kernel, mode, onBackgroundError: (error) => told.push(error) });
            for (const name of NAMES) assert.deepEqual(await losses(store, name, ''), []);
            assert.equal(told.length, 1);
            assertNames(told[0], file);
            const change = store.commit('first', { expected: 3, manifest: text('4') });
            await assert.rejects(change, (error: HersError) => mode === 'read' || error.code === 'DAMAGED');
            await store.close();
          }
          assert.deepEqual(readFileSync(join(folder, file)), flipped, 'nothing was remade');
          assert.ok(await mendProofs(folder));
          const store = await openStore(folder, { kernel, onBackgroundError: assert.ifError });
          for (const name of NAMES) assert.deepEqual(await losses(store, name, ''), []);
          await store.commit('first', { expected: 3, manifest: text('4') });
          await store.close();
        });
      }
    }
  });

  it('in the line that names the format is said', async () => {
    for (const at of positions('format', 22)) {
      await withFlipped('format', at, async (folder) => {
        await assert.rejects(openStore(folder), (error: HersError) =>
          ['DAMAGED', 'UNSUPPORTED_VERSION'].includes(error.code),
        );
      });
    }
  });
});

it('a flipped byte in the log of the catalogue after a crash loses no commit without a word', () =>
  withFolder(async (parent) => {
    const script = new Script(8, 0.1);
    const folder = join(parent, 'open');
    const crashed = join(parent, 'crashed');
    const store = await openStore(folder, { kernel });
    const steps = 5;
    for (let i = 0; i < steps; i++) await script.step(i).run(store);
    cpSync(folder, crashed, { recursive: true }); // as after a kill
    await store.close();
    const log = readFileSync(join(crashed, 'catalogue.db-wal'));
    const holds = async (service: Service, expected: Expected) =>
      checkHolds(service, expected).then(
        () => true,
        () => false,
      );
    let said = 0;
    for (let i = 0; i < 40; i++) {
      const at = i < 3 ? 12 * i : Math.floor(((i + 0.5) * log.length) / 40);
      const flipped = join(parent, 'flipped');
      cpSync(crashed, flipped, { recursive: true });
      const bytes = Buffer.from(log);
      bytes[at] ^= 4;
      writeFileSync(join(flipped, 'catalogue.db-wal'), bytes);
      try {
        const opened = await openStore(flipped, { kernel });
        assert.ok(await holds(opened, script.after(steps)), `after a flip at ${at} of ${log.length}`);
        await opened.close();
      } catch (error) {
        assertNames(error, 'catalogue.db-wal');
        assert.deepEqual(readFileSync(join(flipped, 'catalogue.db-wal')), bytes, 'and nothing was touched');
        said++;
      }
      rmSync(flipped, { recursive: true });
    }
    assert.ok(said > 20, `said ${said} times of 40`);
  }));

it('a missing file is named, and the rest stays usable', async () => {
  for (const [folder, expected] of [
    ['vault', ['record', 'list']],
    ['blocks', ['block', 'search of a block', 'search of all']],
    ['segments', ['block', 'search of a block', 'search of all']],
  ] as const) {
    const [file] = filesIn(folder);
    await withFlipped(file, 0, async (flipped) => {
      rmSync(join(flipped, file));
      const store = await openStore(flipped, { kernel });
      for (const name of NAMES) {
        const lost = new Set(await losses(store, name, file));
        assert.ok([...lost].every((what) => (expected as readonly string[]).includes(what)));
        assert.equal(lost.size > 0, name === ownerOf(file));
        // New records can be added too.
        const stage = await store.stageList(name, text('new'));
        await store.commit(name, { expected: 3, manifest: text('new'), lists: [stage] });
        assert.equal(hex((await Array.fromAsync(store.getLists(name, [listId(text('new'))])))[0]), hex(text('new')));
      }
      await store.close();
    });
  }
});

describe('a pack that is not the one that was written', () => {
  const packs = () => readdirSync(join(original, 'vault')).map((file) => `vault/${file}`);
  const ways: [string, (folder: string, pack: string) => void][] = [
    ['one byte short', (folder, pack) => truncateSync(join(folder, pack), statSync(join(folder, pack)).size - 1)],
    ['cut to half', (folder, pack) => truncateSync(join(folder, pack), statSync(join(folder, pack)).size >> 1)],
    ['empty', (folder, pack) => truncateSync(join(folder, pack), 0)],
    [
      'exchanged for another',
      (folder, pack) => {
        const other = packs().find((each) => each !== pack)!;
        cpSync(join(original, other), join(folder, pack));
      },
    ],
    [
      'all zeros',
      (folder, pack) => writeFileSync(join(folder, pack), new Uint8Array(statSync(join(folder, pack)).size)),
    ],
  ];
  for (const [way, change] of ways)
    it(`${way}: scrub names it, and snapshot and purge end`, { timeout: 60_000 }, async () => {
      for (const pack of packs()) {
        const folder = `${original}-${way.replaceAll(' ', '-')}`;
        rmSync(folder, { recursive: true, force: true });
        cpSync(original, folder, { recursive: true });
        change(folder, pack);
        const store = await openStore(folder, { kernel });
        try {
          const signal = new AbortController().signal;
          const found = await Array.fromAsync(store.scrub({ signal }));
          assert.ok(
            found.some(({ damage }) => damage?.code === 'DAMAGED' && damage.message.includes(pack)),
            `${way} ${pack}: ${found.map(({ damage }) => damage?.message).join('; ')}`,
          );
          const typed = (error: unknown) => assert.ok(error instanceof HersError, String(error));
          for (const name of NAMES) {
            await Array.fromAsync(store.snapshot(name)).catch(typed);
            await store.purge(name).catch(typed);
          }
        } finally {
          await store.close();
          rmSync(folder, { recursive: true, force: true });
        }
      }
    });
});

describe('a catalogue that is not the one written last', () => {
  const filesIn = (folder: string) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path, createHash('sha256').update(readFileSync(path)).digest('hex')])
      .sort();
  const catalogue = (folder: string) => join(folder, 'catalogue.db');
  const cases: [string, (folder: string) => Promise<void> | void][] = [
    ['is empty', (folder) => truncateSync(catalogue(folder), 0)],
    ['is missing', (folder) => rmSync(catalogue(folder))],
    [
      'is empty, and so are its sums',
      (folder) => {
        truncateSync(catalogue(folder), 0);
        rmSync(join(folder, 'catalogue.sums'));
      },
    ],
    [
      'is gone with its sums',
      (folder) => {
        rmSync(catalogue(folder));
        rmSync(join(folder, 'catalogue.sums'));
      },
    ],
    [
      'is an older copy',
      async (folder) => {
        const older = readFileSync(catalogue(folder));
        const store = await openStore(folder, { kernel });
        await fill(store, 'third', 99);
        await store.close();
        writeFileSync(catalogue(folder), older);
      },
    ],
    [
      'is an older copy, and so are its sums',
      async (folder) => {
        const older = ['catalogue.db', 'catalogue.sums'].map(
          (file) => [file, readFileSync(join(folder, file))] as const,
        );
        await goOn(folder);
        for (const [file, bytes] of older) writeFileSync(join(folder, file), bytes);
      },
    ],
    [
      'is an older copy, and its journal is lost',
      async (folder) => {
        const older = readFileSync(catalogue(folder));
        await goOn(folder);
        writeFileSync(catalogue(folder), older);
        rmSync(join(folder, 'catalogue.journal'));
      },
    ],
    [
      'is newer than its sums and its journal by more than a crash explains',
      async (folder) => {
        const older = ['catalogue.sums', 'catalogue.journal'].map(
          (file) => [file, readFileSync(join(folder, file))] as const,
        );
        await goOn(folder);
        await goOn(folder);
        for (const [file, bytes] of older) writeFileSync(join(folder, file), bytes);
      },
    ],
    ['has pages that were never written', (folder) => appendFileSync(catalogue(folder), new Uint8Array(4096))],
    [
      'has lost its log after a crash',
      async (folder) => {
        await crash(folder);
        rmSync(join(folder, 'catalogue.db-wal'));
      },
    ],
    [
      'has a log of another moment',
      async (folder) => {
        await crash(folder);
        const log = readFileSync(join(folder, 'catalogue.db-wal'));
        await crash(folder);
        writeFileSync(join(folder, 'catalogue.db-wal'), log);
      },
    ],
    [
      'is that of a copy of the folder which went on by itself',
      async (folder) => {
        const other = `${folder}-other`;
        cpSync(folder, other, { recursive: true });
        await goOn(folder);
        await goOn(other);
        for (const file of ['catalogue.db', 'catalogue.sums']) cpSync(join(other, file), join(folder, file));
        rmSync(other, { recursive: true });
      },
    ],
  ];
  /** One more transaction. */
  async function goOn(folder: string): Promise<void> {
    const store = await openStore(folder, { kernel });
    const { version } = await store.getManifest('first');
    await store.commit('first', { expected: version, manifest: new Samples(Date.now()).bytes(20) });
    await store.close();
  }
  /** The same in a process that is then killed. */
  async function crash(folder: string): Promise<void> {
    const crashed = `${folder}-crashed`;
    const store = await openStore(folder, { kernel });
    const { version } = await store.getManifest('first');
    await store.commit('first', { expected: version, manifest: new Samples(Date.now()).bytes(20) });
    cpSync(folder, crashed, { recursive: true });
    await store.close();
    rmSync(folder, { recursive: true });
    cpSync(crashed, folder, { recursive: true });
    rmSync(crashed, { recursive: true });
  }
  for (const [what, change] of cases)
    it(`${what}: nothing is opened, and nothing is touched`, async () => {
      const folder = `${original}-catalogue`;
      rmSync(folder, { recursive: true, force: true });
      cpSync(original, folder, { recursive: true });
      const whole = catalogue(folder);
      const good = [readFileSync(whole), readFileSync(join(folder, 'catalogue.sums'))];
      const journal = readFileSync(join(folder, 'catalogue.journal'));
      await change(folder);
      const before = filesIn(folder);
      for (const mode of ['write', 'read'] as const)
        await assert.rejects(
          openStore(folder, { kernel, mode }),
          (error) =>
            error instanceof HersError &&
            error.code === 'DAMAGED' &&
            /^catalogue\.db(?:-wal)? is damaged.*nothing was changed.*bring back/.test(error.message),
        );
      assert.deepEqual(filesIn(folder), before);
      // The folder that went on has another journal.
      const left = join(folder, 'catalogue.journal');
      if (existsSync(left) && readFileSync(left).equals(journal)) {
        // The copy is complete.
        writeFileSync(whole, good[0]);
        writeFileSync(join(folder, 'catalogue.sums'), good[1]);
        const store = await openStore(folder, { kernel });
        assert.equal((await store.listCollections()).length, NAMES.length);
        for (const { damage } of await Array.fromAsync(store.scrub())) assert.equal(damage, undefined);
        await store.close();
      }
      rmSync(folder, { recursive: true, force: true });
    });
});

it('a rollback journal, which SQLite would play back: a reader refuses it, and a writer sets it aside', async () => {
  const folder = `${original}-rollback`;
  cpSync(original, folder, { recursive: true });
  const path = join(folder, 'catalogue.db-journal');
  writeFileSync(path, readFileSync(join(folder, 'catalogue.db')).subarray(0, 4096));
  await assert.rejects(openStore(folder, { kernel, mode: 'read' }), (error) => {
    assertNames(error, 'catalogue.db-journal');
    return true;
  });
  assert.ok(existsSync(path));
  const store = await openStore(folder, { kernel });
  for (const name of NAMES) assert.deepEqual(await losses(store, name, ''), []);
  assert.deepEqual(
    store.setAside().map((file) => file.path),
    ['lost+found/catalogue.db-journal'],
  );
  assert.ok(!existsSync(path));
  await store.close();
  rmSync(folder, { recursive: true });
});
