// A disk that is full, read-only or failing, too many open files, two processes: the errors are
// clear, nothing acknowledged is lost, and work continues afterwards.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { type ErrorCode, HersError } from '@hers/scheme';
import type { Change } from '@hers/service';
import { withFolder } from '../testing/crash.ts';
import { checkHolds, Script } from '../testing/crash-script.ts';
import type { Step } from './files/disk.ts';
import { openSalvage, type SalvageOptions } from './salvage/salvage.ts';
import { MAX_MANIFEST_BYTES } from './snapshot.ts';
import { openStore, openWatched } from './store.ts';

const kernel = async () => new ReferenceKernel();
const STORE = new URL('./store.ts', import.meta.url).href;
const isRoot = process.getuid?.() === 0;

const fails = (code: ErrorCode, message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof HersError, String(error));
  assert.equal(error.code, code, error.message);
  assert.match(error.message, message);
  return true;
};

const failure = (code: string) => Object.assign(new Error(`${code}: so says the test`), { code });

describe('a disk that fails once', () => {
  const STEPS = 9;

  /**
   * Runs the script with step `failing` of the disk refused, and retries the refused call. Returns
   * whether there was such a step.
   */
  async function runWith(folder: string, script: Script, failing: number, code: string): Promise<boolean> {
    let steps = 0;
    const refused: Step[] = [];
    const before = (step: Step) => {
      if (++steps !== failing) return;
      refused.push(step);
      throw failure(code);
    };
    const troubles: unknown[] = [];
    const onBackgroundError = (error: unknown) => troubles.push(error);
    const open = () => openWatched(folder, { kernel, quietMs: 1, onBackgroundError }, { before });
    let store: Awaited<ReturnType<typeof open>>;
    try {
      store = await open();
    } catch (error) {
      fails('STORAGE', /./)(error);
      store = await open();
    }
    for (let i = 0; i < STEPS; i++) {
      try {
        await script.step(i).run(store);
      } catch (error) {
        fails('STORAGE', code === 'EIO' ? /reports an error/ : /no room left/)(error);
        await checkHolds(store, script.after(i));
        await script.step(i).run(store);
      }
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    for (const trouble of troubles) fails('STORAGE', /./)(trouble);
    await checkHolds(store, script.after(STEPS));
    await store.close();
    const again = await openStore(folder, { kernel });
    await checkHolds(again, script.after(STEPS));
    await again.close();
    return refused.length > 0;
  }

  for (const code of ['ENOSPC', 'EIO']) {
    it(`with ${code} at any step fails one call, and no other`, () =>
      withFolder(async (parent) => {
        let tried = 0;
        // Every third step, and with the other code those between.
        for (let failing = code === 'EIO' ? 2 : 1; ; failing += 3) {
          const folder = join(parent, String(failing));
          const happened = await runWith(folder, new Script(6, 0.05), failing, code).catch((error) => {
            throw new Error(`when step ${failing} was refused`, { cause: error });
          });
          rmSync(folder, { recursive: true });
          if (!happened) break;
          tried++;
        }
        assert.ok(tried > 30, `only ${tried} steps`);
      }));
  }
});

/** A small file system for the test, where the machine allows one. */
async function withSmallDisk(t: TestContext, bytes: number, work: (folder: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const mount = isRoot ? spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'hers-test', folder]) : undefined;
    if (mount?.status !== 0) {
      t.skip('a file system can be mounted only by root; the same is tried with refused steps above');
      return;
    }
    try {
      await work(folder);
    } finally {
      spawnSync('umount', ['-l', folder]);
    }
  });
}

it('a full disk refuses what does not fit, and it goes on when there is room', (t) =>
  withSmallDisk(t, 6 * 2 ** 20, async (disk) => {
    const script = new Script(5);
    const folder = join(disk, 'store');
    const filler = join(disk, 'filler');
    const store = await openStore(folder, { kernel, quietMs: 1, onBackgroundError: () => {} });
    let refused = 0;
    for (let i = 0; i < 14; i++) {
      // Only a little room, first for the packs and then for the catalogue.
      const { bavail } = statFs(disk);
      writeFileSync(filler, Buffer.alloc(Math.max(0, bavail - 40_000 * (i % 5))));
      try {
        await script.step(i).run(store);
      } catch (error) {
        refused++;
        fails('STORAGE', /no room left|reports an error/)(error);
        await checkHolds(store, script.after(i));
        rmSync(filler);
        await script.step(i).run(store);
      }
      rmSync(filler, { force: true });
    }
    assert.ok(refused > 5, `refused ${refused} times`);
    await checkHolds(store, script.after(14));
    // Closing on a full disk loses nothing either.
    writeFileSync(filler, Buffer.alloc(statFs(disk).bavail));
    await store.close();
    rmSync(filler);
    const again = await openStore(folder, { kernel });
    await checkHolds(again, script.after(14));
    await again.close();
  }));

