import assert from 'node:assert/strict';
import { it } from 'node:test';
import { chains } from './chains.ts';

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
  const { render } = await import('./chains.page.ts');
  const { markdown, svg } = await render(JSON.parse(JSON.stringify(data)));
  assert.match(markdown, /^## 24-16-8$/m);
  assert.doesNotMatch(markdown, /NaN|undefined/);
  assert.match(svg, /^<svg /);
});

it('a chain that is none is refused in a sentence', async () => {
  await assert.rejects(chains.measure({ small: true, chains: '7' }), /There is no chain from '7': there are 24/);
});
