import assert from 'node:assert/strict';
import { it } from 'node:test';
import { renderAgain } from '../lab/lab.ts';
import { EXPERIMENTS } from './index.ts';

it("Table 2 has the paper's ratios: d and m / ⌈m/n⌉ of multiplications, (d − 1) / log2 d of additions", async () => {
  const { markdown } = await renderAgain(EXPERIMENTS, 'table2', EXPERIMENTS.results);
  const row = (name: string) =>
    new RegExp(`^\\| ${name} .*$`, 'm')
      .exec(markdown)![0]
      .split('|')
      .map((cell) => cell.trim());
  // A million templates of 128 dimensions: 245 blocks of 4 096 slots, 10^6 / 245 = 4 081.6, and
  // 127 / 7 = 18.14.
  assert.deepEqual([row('naive')[3], row('naive')[5]], ['1', '1']);
  assert.deepEqual([row('Boddeti')[3], row('Boddeti')[5]], ['128', '18.14']);
  assert.deepEqual([row('HERS')[3], row('HERS')[5]], ['4 082', '4 082']);
});