it('a full disk still lets people read, copy elsewhere and delete', (t) =>
  withSmallDisk(t, 100 * 2 ** 20, async (disk) => {
    const script = new Script(5);
    const folder = join(disk, 'store');
    const fill = () => {
      const file = openSync(join(disk, 'filler'), 'a');
      try {
        for (const bytes of [2 ** 20, 2 ** 12, 1]) for (;;) if (!written(file, bytes)) break;
      } finally {
        closeSync(file);
      }
    };
    const store = await openStore(folder, { kernel, quietMs: 1, onBackgroundError: () => {} });
    for (let i = 0; i < 5; i++) await script.step(i).run(store);
    fill();
    await checkHolds(store, script.after(5));
    await assert.rejects(script.step(5).run(store), fails('STORAGE', /no room/));
    await store.close();
    fill(); // closing has released the reserve
    const reader = await openStore(folder, { kernel, mode: 'read' });
    await checkHolds(reader, script.after(5));
    await withFolder(async (elsewhere) => {
      const copy = await openStore(elsewhere, { kernel });
      await copy.restore('faces', reader.snapshot('faces'));
      await copy.close();
    });
    await reader.close();

    // With a reserve, which is made again as soon as there is room.
    rmSync(join(disk, 'filler'));
    await (await openStore(folder, { kernel })).close();
    assert.ok(existsSync(join(folder, 'reserve')));
    fill();
    const deleting = await openStore(folder, { kernel, onBackgroundError: () => {} });
    await checkHolds(deleting, script.after(5));
    const { version } = await deleting.getManifest('faces');
    const removed = [...script.after(5).get('faces')!.records.values()].map(({ handle }) => handle);
    await deleting.commit('faces', { expected: version, manifest: new Uint8Array(60), removed });
    assert.equal((await deleting.getCollection('faces')).records, 0);
    await deleting.close();
    const again = await openStore(folder, { kernel, mode: 'read' });
    assert.equal((await again.getCollection('faces')).records, 0);
    await again.close();
  }));

it('a disk that becomes full while the folder is open still lets people delete, and nothing else', (t) =>
  withSmallDisk(t, 100 * 2 ** 20, async (disk) => {
    const script = new Script(5);
    const folder = join(disk, 'store');
    const store = await openStore(folder, { kernel, quietMs: 60_000, onBackgroundError: () => {} });
    for (let i = 0; i < 5; i++) await script.step(i).run(store);
    assert.ok(existsSync(join(folder, 'reserve')));
    const file = openSync(join(disk, 'filler'), 'a');
    for (const bytes of [2 ** 20, 2 ** 12, 1]) for (;;) if (!written(file, bytes)) break;
    closeSync(file);
    await assert.rejects(script.step(5).run(store), fails('STORAGE', /no room/));
    const { version } = await store.getManifest('faces');
    const handles = [...script.after(5).get('faces')!.records.values()].map(({ handle }) => handle);
    // One after the other, until the log has filled the room that it had left.
    for (const [i, handle] of handles.entries())
      await store.commit('faces', { expected: version + i, manifest: new Uint8Array(60 + i), removed: [handle] });
    assert.equal((await store.getCollection('faces')).records, 0);
    await store.close();
    await using again = await openStore(folder, { kernel, mode: 'read' });
    assert.equal((await again.getCollection('faces')).records, 0);
  }));

/** Whether there was room for this many bytes. */
function written(file: number, bytes: number): boolean {
  try {
    writeSync(file, Buffer.alloc(bytes));
    return true;
  } catch {
    return false;
  }
}

/** Bytes available. */
function statFs(path: string): { bavail: number } {
  const out = spawnSync('df', ['--output=avail', '-B1', path], { encoding: 'utf8' }).stdout;
  return { bavail: Number(out.split('\n')[1]) };
}

