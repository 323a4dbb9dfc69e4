import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { machine } from '@hers/vectors/machine';
import type { Data, Figure } from '../lab/experiment.ts';
import { render } from './table3.page.ts';
import type { Table3Parameters } from './table3.ts';

const DIMENSIONS = [16, 32, 64, 128, 192, 512];

/** A run with round figures: SEAL's HERS takes 10 s for each dimension, ours a thousandth. */
function run(measured: readonly number[]): Data<Table3Parameters> {
  const cost = (name: string, seconds: (d: number) => number, bytes: (d: number) => number): Figure[] =>
    measured.flatMap((d): Figure[] => [
      { name: `${name}-d${d}`, value: seconds(d), unit: 's', source: 'extrapolated' },
      { name: `${name}-d${d}-bytes`, value: bytes(d), unit: 'bytes', source: 'computed' },
    ]);
  return {
    ...{ bench: 'table3', date: '2026-01-31', command: 'table3', versions: {}, machine: machine() },
    parameters: {
      ...{ templates: 1e8, dimensions: [32, 64, 128, 512], threads: 2, seal: 'some', runs: 1, kernel: 'some' },
      load: 0,
    },
    results: [
      ...cost(
        'boddeti-seal',
        () => 96_000,
        () => 1e8 * 131_072,
      ),
      ...cost(
        'hers-seal',
        (d) => 10 * d,
        (d) => 24_415 * d * 131_072,
      ),
      ...cost(
        'hers-seal-all',
        (d) => 5 * d,
        (d) => 24_415 * d * 131_072,
      ),
      ...['ours-exact', 'ours-compact'].flatMap((name) =>
        cost(
          name,
          (d) => d / 100,
          (d) => d * 1e9,
        ),
      ),
    ],
  };
}

const cells = (markdown: string, row: string) =>
  markdown
    .split('\n')
    .find((line) => line.startsWith(`| ${row}`))!
    .split('|')
    .slice(2, -1)
    .map((cell) => cell.trim());

describe('the page of Table 3', () => {
  it('has the headline ratios by the core, beside those of the paper', async () => {
    const { markdown } = await render(run(DIMENSIONS));
    // Boddeti over HERS at 512: 96 000 / 5 120. Ours takes 5.12 s on each of two cores.
    assert.deepEqual(cells(markdown, 'the encoding'), ['11', '11.4', '18.8', '9 375', '9 375']);
    assert.deepEqual(cells(markdown, 'fewer dimensions'), ['6', '6.08', '6', '6', '6']);
    assert.deepEqual(cells(markdown, 'both'), ['186', '187', '300', '150 000', '150 000']);
    assert.deepEqual(cells(markdown, 'memory'), ['64', '64.3', '128', '410', '410']);
    // 96 000 s over 160 s and 9.6 s for a ten-thousandth of the gallery; ours in one stage of
    // 2 × 1.92 s.
    assert.deepEqual(cells(markdown, 'two stages'), ['275', '277', '566', '25 000', '25 000']);
  });

  it('multiplies times by their cores', async () => {
    const { markdown } = await render(run(DIMENSIONS));
    const [, byCore] = markdown.split('The same by the core');
    assert.deepEqual(cells(byCore, 'HERS, SEAL ').slice(0, 2), ['one thread here', '≈ 320 s *']);
    assert.match(byCore, /HERS, SEAL +\| 2 threads here +\| +≈ 320 s \*/);
  });

  it('says what was not measured', async () => {
    const { markdown } = await render(run([32, 64, 128, 512]));
    assert.deepEqual(cells(markdown, 'two stages').slice(2), ['not measured', 'not measured', 'not measured']);
  });

  it("explains the paper's memory", async () => {
    const { markdown } = await render(run(DIMENSIONS));
    assert.deepEqual(cells(markdown, '131 KB, 4 096 slots'), ['13.1 TB', '102 GB', '205 GB', '410 GB', '1.64 TB']);
    assert.deepEqual(cells(markdown, '92.2 KB, 2 048 slots'), ['9.22 TB', '144 GB', '288 GB', '576 GB', '2.3 TB']);
    assert.deepEqual(cells(markdown, 'as published'), ['9 TB', '140 GB', '280 GB', '550 GB', '2.2 TB']);
  });
});
