// What commands write to: a new file, or one that may be replaced. A device, a pipe, a socket, a
// folder or a link is left as it is, and so is what a link leads to.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { hers, hersBytes, hersJson, Prepared, temporaryFolder, writeGallery } from '../testing/cli.ts';
import { EXIT } from './exit.ts';
import { writePrivately } from './private-file.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

interface Kind {
  readonly what: string;
  readonly make: (path: string) => Promise<unknown>;
}

const PRECIOUS = 'precious';

const KINDS: readonly Kind[] = [
  { what: 'a named pipe', make: async (path) => execFileSync('mkfifo', [path]) },
  { what: 'a folder', make: (path) => mkdir(path) },
  {
    what: 'a symbolic link',
    make: async (path) => {
      await writeFile(`${path}.behind`, PRECIOUS);
      await symlink(`${path}.behind`, path);
    },
  },
  { what: 'a symbolic link', make: (path) => symlink('nothing-there', path) },
  {
    what: 'a socket',
    make: async (path) => {
      const server = createServer().listen(path).unref();
      await once(server, 'listening');
      after(() => server.close());
    },
  },
];

/**
 * The same null device as /dev/null, which a test that fails must not replace. Not everybody may
 * make one.
 */
const DEVICE: Kind = { what: 'a device', make: async (path) => execFileSync('mknod', [path, 'c', '1', '3']) };
const mayMakeDevices = await (async () => {
  await using folder = await temporaryFolder();
  try {
    execFileSync('mknod', [join(folder.path, 'device'), 'c', '1', '3'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

/** All that tells one thing at a path from another. */
function identity(path: string) {
  const { ino, mode, rdev } = lstatSync(path);
  const link = lstatSync(path).isSymbolicLink() ? readlinkSync(path) : '';
  const behind = link.endsWith('.behind') ? readFileSync(path, 'utf8') : '';
  return { ino, mode, rdev, link, behind };
}

const everything = async (folder: string) => (await readdir(folder, { recursive: true })).sort();

interface Writer {
  readonly name: string;
  readonly args: (target: string) => readonly string[];
  /** The target, in the folder; `target` by default. */
  readonly target?: string;
}

const TRAIN = ['train', 'people.npy', '--method', 'pca', '--dimension', '8'];

const WRITERS: readonly Writer[] = [
  { name: 'snapshot', args: (target) => ['snapshot', target] },
  { name: 'snapshot --replace', args: (target) => ['snapshot', target, '--replace'] },
  { name: 'get --output', args: (target) => ['get', 'ada', '--output', target] },
  { name: 'expire --receipt', args: (target) => ['expire', '--receipt', target] },
  { name: 'train --output', args: (target) => [...TRAIN, '--output', target] },
  { name: 'train --output --replace', args: (target) => [...TRAIN, '--output', target, '--replace'] },
  { name: 'train --checkpoint', args: (target) => [...TRAIN, '--output', 'new.onnx', '--checkpoint', target] },
  { name: 'keys create', args: (target) => ['keys', 'create', target, '--unsealed'] },
  { name: 'init', args: () => ['init', 'other', '--unsealed'], target: 'other/hers.config.json' },
  {
    name: 'init --example',
    args: () => ['init', 'other', '--unsealed', '--example'],
    target: 'other/example/people.csv',
  },
  { name: 'tokens create', args: (target) => ['tokens', 'create', '--tokens', target] },
  { name: 'tokens revoke', args: (target) => ['tokens', 'revoke', '0123456789ab', '--tokens', target] },
  { name: 'serve --audit-log', args: (target) => ['serve', '--port', '0', '--audit-log', target] },
];

async function refuses({ args, target: name = 'target' }: Writer, { what, make }: Kind): Promise<void> {
  const folder = await prepared.copy();
  const target = join(folder, name);
  await mkdir(join(target, '..'), { recursive: true });
  await make(target);
  const before = { identity: identity(target), files: await everything(folder) };
  // Were it served, that would end at once.
  const signal = AbortSignal.abort(new Error('served'));
  const isServing = args(target)[0] === 'serve';
  const { exit, out, err } = await hers(folder, args(target), isServing ? { signal } : {});
  assert.equal(exit, EXIT.usage, err);
  assert.equal(out, '');
  assert.ok(err.startsWith(`hers: ${target} is ${what}; name another file`), err);
  assert.deepEqual({ identity: identity(target), files: await everything(folder) }, before);
}

for (const writer of WRITERS) {
  describe(`${writer.name} leaves as it is`, () => {
    KINDS.forEach((kind, i) => {
      const which = kind.what === 'a symbolic link' ? (i === 2 ? ' to a file' : ' to nothing') : '';
      test(`${kind.what}${which}`, { timeout: 60_000 }, () => refuses(writer, kind));
    });
    test(DEVICE.what, { skip: mayMakeDevices ? false : 'devices cannot be made here' }, () => refuses(writer, DEVICE));
  });
}

// Root could really replace it; the tests above are about another one then.
if (process.getuid?.() !== 0)
  test('/dev/null stays what it is', async () => {
    const { exit, err } = await hers(await prepared.copy(), ['snapshot', '/dev/null', '--replace']);
    assert.deepEqual([exit, err], [EXIT.usage, 'hers: /dev/null is a device; name another file.\n']);
    assert.ok(lstatSync('/dev/null').isCharacterDevice());
  });

describe('a key file behind a link', () => {
  test('is read, and gets no other passphrase', async () => {
    const folder = await prepared.copy();
    await rename(join(folder, 'hers.key'), join(folder, 'behind.key'));
    await symlink('behind.key', join(folder, 'hers.key'));
    const before = await readFile(join(folder, 'behind.key'), 'utf8');
    assert.equal((await hers(folder, ['count'])).out, '12\n');
    const env = { HERS_NEW_PASSPHRASE: 'four five six' };
    const { exit, err } = await hers(folder, ['keys', 'passphrase'], { env });
    assert.equal(exit, EXIT.usage);
    assert.match(err, /hers\.key is a symbolic link; name another file, or the one that it leads to\.\n$/);
    assert.equal(readlinkSync(join(folder, 'hers.key')), 'behind.key');
    assert.equal(await readFile(join(folder, 'behind.key'), 'utf8'), before);
    const made = await hersJson(folder, ['init', 'work', '--key', 'hers.key']);
    assert.equal(made.keyMade, false);
  });

  test('that leads to nothing is not made into one', async () => {
    await using folder = await temporaryFolder();
    await symlink('nothing', join(folder.path, 'my.key'));
    const { exit, err } = await hers(folder.path, ['init', 'work', '--key', 'my.key', '--unsealed']);
    assert.equal(exit, EXIT.usage, err);
    assert.match(err, /my\.key is a symbolic link/);
    assert.deepEqual(await readdir(folder.path), ['my.key']);
  });
});

test('init --example does not write over files of that name, and makes nothing then', async () => {
  await using folder = await temporaryFolder();
  await mkdir(join(folder.path, 'example'));
  await writeFile(join(folder.path, 'example', 'people.csv'), PRECIOUS);
  const { exit, err } = await hers(folder.path, ['init', '--unsealed', '--example']);
  assert.equal(exit, EXIT.absent, err);
  assert.match(err, /example\/people\.csv exists already; leave out --example, or choose another folder/);
  assert.deepEqual(await everything(folder.path), ['example', 'example/people.csv']);
  assert.equal(await readFile(join(folder.path, 'example', 'people.csv'), 'utf8'), PRECIOUS);
});

test('get --output finds out that a file is there before it reads anything', async () => {
  const folder = await prepared.copy();
  await writeFile(join(folder, 'copy.npy'), PRECIOUS);
  const { exit, err } = await hers(folder, ['get', '--all', '--output', 'copy.npy', '--key', 'no.key']);
  assert.equal(exit, EXIT.absent);
  assert.match(err, /copy\.npy exists already; choose another name/);
});

test('a stale lock of a token file is removed, and another file of that name is not', { timeout: 30_000 }, async () => {
  await using folder = await temporaryFolder();
  const lock = join(folder.path, 'tokens.json.lock');
  const create = () => hers(folder.path, ['tokens', 'create', '--tokens', 'tokens.json']);
  await writeFile(lock, '');
  await utimes(lock, 0, 0);
  assert.equal((await create()).exit, 0);
  await writeFile(lock, PRECIOUS);
  await utimes(lock, 0, 0);
  const { exit, err } = await create();
  assert.equal(exit, EXIT.storage, err);
  assert.equal(await readFile(lock, 'utf8'), PRECIOUS);
});

describe('a private file', () => {
  test('replaces a file, and standard output takes a snapshot as before', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'old'), PRECIOUS);
    assert.equal((await hers(folder, ['snapshot', 'old'])).exit, EXIT.absent);
    assert.equal(await readFile(join(folder, 'old'), 'utf8'), PRECIOUS);
    assert.equal((await hers(folder, ['snapshot', 'old', '--replace'])).exit, 0);
    const { exit, out } = await hersBytes(folder, ['snapshot', '-']);
    assert.equal(exit, 0);
    assert.equal(out.length, lstatSync(join(folder, 'old')).size);
  });

  for (const replace of [false, true])
    test(`refuses what came to its name while it was written, ${replace ? 'over' : 'beside'} a file`, async () => {
      await using folder = await temporaryFolder();
      const path = join(folder.path, 'target');
      if (replace) await writeFile(path, PRECIOUS);
      const writing = writePrivately(path, { replace }, async (file) => {
        await file.writeFile('new');
        await rm(path, { force: true });
        await symlink('elsewhere', path);
      });
      await assert.rejects(writing, /target is a symbolic link; name another file/);
      assert.equal(readlinkSync(path), 'elsewhere');
      assert.deepEqual(await readdir(folder.path), ['target']);
    });

  test('that cannot be written leaves nothing behind', async () => {
    await using folder = await temporaryFolder();
    const writing = writePrivately(join(folder.path, 'target'), { replace: false }, async (file) => {
      await file.writeFile('half');
      throw new Error('enough');
    });
    await assert.rejects(writing, /enough/);
    assert.deepEqual(await readdir(folder.path), []);
  });
});
