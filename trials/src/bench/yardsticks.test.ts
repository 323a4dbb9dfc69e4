import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { buildSegment } from '@hers/scan';
import { mixed, specimenBlock } from '@hers/scan/accelerator';
import { loadAddon } from '@hers/scan/native-addon';
import { parameterSet } from '@hers/scheme';
import { part } from '../../../tools/parts.ts';
import { buildSanitized, checkClean, SANITIZER_FLAGS, skip } from '../../../tools/sanitize.ts';
import { faissMissing, faissSearch } from './faiss.ts';
import { Yardsticks, yardsticksAddon } from './yardsticks.ts';

test('the yardsticks measure something, and notice a file that is cut', part('compiler'), async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-yardsticks-'));
  try {
    const parameters = parameterSet('n_2048_logq_30_wide_5');
    const path = join(folder, 'segment');
    await buildSegment(path, [specimenBlock({ parameters, width: 64, index: 0, residue: mixed(0) })], 1);
    for (const isa of loadAddon().variants()) {
      const yardsticks = await Yardsticks.open(isa);
      const mapped = await yardsticks.map([path]);
      const plain = yardsticks.plaintext(100, 37);
      const seconds = [
        ...mapped.readSeconds(2, 3),
        ...plain.searchSeconds(2, 3),
        yardsticks.multiplyCeiling(parameters, 3, 2, 1),
      ];
      assert.equal(seconds.length, 7);
      for (const each of seconds) assert.ok(each > 0 && each < Number.POSITIVE_INFINITY);
      mapped.close();
      plain.close();
    }
    const mapped = await (await Yardsticks.open('generic')).map([path]);
    const whole = await readFile(path);
    await truncate(path, 4096);
    assert.throws(() => mapped.readSeconds(2, 1), /was cut while it was read/);
    // Zeros replace the missing page, whatever happens to the file.
    await writeFile(path, whole);
    assert.throws(() => mapped.readSeconds(2, 1), /was cut while it was read/);
    mapped.close();
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('under AddressSanitizer the yardsticks are clean', { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-yardsticks-'));
  const addon = join(import.meta.dirname, '../../build/hers_yardsticks_asan.node');
  try {
    await buildSanitized(yardsticksAddon(addon, SANITIZER_FLAGS));
    const parameters = parameterSet('n_2048_logq_30_wide_5');
    const path = join(folder, 'segment');
    await buildSegment(path, [specimenBlock({ parameters, width: 64, index: 0, residue: mixed(0) })], 1);
    checkClean(`
      const { parameterSet } = await import(${JSON.stringify(import.meta.resolve('@hers/scheme'))});
      const { Yardsticks } = await import(${JSON.stringify(import.meta.resolve('./yardsticks.ts'))});
      for (const isa of ${JSON.stringify(loadAddon().variants())}) {
        const yardsticks = new Yardsticks(isa, ${JSON.stringify(addon)});
        const mapped = await yardsticks.map([${JSON.stringify(path)}]);
        mapped.readSeconds(2, 1);
        mapped.close();
        const plain = yardsticks.plaintext(100, 37);
        plain.searchSeconds(2, 1);
        plain.blasSeconds(1);
        plain.close();
        for (const set of ['n_2048_logq_30_wide_5', 'n_2048_logq_24_wide_5'])
          yardsticks.multiplyCeiling(parameterSet(set), 3, 2, 1);
      }
      console.log('clean');
    `);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('Faiss finds what the obvious loop finds', { skip: faissMissing() ?? false }, async () => {
  const [count, dimension] = [500, 9];
  let state = 88172645463325252n;
  const next = () => {
    const mask = 2n ** 64n - 1n;
    state ^= (state << 13n) & mask;
    state ^= state >> 7n;
    state ^= (state << 17n) & mask;
    return Math.fround(Number(BigInt.asIntN(32, state >> 32n)) / 2 ** 31);
  };
  const vectors = Array.from({ length: count + 1 }, () => Array.from({ length: dimension }, next));
  const query = vectors[count];
  const scores = vectors.slice(0, count).map((vector) => vector.reduce((sum, x, i) => sum + x * query[i], 0));
  const { best, seconds } = await faissSearch(count, dimension, 1, 3);
  assert.equal(best, scores.indexOf(Math.max(...scores)));
  assert.equal(seconds.length, 3);
  for (const each of seconds) assert.ok(each > 0);
});
