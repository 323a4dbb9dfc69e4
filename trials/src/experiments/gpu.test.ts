import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import type { Data } from '@hers/paper/lab/experiment';
import type { Report } from '@hers/paper/lab/report';
import { run } from '../bench/bulk.ts';
import { render } from './gpu.page.ts';
import { type GpuParameters, gpu } from './gpu.ts';

const SCANNED = [
  ...['copy', 'link', 'multiply', 'multiply-of-copy', 'rest', 'server', 'server-and-copy-to-host'],
  ...['through-javascript', 'in-turns', 'multiply-8', 'server-8', 'multiply-8-throughput', 'server-8-throughput'],
];

it('puts the record together from reports of benchmarks', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'hers-gpu-'));
  try {
    const write = (name: string, report: Report) => writeFileSync(join(folder, name), JSON.stringify(report));
    await assert.rejects(gpu.measure({ from: folder }), /no report of a search on a GPU/);
    const shape = { kernel: 'auto', count: '3000', dimension: '8', searches: '2' };
    // Whatever kernel there is stands in for the device.
    for (const plan of [{}, { profile: 'exact' }, { integrity: 'strong' }]) {
      const report = await run({ ...shape, ...plan });
      assert.deepEqual(report.results.find(({ name }) => name === 'rank-1-as-in-the-clear')?.value, 1);
      report.parameters.kernel = 'cuda';
      write(`${Object.values(plan)[0] ?? 'compact'}.json`, report);
    }
    const { machine } = await run(shape);
    const results = SCANNED.map((name, i) => ({ name, value: 1 + i, unit: 'ms' }));
    const parameters = { count: 3000, dimension: 32, profile: 'exact', kernel: 'cuda', device: 'a GPU' };
    write('scan.json', { bench: 'scan', parameters, machine, results });
    const data = (await gpu.measure({ from: folder })) as Data<GpuParameters>;
    assert.deepEqual([data.parameters.counts, data.parameters.dimensions, data.parameters.searches], [[3000], [8], 2]);
    const { markdown } = await render(data);
    assert.match(markdown, /\| `exact` +\| +8 \| +3 000 \|/);
    assert.match(markdown, /\| `compact` with `integrity: 'strong'` +\| +8 \| +3 000 \|/);
    assert.match(markdown, /\| `exact` +\| +32 \| +3 000 \| +3 \| +4\.00 \|/);
    assert.match(markdown, /in turns from the host's memory at 9 GB\/s \(`exact` × 32\)/);
    assert.match(markdown, /ms × 700 W = .* J a search; .* ms × 4 dollars an hour = .* dollars a million searches/);
    write('other.json', { bench: 'scan', parameters, machine: { ...machine, cpu: 'another' }, results });
    await assert.rejects(gpu.measure({ from: folder }), /several machines/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
