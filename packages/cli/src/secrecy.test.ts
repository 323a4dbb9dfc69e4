// Secrets: they come from a file, a variable or a prompt, and never go anywhere else.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { openKey } from '@hers/client';
import { childEnv, hers, launcher, Prepared, quicklySealed, writeGallery } from '../testing/cli.ts';
import type { HersCommand } from './command.ts';
import { makeProgram } from './program.ts';

const PASSPHRASE = 'correct horse battery staple';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

/** A gallery whose key is sealed, and what nobody may see of it. */
async function sealedGallery(): Promise<{ folder: string; hidden: string[] }> {
  const folder = await prepared.copy();
  const key = join(folder, 'hers.key');
  using seed = await openKey(await readFile(key, 'utf8'));
  const bytes = Buffer.from(seed.reveal());
  await writeFile(key, await quicklySealed(PASSPHRASE, await readFile(key, 'utf8')), { mode: 0o600 });
  return { folder, hidden: [PASSPHRASE, bytes.toString('hex'), bytes.toString('base64').slice(0, 40)] };
}

test('no command has an option or an argument for a secret', () => {
  const visit = (command: HersCommand) => {
    for (const option of command.options)
      if (/passphrase|secret|seed|password/i.test(option.flags))
        assert.match(option.flags, /-file <file>$/, option.flags);
    for (const { name } of command.registeredArguments.map((argument) => ({ name: argument.name() })))
      assert.doesNotMatch(name, /passphrase|secret|seed|password/i);
    command.subcommands.forEach(visit);
  };
  visit(makeProgram(() => assert.fail()));
});

test('no command prints the key or the passphrase, whatever is asked of it', async () => {
  const { folder, hidden } = await sealedGallery();
  const env = { HERS_PASSPHRASE: PASSPHRASE };
  const commands = [
    ['keys', 'show'],
    ['config'],
    ['doctor'],
    ['collections', 'list'],
    ['collections', 'describe'],
    ['search', 'probes.npy', '--row', '0'],
    ['get', 'ada'],
    ['optimize'],
    ['count', '--collection', 'none'],
    ['count', '--key', 'people.csv'],
  ];
  for (const args of commands) {
    for (const more of [['--verbose'], ['--json']]) {
      const { out, err } = await hers(folder, [...args, ...more], { env });
      for (const secret of hidden) assert.ok(!`${out}${err}`.includes(secret), `${args.join(' ')} ${more.join(' ')}`);
    }
  }
});

test('nor does a wrong passphrase appear in the complaint about it', async () => {
  const { folder } = await sealedGallery();
  const { exit, err } = await hers(folder, ['count', '--verbose'], { env: { HERS_PASSPHRASE: 'my other password' } });
  assert.equal(exit, 4);
  assert.ok(!err.includes('my other password'));
});

test('other processes see no secret among the arguments', async () => {
  const { folder, hidden } = await sealedGallery();
  const child = spawn(process.execPath, [launcher, 'import', '-', '--row-ids', '--collection', 'tiny'], {
    cwd: folder,
    env: childEnv('', { HERS_PASSPHRASE: PASSPHRASE }),
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const seen = await readFile(`/proc/${child.pid}/cmdline`, 'utf8').catch(() => '');
  child.stdin.end('1,2,3,4\n');
  const [code] = await once(child, 'close');
  assert.equal(code, 0);
  for (const secret of hidden) assert.ok(!seen.includes(secret));
});

test('every file that commands make is for its owner alone', async () => {
  const { folder } = await sealedGallery();
  const env = { HERS_PASSPHRASE: PASSPHRASE };
  const before = new Set(await readdir(folder, { recursive: true }));
  await hers(folder, ['snapshot', 'new.snapshot'], { env });
  await hers(folder, ['get', '--all', '--output', 'new.npy'], { env });
  await hers(folder, ['keys', 'create', 'new.key', '--unsealed'], { env });
  await hers(folder, ['init', 'inner', '--unsealed', '--example'], { env });
  await hers(folder, ['keys', 'rotate'], { env });
  const made = (await readdir(folder, { recursive: true })).filter((name) => !before.has(name));
  assert.ok(made.includes('new.key') && made.includes('inner/hers.key') && made.includes('inner/example/faces.npy'));
  for (const name of [...made, 'hers.key.seen.json']) {
    const info = await stat(join(folder, name));
    // The lock of a gallery is an empty file that says nothing.
    if (info.size > 0) assert.equal(info.mode & 0o077, 0, name);
  }
});

test('what the store holds contains neither ids nor payloads nor vectors', async () => {
  const { folder } = await sealedGallery();
  const vector = Buffer.from((await readFile(join(folder, 'vectors.npy'))).subarray(128, 128 + 64));
  for (const name of await readdir(join(folder, 'gallery'), { recursive: true })) {
    const path = join(folder, 'gallery', name);
    if (!(await stat(path)).isFile()) continue;
    const bytes = await readFile(path);
    for (const hidden of ['barbara', 'dorothy', 'Delft', vector.subarray(0, 16)])
      assert.equal(bytes.includes(hidden), false, `${name} holds ${hidden}`);
  }
});