it('a read-only folder says so, with and without a log', (t) =>
  withSmallDisk(t, 12 * 2 ** 20, async (disk) => {
    const folder = join(disk, 'store');
    const crashed = join(disk, 'crashed');
    const script = new Script(5, 0.1);
    const store = await openStore(folder, { kernel });
    for (let i = 0; i < 5; i++) await script.step(i).run(store);
    // As after a crash: the last commits are only in the log, and nothing can make an index of it.
    cpSync(folder, crashed, { recursive: true });
    rmSync(join(crashed, 'catalogue.db-shm'));
    await store.close();
    assert.ok(statSync(join(crashed, 'catalogue.db-wal')).size > 0);
    const remount = (how: string) => spawnSync('mount', ['-o', `remount,${how}`, disk]).status;
    // Copies go to a folder where nobody else puts any.
    const temporary = mkdtempSync(join(tmpdir(), 'hers-copies-'));
    const { TMPDIR } = process.env;
    process.env.TMPDIR = temporary;
    t.after(() => {
      if (TMPDIR === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = TMPDIR;
      rmSync(temporary, { recursive: true });
    });
    const copies = () => readdirSync(temporary).length;
    assert.equal(remount('ro'), 0);
    for (const where of [folder, crashed])
      for (const mode of ['write', 'read'] as const) {
        const reading = await openStore(where, { kernel, mode });
        assert.equal(copies(), where === crashed ? 1 : 0, 'a log is read from a copy');
        assert.ok(reading.isReadOnly);
        await checkHolds(reading, script.after(5));
        await assert.rejects(script.step(5).run(reading), fails('STORAGE', /read-only|to be read/));
        await reading.close();
        assert.equal(copies(), 0, 'the copy is removed');
      }
    await assert.rejects(openStore(join(disk, 'new'), { kernel }), fails('STORAGE', /read-only/));
    const readers = await Promise.all([folder, crashed].map((where) => openStore(where, { kernel, mode: 'read' })));
    assert.equal(remount('rw'), 0);
    for (const [i, where] of [folder, crashed].entries()) {
      const again = await openStore(where, { kernel });
      assert.ok(!again.isReadOnly);
      await checkHolds(again, script.after(5));
      await script.step(5).run(again);
      // A reader that was there before sees it.
      await checkHolds(readers[i], script.after(6));
      await again.close();
      await readers[i].close();
    }
    assert.equal(copies(), 0);
  }));

it('a folder that becomes read-only can still be read', () =>
  withFolder(async (folder) => {
    let readOnly = false;
    const before = () => {
      if (readOnly) throw failure('EROFS');
    };
    const script = new Script(5, 0.1);
    const store = await openWatched(folder, { kernel, onBackgroundError: () => {} }, { before });
    for (let i = 0; i < 7; i++) await script.step(i).run(store);
    readOnly = true;
    await assert.rejects(script.step(7).run(store), fails('STORAGE', /read-only/));
    await checkHolds(store, script.after(7));
    readOnly = false;
    await script.step(7).run(store);
    await checkHolds(store, script.after(8));
    await store.close();
  }));

it('a collection that could not be deleted is still there, and usable', () =>
  withFolder(async (folder) => {
    let failing = false;
    const before = ({ path }: Step) => {
      if (failing && path === 'catalogue.journal') throw failure('EIO');
    };
    const script = new Script(5, 0.1);
    const store = await openWatched(folder, { kernel, onBackgroundError: () => {} }, { before });
    for (let i = 0; i < 2; i++) await script.step(i).run(store);
    failing = true;
    // Nothing fails after a commit. The next transaction finds that its journal cannot be written.
    await script.step(2).run(store);
    await assert.rejects(store.deleteCollection('faces'), fails('STORAGE', /reports an error at catalogue/));
    await checkHolds(store, script.after(3));
    failing = false;
    await script.step(3).run(store);
    await checkHolds(store, script.after(4));
    await store.deleteCollection('faces');
    assert.deepEqual(await store.listCollections(), []);
    await store.close();
  }));

it('a kernel that cannot be opened fails one search, and the next search tries again', () =>
  withFolder(async (folder) => {
    let tries = 0;
    const script = new Script(5, 0.1);
    const store = await openStore(folder, {
      async kernel() {
        if (++tries === 1) throw new HersError('STORAGE', 'no kernel yet');
        return new ReferenceKernel();
      },
    });
    for (let i = 0; i < 3; i++) await script.step(i).run(store);
    await assert.rejects(checkHolds(store, script.after(3)), fails('STORAGE', /no kernel yet/));
    await checkHolds(store, script.after(3));
    assert.equal(tries, 2, 'it is opened once');
    await store.close();
  }));

it('a folder without permission says so', { skip: isRoot && 'nothing is forbidden to root' }, () =>
  withFolder(async (parent) => {
    const folder = join(parent, 'store');
    mkdirSync(folder);
    chmodSync(folder, 0o500);
    await assert.rejects(openStore(folder, { kernel }), fails('STORAGE', /read-only/));
    chmodSync(folder, 0o700);
  }),
);

/** Runs a program in another process that may have only this many open files. */
function runElsewhere(program: string, files = 1024): Promise<string> {
  const command = `ulimit -n ${files}; exec "$0" --input-type=module -e "$1"`;
  const child = spawn('sh', ['-c', command, process.execPath, program], { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((resolve) => {
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
    child.on('close', () => resolve(output));
  });
}

it('a process that may open no more files is told so, and goes on when it may', () =>
  withFolder(async (folder) => {
    const output = await runElsewhere(
      `import { openSync, closeSync } from 'node:fs';
       import { openStore } from ${JSON.stringify(STORE)};
       const store = await openStore(${JSON.stringify(folder)});
       await store.createCollection('faces', { id: new Uint8Array(16), descriptor: new Uint8Array(1), manifest: new Uint8Array(1) });
       const record = { handle: new Uint8Array(16), sealed: new Uint8Array(50) };
       await store.commit('faces', { expected: 1, manifest: new Uint8Array(2), records: [await store.stageRecords('faces', [record])] });
       const files = [];
       try { for (;;) files.push(openSync('/dev/null')); } catch {}
       const attempts = {
         stageRecords: () => store.stageRecords('faces', [record]),
         stageBlock: () => store.stageList('faces', new Uint8Array(9)),
         getRecords: () => Array.fromAsync(store.getRecords('faces', [record.handle])),
         purge: () => store.purge('faces'),
       };
       for (const attempt of Object.values(attempts)) await attempt().then(() => console.log('fine'), (error) => console.log(error.code));
       for (const file of files) closeSync(file);
       for (const attempt of Object.values(attempts)) await attempt().then(() => console.log('fine'), (error) => console.log(error.code));
       await store.close();`,
      60,
    );
    // A purge with nothing to do opens only the log, and SQLite already has a descriptor of that.
    assert.match(output, /^STORAGE\nSTORAGE\nSTORAGE\n(?:STORAGE|fine)\nfine\nfine\nfine\nfine\n$/);
  }));

it('a second process gets LOCKED, and a killed one leaves no lock', () =>
  withFolder(async (folder) => {
    const tryIt = `import { openStore } from ${JSON.stringify(STORE)};
      await openStore(${JSON.stringify(folder)}).then(() => console.log('open'), (error) => console.log(error.code));`;
    const store = await openStore(folder, { kernel });
    assert.equal(await runElsewhere(tryIt), 'LOCKED\n');
    await assert.rejects(openStore(folder, { kernel }), fails('LOCKED', /is being written by this process/));
    assert.equal(await runElsewhere(tryIt), 'LOCKED\n');
    await store.close();
    assert.equal(await runElsewhere(tryIt), 'open\n');
    assert.equal(await runElsewhere(`${tryIt} process.kill(process.pid, 'SIGKILL');`), 'open\n');
    assert.equal(await runElsewhere(tryIt), 'open\n');
  }));

/** Names, sizes, times and content of everything in a folder. */
function picture(folder: string): string[] {
  return readdirSync(folder, { recursive: true })
    .map(String)
    .sort()
    .map((file) => {
      const path = join(folder, file);
      const { size, mtimeMs } = statSync(path);
      return `${file} ${size} ${mtimeMs} ${statSync(path).isFile() ? readFileSync(path, 'hex') : ''}`;
    });
}

it('a folder in another format is refused, and left as it is', () =>
  withFolder(async (folder) => {
    await (await openStore(folder, { kernel })).close();
    const isOther = fails('UNSUPPORTED_VERSION', /in another format, .* make it again from its source$/);
    const signal = new AbortController().signal;
    for (const format of [0, 2, 10]) {
      writeFileSync(join(folder, 'format'), `HERS store, format ${format}\n`);
      const before = picture(folder);
      await assert.rejects(openStore(folder, { kernel }), isOther);
      // Nothing had the number 0: it is damage. The second finds no lock that the first has left.
      for (let i = 0; i < 2 && format > 0; i++) await assert.rejects(openSalvage(folder, { signal }), isOther);
      assert.deepEqual(picture(folder), before);
    }
    writeFileSync(join(folder, 'format'), 'HERS shards, format 1\n');
    await assert.rejects(openSalvage(folder, { signal }), fails('INVALID_ARGUMENT', /is the folder of a node/));
  }));

it('a folder with other files in it is refused and left as it is', () =>
  withFolder(async (folder) => {
    mkdirSync(join(folder, 'blocks'));
    writeFileSync(join(folder, 'blocks', 'precious.txt'), 'mine');
    const before = picture(folder);
    await assert.rejects(openStore(folder, { kernel }), fails('INVALID_ARGUMENT', /other files/));
    assert.deepEqual(picture(folder), before);
  }));

it('what a crash left is set aside, and what somebody else put there is not', () =>
  withFolder(async (folder) => {
    await (await openStore(folder, { kernel })).close();
    const own = [
      'blocks/1-00ff.block',
      'segments/7-00ff.building.a1b2.tmp',
      'segments/1-00ff.segment',
      'segments/1-00ff.building',
      'vault/3-1.pack',
    ];
    const foreign = ['vault/hers.key', 'blocks/notes.txt', 'segments/1-plan.segment', 'readme.txt'];
    for (const file of [...own, ...foreign]) writeFileSync(join(folder, file), 'x');
    await (await openStore(folder, { kernel })).close();
    assert.deepEqual(
      [...own, ...foreign].filter((file) => existsSync(join(folder, file))),
      foreign,
    );
    // Unfinished files are of no use.
    assert.deepEqual(readdirSync(join(folder, 'lost+found')).sort(), [
      '1-00ff.block',
      '1-00ff.segment',
      '3-1.pack',
      'ledger.json',
    ]);
  }));

it('a process that ends without closing the folder leaves it whole', () =>
  withFolder(async (folder) => {
    const script = new Script(5, 0.1);
    for (const [i, end] of ['', 'process.exit(0)', 'setTimeout(() => process.exit(0), 20)'].entries()) {
      const program = `import { openStore } from ${JSON.stringify(STORE)};
        import { Script } from ${JSON.stringify(new URL('../testing/crash-script.ts', import.meta.url).href)};
        const script = new Script(5, 0.1);
        const store = await openStore(${JSON.stringify(folder)});
        await script.step(${2 * i}).run(store);
        await script.step(${2 * i + 1}).run(store);
        console.log('done');
        ${end}`;
      assert.equal(await runElsewhere(program), 'done\n');
      const store = await openStore(folder, { kernel });
      await checkHolds(store, script.after(2 * i + 2));
      await store.close();
    }
  }));

it('an unknown option is an error', async () => {
  await assert.rejects(openStore('/nowhere', { quick: true } as object), fails('INVALID_ARGUMENT', /quick/));
  await assert.rejects(
    openStore('/nowhere', { mode: 'append' as 'read' }),
    fails('INVALID_ARGUMENT', /in the mode `write` or `read`/),
  );
  const salvaging = { signal: new AbortController().signal, mayBeReadonly: true } as SalvageOptions;
  await assert.rejects(
    openSalvage('/nowhere', salvaging),
    fails('INVALID_ARGUMENT', /^a salvage has no option "mayBeReadonly"; did you mean mayBeReadOnly\?$/),
  );
  await withFolder(async (folder) => {
    const store = await openStore(folder, { kernel });
    const scrubbing = store.scrub({ thread: 1 } as object);
    await assert.rejects(
      scrubbing.next(),
      fails('INVALID_ARGUMENT', /^a scrub has no option "thread"; did you mean threads\?$/),
    );
    await store.close();
  });
});

it('a change without its version and a manifest that is too long are refused', () =>
  withFolder(async (folder) => {
    const script = new Script(5, 0.1);
    const store = await openStore(folder, { kernel });
    await script.step(0).run(store);
    const { version } = await store.getManifest('faces');
    const refused = (change: object, why: RegExp) =>
      assert.rejects(store.commit('faces', change as Change), fails('INVALID_ARGUMENT', why));
    const manifest = new Uint8Array(5);
    for (const expected of [undefined, 0.5, Number.NaN])
      await refused({ expected, manifest }, /needs the version it is based on/);
    const tooLong = new Uint8Array(MAX_MANIFEST_BYTES + 1);
    await refused({ expected: version, manifest: tooLong }, /a manifest has at most \d+ bytes, and this one has \d+$/);
    await checkHolds(store, script.after(1));
    await store.close();
  }));
