import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { type ChainsParameters, chains } from './chains.ts';

it('every stage of a chain is a network of its own, beside as many principal axes', async () => {
  const data = await chains.measure({ small: true });
  const figures = new Map(data.results.map(({ name, value }) => [name, value]));
  for (const name of ['24-full', '24-first', '24-deepmds++-16', '24-deepmds++-8', '24-pca-16', '24-pca-8'])
    for (const ending of ['', '-precision10', '-map']) {
      const value = figures.get(`${name}${ending}`)!;
      assert.ok(value > 0 && value <= 1, `${name}${ending}: ${value}`);
    }
  assert.ok(figures.get('24-pca-16')! >= figures.get('24-pca-8')!);
  // The small set has the dimensions of the chain, so nothing comes before it.
  assert.equal(figures.get('24-full'), figures.get('24-first'));
  // Chains that an earlier run trained stay, with their command.
  const folder = mkdtempSync(join(tmpdir(), 'hers-chains-'));
  try {
    const beside = join(folder, 'chains.json');
    const [chain] = (data.parameters as ChainsParameters).chains;
    const renamed = data.results.map((figure) => ({ ...figure, name: figure.name.replace('24-', '512-') }));
    const parameters = { ...data.parameters, chains: [{ ...chain, name: '512' }] };
    writeFileSync(beside, JSON.stringify({ ...data, parameters, results: renamed }));
    const both = await chains.measure({ small: true, beside, minutes: '0' });
    const [own, earlier] = (both.parameters as ChainsParameters).chains;
    assert.deepEqual([own.name, own.done, own.apart], ['24', 0, undefined]);
    assert.deepEqual(earlier, { ...chain, name: '512', apart: { date: data.date, command: data.command } });
    for (const { name, value } of renamed)
      assert.equal(both.results.find((figure) => figure.name === name)?.value, value, name);
    assert.match(both.command, /--beside <file>$/);
  } finally {
    rmSync(folder, { recursive: true });
  }
  const { render } = await import('./chains.page.ts');
  const { markdown, svg } = await render(JSON.parse(JSON.stringify(data)));
  assert.match(markdown, /^## 24-16-8$/m);
  assert.doesNotMatch(markdown, /NaN|undefined/);
  assert.match(svg, /^<svg /);
});

it('a chain that is none is refused in a sentence', async () => {
  await assert.rejects(chains.measure({ small: true, chains: '7' }), /There is no chain from '7': there are 24/);
});
