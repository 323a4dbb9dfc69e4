// The addon under AddressSanitizer: a short life of a kernel, in a process that loads the sanitizer
// first.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { nativeAddon } from '../../../tools/addon.ts';
import { buildSanitized, checkClean, checkSays, SANITIZER_FLAGS, skip } from '../../../tools/sanitize.ts';
import { ADDON_PATH, loadAddon } from './native/native-addon.ts';

const output = resolve(ADDON_PATH, '../hers_scan_asan.node');
const url = (file: string) => JSON.stringify(pathToFileURL(join(import.meta.dirname, file)).href);

/**
 * Every variant: sums, transforms, packing, ragged panels; scans that end, break off, are aborted
 * or find damage; memory freed in every order.
 */
const script = (folder: string, isas: readonly string[]) => `
  const { parameterSet } = await import(${JSON.stringify(import.meta.resolve('@hers/scheme'))});
  const { buildSegment, segmentBytes } = await import(${url('builder.ts')});
  const { NativeKernel } = await import(${url('native/native.ts')});
  const { largest, mixed, specimenBlock, specimenQuery } = await import(${url('specimen.ts')});
  const addon = ${JSON.stringify(output)};
  for (const isa of ${JSON.stringify(isas)}) {
    for (const [set, rows, count] of [['insecure_n_64_logq_30_wide_5', 5, 1], ['insecure_n_64_logq_30_30_wide_4', 131, 3], ['n_2048_logq_30_wide_5', 67, 2], ['n_4096_logq_30_30_wide_4', 17, 1], ['n_2048_logq_24_wide_5', 134, 6]]) {
      const parameters = parameterSet(set);
      const width = rows - parameters.digits;
      const blocks = Array.from({ length: count }, (_, index) => specimenBlock({ parameters, width, index, residue: mixed(index) }));
      const bits = [[11, 16], [1, 32], [7, 9]];
      const queries = bits.map(([low, high], index) => specimenQuery({ parameters, width, index, residue: largest }, low, high));
      const path = ${JSON.stringify(folder)} + '/' + isa + set;
      await buildSegment(path, blocks, count);
      const kernel = NativeKernel.open({ isa, addon, threads: 2 });
      const file = await kernel.load({ path });
      const memory = await kernel.load({ bytes: segmentBytes(blocks), name: 'memory' });
      let answers = 0;
      for await (const { response } of kernel.scan([file, memory, file], queries)) answers += response.length > 80 ? 1 : 0;
      if (answers !== 9 * count) throw new Error('answers are missing');
      for await (const _ of kernel.scan([file, memory], queries)) break;
      const signal = AbortSignal.timeout(1);
      try { for await (const _ of kernel.scan(Array(50).fill(memory), queries, { signal })); } catch (error) { if (error !== signal.reason) throw error; }
      await kernel.multiplyOnly([file, memory], queries);
      const many = Array.from({ length: 9 }, (_, i) => blocks[i % count]);
      const alike = await kernel.load({ bytes: segmentBytes(many), name: 'alike' });
      const { seed } = queries[0];
      const oneMask = [0, 1, 2, 3].map((index) => ({ ...specimenQuery({ parameters, width, index, residue: largest }, 11, 32), seed }));
      for (const asked of [oneMask, oneMask.slice(1)]) for await (const _ of kernel.scan([alike, memory], asked));
      const damaged = segmentBytes(blocks);
      damaged[damaged.length - 1] ^= 1;
      const bad = await kernel.load({ bytes: damaged, name: 'bad' });
      let code;
      try { for await (const _ of kernel.scan([bad], queries)); } catch (error) { code = error.code; }
      if (code !== 'DAMAGED') throw new Error('damage was not found');
      await kernel.unload(memory);
      if (count > 1) await kernel.close();
    }
  }
  globalThis.gc();
  console.log('clean');
`;

const folder = mkdtempSync(join(tmpdir(), 'hers-asan-'));
after(() => rmSync(folder, { recursive: true }));

describe('under AddressSanitizer', { skip }, () => {
  before(() => buildSanitized(nativeAddon(join(import.meta.dirname, '../native'), output, { flags: SANITIZER_FLAGS })));

  it('the addon is clean', () => {
    checkClean(script(folder, loadAddon().variants()));
  });

  it('files that are cut while they are scanned end scans, and the sanitizer keeps its own handler', () => {
    for (const name of ['before', 'during'])
      checkSays(
        [join(import.meta.dirname, '../testing/cut-child.ts'), name, mkdtempSync(join(folder, name)), output],
        'right\n',
      );
  });
});
