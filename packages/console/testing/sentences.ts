// Makes packages/cli/src/example-vectors.ts: what the model in the page makes of the sentences of
// the example gallery. Run it when they change.

import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { chromium } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { findModels } from '../src/node/index.node.ts';
import { openTrial } from './trial.ts';

/** The vectors of sentences, by the model in a page. */
export async function vectorsOf(sentences: readonly string[]): Promise<number[][]> {
  await using trial = await openTrial(1, findModels([]));
  const browser = await chromium.launch({ executablePath: part('browser').path!, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    await page.goto(trial.address);
    await page.getByText('still sealed').waitFor();
    return await page.evaluate((all) => {
      const worker = new Worker('models/sentences/worker.js', { type: 'module' });
      const { promise, resolve: end, reject } = Promise.withResolvers<number[][]>();
      const vectors: number[][] = [];
      worker.onmessage = ({ data }) => {
        if (data.problem) return reject(new Error(data.problem));
        vectors.push(Array.from(data.found[0].vector));
        if (vectors.length === all.length) end(vectors);
      };
      for (const [number, input] of all.entries()) worker.postMessage({ number, input });
      return promise;
    }, sentences);
  } finally {
    await browser.close();
  }
}

if (process.argv[1] === import.meta.filename) {
  const home = resolve(import.meta.dirname, '../../cli/src');
  const { SENTENCES } = (await import(`${home}/example-sentences.ts`)) as {
    SENTENCES: Record<string, readonly string[]>;
  };
  const vectors = await vectorsOf(Object.values(SENTENCES).flat());
  const rounded = vectors.flatMap((vector) => {
    const scale = 127 / Math.max(...vector.map(Math.abs));
    return vector.map((each) => Math.round(each * scale));
  });
  const text = Buffer.from(Int8Array.from(rounded).buffer).toString('base64');
  writeFileSync(
    `${home}/example-vectors.ts`,
    `// Made by packages/console/testing/sentences.ts: 512 coordinates of each sentence, rounded to int8.\n\nexport const SENTENCE_VECTORS: string =\n  '${text}';\n`,
  );
  console.log(`${vectors.length} sentences`);
}
