// The process of cut.test.ts: scans files that are truncated at the same time. It prints `right` if
// everything was as it should be, and is killed if the addon touches a missing page.
//
//     node cut-child.ts <case> <folder> <addon>

import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, rmSync, truncateSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { HersError, parameterSet } from '@hers/scheme';
import { buildSegment } from '../src/builder.ts';
import type { Kernel, SegmentHandle } from '../src/kernel.ts';
import { NativeKernel } from '../src/native/native.ts';
import { ReferenceKernel } from '../src/reference.ts';
import type { SegmentHeader } from '../src/segment.ts';
import { mixed, specimenBlock, specimenQuery } from '../src/specimen.ts';

const [name, folder, addon] = process.argv.slice(2);
const parameters = parameterSet('n_2048_logq_30_wide_5');
const width = 128;
const original = join(folder, 'original.segment');
const victim = join(folder, 'victim.segment');
const bystander = join(folder, 'bystander.segment');

const queries = Array.from({ length: 4 }, (_, index) =>
  specimenQuery({ parameters, width, index, residue: mixed(100 + index) }),
);
const build = (path: string, first: number, count: number): Promise<SegmentHeader> => {
  const blocks = Array.from({ length: count }, (_, i) =>
    specimenBlock({ parameters, width, index: first + i, residue: mixed(first + i) }),
  );
  return buildSegment(path, blocks, count);
};

type Answers = Map<string, Buffer>;

async function scan(kernel: Kernel, handles: readonly SegmentHandle[], found: Answers = new Map()): Promise<Answers> {
  for await (const { block, query, response } of kernel.scan(handles, queries)) {
    const place = `block ${block}, query ${query}`;
    const before = found.get(place);
    if (before) assert.ok(before.equals(response), `${place} differs`);
    else found.set(place, Buffer.from(response));
  }
  return found;
}

const isDamage = (error: unknown): boolean =>
  error instanceof HersError && error.code === 'DAMAGED' && error.message.startsWith(`${victim} `);

/** Scans the victim several times. Every answer must be right, and an error must name the file. */
async function isAnswered(kernel: NativeKernel, handle: SegmentHandle, expected: Answers): Promise<boolean> {
  try {
    const found = await scan(kernel, Array(5).fill(handle), new Map(expected));
    assert.equal(found.size, expected.size);
    return true;
  } catch (error) {
    if (!isDamage(error)) throw error;
    return false;
  }
}

/** Another file with the victim's original content. */
function bringBack(): void {
  rmSync(victim, { force: true });
  bringBackInPlace();
}

/** Including its modification time. */
function bringBackInPlace(): void {
  copyFileSync(original, victim);
  utimesSync(victim, 1e9, 1e9);
}

const header = await build(original, 0, 16);
const lengths = [
  0,
  header.dataAt,
  4096 * Math.floor(header.fileBytes / 8192),
  header.fileBytes / 2 - 1000,
  header.fileBytes - 1,
];
await build(bystander, 50, 3);
bringBack();
const kernel = NativeKernel.open({ threads: 2, addon });
const answersOf = async (path: string, by: Kernel) => scan(by, [await by.load({ path })]);
const expected = await answersOf(victim, kernel);
const whole = await kernel.load({ path: bystander });

/** Everything a process must do after one of its files was truncated. */
async function checkLife(): Promise<void> {
  assert.equal((await scan(kernel, [whole])).size, 3 * queries.length);
  bringBack();
  const handle = await kernel.load({ path: victim });
  assert.ok(await isAnswered(kernel, handle, expected));
  await kernel.unload(handle);
}

const cases: Record<string, () => Promise<void>> = {
  async before() {
    for (const length of lengths) {
      for (const verified of [true, false]) {
        bringBack();
        const handle = await kernel.load({ path: victim });
        if (verified) await scan(kernel, [handle]);
        truncateSync(victim, length);
        for (let i = 0; i < 3; i++)
          await assert.rejects(scan(kernel, [handle]), (error: HersError) => {
            assert.equal(error.code, 'DAMAGED');
            assert.equal(
              error.message,
              `${victim} ends too soon: it was cut while it was open; restore it from a copy`,
            );
            return true;
          });
        // Its length was checked before it was read, so no missing page was touched.
        bringBackInPlace();
        assert.ok(await isAnswered(kernel, handle, expected));
        await kernel.unload(handle);
        await checkLife();
      }
    }
  },

  async during() {
    let [cuts, missed] = [0, 0];
    const tries = 12;
    for (const length of lengths) {
      for (let i = 0; i < tries; i++) {
        bringBack();
        const handle = await kernel.load({ path: victim });
        if (i % 2 === 0) await scan(kernel, [handle]);
        const start = performance.now();
        await isAnswered(kernel, handle, expected);
        const time = performance.now() - start;
        const answered = isAnswered(kernel, handle, expected);
        await sleep((time * i) / tries);
        truncateSync(victim, length);
        if (!(await answered)) {
          cuts++;
          // Once a missing page was touched, zeros replace the mapping for good. Restoring the file
          // does not restore the mapping.
          bringBackInPlace();
          if (!(await isAnswered(kernel, handle, expected))) missed++;
        }
        await kernel.unload(handle);
      }
      await checkLife();
    }
    assert.ok(cuts > 10, `only ${cuts} scans were cut`);
    assert.ok(missed > 0, `no page was missed in ${cuts} scans that were cut`);
  },

  async beside() {
    const right = await answersOf(bystander, new ReferenceKernel());
    let cuts = 0;
    for (let i = 0; i < 20; i++) {
      bringBack();
      const handle = await kernel.load({ path: victim });
      const answered = isAnswered(kernel, handle, expected);
      const others = Array.from({ length: 4 }, () => scan(kernel, Array(10).fill(whole), new Map(right)));
      await sleep(i / 2);
      truncateSync(victim, lengths[i % lengths.length]);
      if (!(await answered)) cuts++;
      for (const found of await Promise.all(others)) assert.equal(found.size, right.size);
      await kernel.unload(handle);
    }
    assert.ok(cuts > 5, `only ${cuts} scans were cut`);
    await checkLife();
  },

  async again() {
    let [cuts, answered] = [0, 0];
    const workerData = { original, victim, lengths };
    const worker = new Worker(new URL('./cut-worker.ts', import.meta.url), { workerData });
    for (const end = performance.now() + 3000; performance.now() < end; ) {
      const handle = await kernel.load({ path: victim }).catch((error) => {
        assert.ok(error instanceof HersError, error);
        return undefined;
      });
      if (handle && (await isAnswered(kernel, handle, expected))) answered++;
      else cuts++;
      if (handle) await kernel.unload(handle);
    }
    await worker.terminate();
    assert.ok(cuts > 5 && answered > 5, `${cuts} scans were cut, ${answered} were not`);
    await checkLife();
  },
};

await cases[name]();
await kernel.close();
assert.deepEqual(readFileSync(victim), readFileSync(original));
console.log('right');
