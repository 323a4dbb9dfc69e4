// A scrub finds the same with threads as without, in the same order. It reports its progress, and
// stops when aborted.
//
// Long: damage.test.ts is the short form.

import assert from 'node:assert/strict';
import {
  appendFileSync,
  cpSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import type { SealedRecord } from '@hers/service';
import { encodeBlock, Samples } from '@hers/service/samples';
import { withFolder } from '../../testing/crash.ts';
import { type FolderStore, openStore } from '../store.ts';
import type { ScrubOptions } from './scrub.ts';

const kernel = async () => new ReferenceKernel();
const RECORDS = 12_000;
const RECORD_BYTES = 1500;
/** Longer than what is read at once, so that it needs a read of its own. */
const LONG_LIST = 2 ** 22;
const NAME = 'people';
/** Without threads, and with some. */
const WAYS = [0, 1, 3];

let original = '';
let handles: Uint8Array[] = [];
let finished = () => {};

/** A pack of several stretches without dead entries, two segments, and loose blocks. */
before(async () => {
  const ready = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  finished = end.resolve;
  withFolder(async (folder) => {
    const store = await openStore(folder, { kernel });
    await fill(store);
    await store.close();
    original = folder;
    ready.resolve();
    await end.promise;
  }).catch(ready.reject);
  await ready.promise;
});
after(() => finished());

async function fill(store: FolderStore): Promise<void> {
  const samples = new Samples(7);
  await store.createCollection(NAME, { id: samples.id(), descriptor: samples.bytes(30), manifest: samples.bytes(30) });
  const sealed = samples.bytes(RECORD_BYTES);
  const records = Array.from({ length: RECORDS }, (): SealedRecord => ({ handle: samples.id(), sealed }));
  handles = records.map(({ handle }) => handle);
  const block = () => encodeBlock(samples.block({ width: 2 }));
  const lists = [new Uint8Array(LONG_LIST).fill(3), samples.bytes(100)];
  await store.commit(NAME, {
    expected: 1,
    manifest: samples.bytes(30),
    records: [await store.stageRecords(NAME, records)],
    lists: await Promise.all(lists.map((list) => store.stageList(NAME, list))),
    blocks: await Promise.all(Array.from({ length: 70 }, () => store.stageBlock(NAME, [block()]))),
  });
  await store.purge(NAME);
  await store.commit(NAME, {
    expected: 2,
    manifest: samples.bytes(30),
    blocks: await Promise.all(Array.from({ length: 3 }, () => store.stageBlock(NAME, [block()]))),
  });
}

/** Passes on a changed copy of the folder. */
async function withCopy<T>(change: (folder: string) => void, work: (store: FolderStore) => Promise<T>): Promise<T> {
  const folder = `${original}-changed`;
  rmSync(folder, { recursive: true, force: true });
  cpSync(original, folder, { recursive: true });
  change(folder);
  const store = await openStore(folder, { kernel, onBackgroundError: () => {} });
  try {
    return await work(store);
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function found(store: FolderStore, options: ScrubOptions): Promise<string[]> {
  const all = await Array.fromAsync(store.scrub(options));
  return all.map(({ file, bytes, damage }) => `${file} ${bytes} ${damage?.code ?? 'whole'} ${damage?.message ?? ''}`);
}

/** What both ways of scrubbing find. */
async function foundInEveryWay(store: FolderStore): Promise<string[]> {
  const [first, ...others] = await Promise.all(WAYS.map((threads) => found(store, { threads })));
  for (const other of others) assert.deepEqual(other, first);
  return first;
}

const filesIn = (folder: string) => readdirSync(join(original, folder)).map((file) => `${folder}/${file}`);
const pack = () => filesIn('vault')[0];

function flip(folder: string, file: string, at: number): void {
  const bytes = readFileSync(join(folder, file));
  bytes[at] ^= 1 << (at % 8);
  writeFileSync(join(folder, file), bytes);
}

describe('a look at the lengths', () => {
  const wrong = async (change: (folder: string) => void) =>
    withCopy(change, async (store) =>
      store.lengths().flatMap(({ file, damage }) => (damage ? [`${file} ${damage.code} ${damage.message}`] : [])),
    );

  it('sees every file that the catalogue names, and nothing wrong where nothing is', async () => {
    const files = await withCopy(
      () => {},
      async (store) => store.lengths(),
    );
    assert.deepEqual(files.map(({ file }) => file).sort(), ['vault', 'segments', 'blocks'].flatMap(filesIn).sort());
    assert.ok(files.every(({ file, bytes, damage }) => !damage && bytes === statSync(join(original, file)).size));
  });

  it('tells what is missing, cut or too long; behind the end of a pack there may be more', async () => {
    for (const file of [pack(), filesIn('segments')[0], filesIn('blocks')[0]]) {
      const { size } = statSync(join(original, file));
      const [missing] = await wrong((folder) => rmSync(join(folder, file)));
      assert.ok(missing.startsWith(`${file} DAMAGED ${file} is damaged: it is missing;`), missing);
      const cut = await wrong((folder) => truncateSync(join(folder, file), size - 1));
      assert.equal(cut.length, 1);
      assert.ok(cut[0].includes(`it has ${size - 1} bytes and should have ${size};`), cut[0]);
      const long = await wrong((folder) => appendFileSync(join(folder, file), 'more'));
      assert.equal(long.length, file === pack() ? 0 : 1, long.join());
    }
  });
});

describe('a scrub in threads', () => {
  it('reads all files, and finds nothing wrong', async () => {
    await withCopy(
      () => {},
      async (store) => {
        const all = await foundInEveryWay(store);
        assert.equal(all.length, 1 + ['vault', 'segments', 'blocks'].flatMap(filesIn).length);
        for (const line of all) assert.match(line, / whole $/);
      },
    );
  });

  it('finds what is found without them, in the same order, wherever it is', async () => {
    for (const file of [pack(), ...filesIn('segments'), filesIn('blocks')[0]]) {
      const { size } = statSync(join(original, file));
      for (const at of [Math.floor(0.3 * size), Math.floor(0.97 * size), size - 1]) {
        const all = await withCopy((folder) => flip(folder, file, at), foundInEveryWay);
        const wrong = all.filter((line) => !line.endsWith(' whole '));
        assert.equal(wrong.length, 1, `byte ${at} of ${file}: ${wrong.join('; ')}`);
        assert.ok(wrong[0].startsWith(`${file} `) && wrong[0].includes(' DAMAGED '), wrong[0]);
      }
    }
  });

  it('names every damaged file, and of each the damage that comes first', async () => {
    const damaged = [pack(), ...filesIn('segments')];
    const all = await withCopy((folder) => {
      for (const file of damaged) {
        const { size } = statSync(join(folder, file));
        for (const at of [size - 1, Math.floor(0.9 * size)]) flip(folder, file, at);
      }
    }, foundInEveryWay);
    const wrong = all.filter((line) => !line.endsWith(' whole '));
    assert.deepEqual(wrong.map((line) => line.split(' ')[0]).sort(), damaged.sort());
    for (const line of wrong.filter((each) => each.startsWith('segments'))) {
      const [, part] = / part (\d+) of it /.exec(line) ?? assert.fail(line);
      assert.equal(Number(part), 3); // of four
    }
  });

  it('notices entries that are whole, and not where the catalogue says', async () => {
    const entry = 16 + 16 + RECORD_BYTES;
    /** Two records change places: every checksum still matches. */
    const swap = (folder: string) => {
      const bytes = readFileSync(join(folder, pack()));
      const at = bytes.indexOf(handles[RECORDS - 1]) - 8;
      const before = Buffer.from(bytes.subarray(at - entry, at));
      bytes.copyWithin(at - entry, at, at + entry);
      bytes.set(before, at);
      writeFileSync(join(folder, pack()), bytes);
    };
    const missing = /^vault 0 DAMAGED .*: 2 records or lists are missing/;
    const wrong = async (store: FolderStore) =>
      (await foundInEveryWay(store)).filter((line) => !line.endsWith(' whole '));
    const [line, ...others] = await withCopy(swap, wrong);
    assert.match(line, missing);
    assert.deepEqual(others, []);
    // With a dead record in the pack, each record is looked up.
    await withCopy(swap, async (store) => {
      const manifest = new Uint8Array(3);
      await store.commit(NAME, { expected: 3, manifest, removed: [handles[0]] });
      const [again, ...more] = await wrong(store);
      assert.match(again, missing);
      assert.deepEqual(more, []);
    });
  });

  it('passes over what is dead', async () => {
    await withCopy(
      () => {},
      async (store) => {
        const manifest = new Uint8Array(3);
        await store.commit(NAME, { expected: 3, manifest, removed: handles.slice(0, 100) });
        for (const line of await foundInEveryWay(store)) assert.match(line, / whole $/);
      },
    );
  });
});

describe('the progress of a scrub', () => {
  for (const threads of WAYS)
    it(`grows within a file, and ends with all of it, with ${threads} threads`, async () => {
      await withCopy(
        () => {},
        async (store) => {
          const seen: number[] = [];
          const totals = new Set<number>();
          const onProgress = ({ done, total }: { done: number; total: number }) => {
            seen.push(done);
            totals.add(total);
          };
          const files = await Array.fromAsync(store.scrub({ threads, onProgress }));
          const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
          assert.deepEqual([...totals], [bytes]);
          assert.equal(seen.at(-1), bytes);
          for (const [i, done] of seen.entries()) assert.ok(i === 0 || done >= seen[i - 1]);
          const { size } = statSync(join(original, pack()));
          const longest = Math.max(...seen.map((done, i) => done - (seen[i - 1] ?? 0)));
          assert.ok(longest < 0.6 * size, `${longest} of ${size} at once`);
        },
      );
    });
});

describe('a scrub that is not finished', () => {
  for (const threads of WAYS) {
    it(`ends at once when it is aborted, with ${threads} threads`, async () => {
      await withCopy(
        () => {},
        async (store) => {
          const stop = new AbortController();
          const reason = new Error('enough');
          const onProgress = ({ done, total }: { done: number; total: number }) => {
            if (done > total / 4) stop.abort(reason);
          };
          const scrub = Array.fromAsync(store.scrub({ threads, onProgress, signal: stop.signal }));
          await assert.rejects(scrub, (error) => error === reason);
          await store.purge(NAME); // which waits for all readers of the packs
        },
      );
    });

    it(`lets go of the files when nobody asks for more, with ${threads} threads`, async () => {
      await withCopy(
        () => {},
        async (store) => {
          for await (const { file } of store.scrub({ threads })) if (file === pack()) break;
          await store.purge(NAME);
          for (const { damage } of await Array.fromAsync(store.scrub())) assert.equal(damage, undefined);
        },
      );
    });
  }
});
