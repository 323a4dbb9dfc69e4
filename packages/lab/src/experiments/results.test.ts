// docs/results equals what its data renders to; `hers lab render` restores that.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { RESULTS, renderAgain } from '../lab.ts';
import { EXPERIMENTS } from './index.ts';

const read = (file: string) => readFileSync(`${RESULTS}/${file}`, 'utf8');

describe('docs/results', () => {
  const files = readdirSync(RESULTS).filter((file) => /\.(json|md|svg)$/.test(file) && file !== 'README.md');

  it('has the data, the page and the plot of every experiment, and nothing else', () => {
    const expected = Object.keys(EXPERIMENTS).flatMap((name) => [`${name}.json`, `${name}.md`, `${name}.svg`]);
    assert.deepEqual(files.sort(), expected.sort());
  });

  for (const name of Object.keys(EXPERIMENTS)) {
    it(`${name}: the page and the plot are what the data renders to`, async () => {
      const { markdown, svg } = await renderAgain(name, RESULTS);
      assert.equal(read(`${name}.md`), markdown, `run npx hers lab render ${name}`);
      assert.equal(read(`${name}.svg`), svg, `run npx hers lab render ${name}`);
    });

    it(`${name}: thousands are separated in one way`, () => {
      // A command may have a list of numbers.
      assert.doesNotMatch(read(`${name}.md`).replaceAll(/`[^`]*`/g, ''), /\d,\d{3}\b/);
      assert.doesNotMatch(read(`${name}.svg`).replaceAll(/<[^>]*>/g, '\n'), /\d,\d{3}\b/);
    });
  }
});
