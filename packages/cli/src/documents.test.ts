// The documents say what is: the reference is what the commands define, and every command of the
// tour runs.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isSealed, openKey, unsealedKey } from '@hers/client';
import { binFolder, childEnv, hers, quicklySealed, shell, temporaryFolder } from '../testing/cli.ts';
import { REFERENCE, referenceText } from '../testing/reference.ts';

const root = resolve(import.meta.dirname, '../../..');
const tour = readFileSync(join(root, 'docs/getting-started.md'), 'utf8');

test('docs/cli.md is up to date; `npm run docs` writes it', () => {
  assert.equal(readFileSync(REFERENCE, 'utf8'), referenceText());
});

const PASSPHRASE = 'ten minutes with hers';

/**
 * The passphrase of a key file takes half a second to check, on purpose; a dozen commands need not
 * wait for that.
 */
async function sealAgainQuickly(path: string): Promise<void> {
  const text = readFileSync(path, 'utf8');
  assert.equal(isSealed(text), true);
  using seed = await openKey(text, PASSPHRASE);
  writeFileSync(path, await quicklySealed(PASSPHRASE, unsealedKey(seed)));
}

describe('docs/getting-started.md', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let env: Record<string, string>;
  const printed: string[] = [];
  before(async () => {
    folder = await temporaryFolder();
    env = childEnv(await binFolder(folder.path), { HERS_PASSPHRASE: PASSPHRASE });
  });
  after(() => folder[Symbol.asyncDispose]());

  // One after the other, in one folder, as a reader would.
  const blocks = [...tour.matchAll(/^```sh\n(.*?)^```/gms)].map(([, code]) => code);
  for (const code of blocks) {
    test(code.trim().split('\n').join('; '), async () => {
      const { exit, out, err } = await shell(folder.path, code, env);
      assert.equal(exit, 0, err);
      printed.push(out);
      if (printed.length === 1) await sealAgainQuickly(join(folder.path, 'hers.key'));
    });
  }

  test('what the text says about the output is so', async () => {
    const all = printed.join('');
    assert.match(all, /^error\t0\.00045 \(rms\) in every score, \S+ of it from rounding vectors$/m);
    assert.match(all, /^a stored vector\t530 bytes\na query\t1\.08 MB$/m);
    assert.match(all, /^security\t162 bits/m);
    assert.match(all, /^person-0750\t0\.\d+\n/m);
    assert.match(all, /^\{"probe":0,"matches":\[\{"id":"person-0000",/m);
    assert.match(all, /^the id is nowhere in the gallery$/m);
    assert.match((await hers(folder.path, ['config'])).out, /^collection\tfaces\t/m);
  });
});

test('the program of the README runs, and runs again', async () => {
  const [, program] = /^```ts\n(.*?)^```/ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))!;
  await using folder = await temporaryFolder();
  await symlink(join(root, 'node_modules'), join(folder.path, 'node_modules'));
  writeFileSync(join(folder.path, 'app.ts'), program);
  for (let run = 0; run < 2; run++) {
    const { exit, out, err } = await shell(folder.path, `"${process.execPath}" app.ts`, childEnv(folder.path));
    assert.equal(exit, 0, err);
    assert.match(out, /id: 'ada'/);
  }
});
