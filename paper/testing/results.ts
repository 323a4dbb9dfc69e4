// For tests: a folder of results equals what its data renders to; `npm run lab -- render` restores
// that.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { Experiments } from '../src/lab/experiment.ts';
import { renderAgain } from '../src/lab/lab.ts';

export function testResults(experiments: Experiments): void {
  const { results, byName } = experiments;
  const names = Object.keys(byName);
  const read = (file: string) => readFileSync(`${results}/${file}`, 'utf8');

  describe('the results', () => {
    const files = readdirSync(results).filter((file) => /\.(json|md|svg)$/.test(file) && file !== 'README.md');

    it('are the data, the page and the plot of every experiment, and nothing else', () => {
      const expected = names.flatMap((name) => [`${name}.json`, `${name}.md`, `${name}.svg`]);
      assert.deepEqual(files.sort(), expected.sort());
    });

    for (const name of names) {
      it(`${name}: the page and the plot are what the data renders to`, async () => {
        const { markdown, svg } = await renderAgain(experiments, name, results);
        assert.equal(read(`${name}.md`), markdown, `run npm run lab -- render ${name}`);
        assert.equal(read(`${name}.svg`), svg, `run npm run lab -- render ${name}`);
      });

      it(`${name}: thousands are separated in one way`, () => {
        // A command may have a list of numbers.
        assert.doesNotMatch(read(`${name}.md`).replaceAll(/`[^`]*`/g, ''), /\d,\d{3}\b/);
        assert.doesNotMatch(read(`${name}.svg`).replaceAll(/<[^>]*>/g, '\n'), /\d,\d{3}\b/);
      });
    }
  });
}
