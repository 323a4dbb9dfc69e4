import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { HersError } from '@hers/service';
import { VersionFile } from './versions.node.ts';
import { laterOf, type Seen, type Shown, seenAfter } from './versions.ts';

async function withFile(work: (path: string, folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-versions-'));
  try {
    await work(join(folder, 'seen.json'), folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const ID = '07'.repeat(16);
const faces = { gallery: 'file:/a', name: 'faces' };
const seen = (version: number, more: Partial<Seen> = {}): Seen => ({ id: ID, version, hash: `h${version}`, ...more });
const write = (file: VersionFile, version: number, place = faces) => file.update(place, () => seen(version));
const integrity = (what: RegExp) => (error: unknown) =>
  error instanceof HersError && error.code === 'INTEGRITY' && what.test(error.message);

test('what was seen outlives the process, in a file for its owner alone', () =>
  withFile(async (path, folder) => {
    await write(new VersionFile(path), 3);
    const file = new VersionFile(path);
    assert.deepEqual(await file.read(faces), seen(3));
    assert.equal(await file.read({ ...faces, name: 'voices' }), undefined);
    assert.equal(await file.read({ ...faces, gallery: 'file:/b' }), undefined);
    for (const name of await readdir(folder)) assert.equal((await stat(join(folder, name))).mode & 0o777, 0o600, name);
    assert.deepEqual((await readdir(folder)).sort(), ['seen.json', 'seen.json.lock', 'seen.json.spare']);
  }));

test('a link is read through, and neither it nor what it leads to is written over', () =>
  withFile(async (path, folder) => {
    const other = join(folder, 'other.json');
    await write(new VersionFile(other), 3);
    const before = await readFile(other, 'utf8');
    await symlink('other.json', path);
    const file = new VersionFile(path);
    assert.deepEqual(await file.read(faces), seen(3));
    await assert.rejects(write(file, 4), /seen\.json is a symbolic link; name another file/);
    assert.equal(await readlink(path), 'other.json');
    assert.equal(await readFile(other, 'utf8'), before);
    assert.ok((await readdir(folder)).every((name) => !name.endsWith('.tmp')));
  }));

test('two that use one file do not forget what the other has seen, nor go back behind it', () =>
  withFile(async (path) => {
    const [a, b] = [new VersionFile(path), new VersionFile(path)];
    const shown = (version: number, before: number): Shown => ({
      id: ID,
      version,
      hash: `h${version}`,
      history: Array.from({ length: version - before }, (_, i) => `h${version - 1 - i}`),
    });
    const see = (file: VersionFile, version: number, name: string) =>
      file.update({ ...faces, name }, (now) => laterOf(now, shown(version, 1), name));
    await see(b, 8, 'faces');
    await see(a, 10, 'faces');
    // b has seen 8 itself, and writes about something else; then a slow reader of b is done with 9.
    await see(b, 2, 'voices');
    await see(b, 9, 'faces');
    assert.equal((await new VersionFile(path).read(faces))?.version, 10);
    assert.equal((await new VersionFile(path).read({ ...faces, name: 'voices' }))?.version, 2);
  }));

test('many processes count together without losing one', { timeout: 60_000 }, () =>
  withFile(async (path) => {
    const source = `
      const { VersionFile } = await import(${JSON.stringify(new URL('./versions.node.ts', import.meta.url).href)});
      const file = new VersionFile(${JSON.stringify(path)});
      for (let i = 0; i < 25; i++)
        await file.update({ gallery: 'g', name: 'n' }, (seen) => ({ id: 'x', version: (seen?.version ?? 0) + 1 }));
      process.kill(process.pid, 'SIGKILL');`;
    const runs = Array.from({ length: 4 }, () => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: 'inherit' });
      return new Promise((resolve) => child.on('close', (_, signal) => resolve(signal)));
    });
    assert.deepEqual(await Promise.all(runs), ['SIGKILL', 'SIGKILL', 'SIGKILL', 'SIGKILL']);
    assert.equal((await new VersionFile(path).read({ gallery: 'g', name: 'n' }))?.version, 100);
  }),
);

test('a file that holds something else is said, not taken for one that has seen nothing', () =>
  withFile(async (path) => {
    const rows = ['{}', '{"gallery":"g","name":"n","id":"x","version":1.5}', '{"gallery":"g","name":"n","id":"x"}'];
    const contents = ['', '{"half', '[]', 'null', '{"a": "1"}', '{"a": 1.5}', '{"collections": 3}'];
    for (const content of [...contents, ...rows.map((row) => `{"format":1,"collections":[${row}]}`)]) {
      await writeFile(path, content);
      await assert.rejects(new VersionFile(path).read(faces), SyntaxError, content);
      await assert.rejects(write(new VersionFile(path), 1), SyntaxError, content);
      assert.equal(await readFile(path, 'utf8'), content);
    }
    for (const format of [0, 2, 3]) {
      await writeFile(path, `{"format":${format},"collections":[]}`);
      const refused = { code: 'UNSUPPORTED_VERSION', message: /is in another format; use the version that wrote it/ };
      await assert.rejects(new VersionFile(path).read(faces), refused);
    }
  }));

test('a gallery that is made again is forgotten, and no other', () =>
  withFile(async (path) => {
    const file = new VersionFile(path);
    await write(file, 3);
    await write(file, 4, { ...faces, gallery: 'file:/b' });
    await file.forget('file:/a');
    assert.equal(await file.read(faces), undefined);
    assert.equal((await file.read({ ...faces, gallery: 'file:/b' }))?.version, 4);
  }));

describe('what is shown must follow from what was seen', () => {
  const history = (version: number, length: number) =>
    Array.from({ length }, (_, i) => `h${version - 1 - i}`).filter((hash) => hash !== 'h0');
  const shown = (version: number, length = 3, more: Partial<Shown> = {}): Shown => ({
    id: ID,
    version,
    hash: `h${version}`,
    history: history(version, length),
    ...more,
  });

  test('the same, the next, and one as far on as hashes reach', () => {
    for (const version of [5, 6, 7, 8]) assert.equal(seenAfter(seen(5), shown(version), 'faces').version, version);
    assert.deepEqual(seenAfter(seen(5, { unverified: ['x'], stopped: true }), shown(6), 'faces'), {
      ...seen(6),
      unverified: ['x'],
      stopped: true,
    });
  });

  test('not an older one, another of the same version, or one from elsewhere', () => {
    assert.throws(
      () => seenAfter(seen(5), shown(4), 'faces'),
      integrity(/rolled back: it is at version 4 and version 5/),
    );
    assert.throws(
      () => seenAfter(seen(5), shown(5, 3, { hash: 'x' }), 'faces'),
      integrity(/another history.*: the store shows another version 5 than before\./),
    );
    assert.throws(() => seenAfter(seen(5), shown(6, 1, { history: ['x'] }), 'faces'), integrity(/another history/));
    assert.throws(
      () => seenAfter(seen(5), shown(8, 3, { history: ['h7', 'h6', 'x'] }), 'faces'),
      integrity(/another history.*hers collections accept faces/),
    );
    assert.throws(() => seenAfter(seen(5), shown(5, 3, { id: 'x' }), 'faces'), integrity(/is not the one/));
    assert.throws(() => seenAfter(seen(5, { deleted: true }), shown(5), 'faces'), integrity(/has deleted it/));
  });

  test('beyond the reach of the hashes nothing can be told', () => {
    assert.equal(seenAfter(seen(5), shown(9, 3), 'faces').version, 9);
  });

  test('another collection may follow one that this client has deleted', () => {
    assert.deepEqual(seenAfter(seen(5, { deleted: true }), shown(1, 0, { id: 'new' }), 'faces'), {
      id: 'new',
      version: 1,
      hash: 'h1',
      deletedIds: [ID],
    });
  });

  test('those that were deleted before stay deleted, the last 64 of a name', () => {
    let now: Seen = seen(5, { deleted: true });
    for (let i = 0; i < 70; i++) now = { ...seenAfter(now, shown(1, 0, { id: `${i}` }), 'faces'), deleted: true };
    assert.equal(now.deletedIds?.length, 64);
    for (const id of ['6', '68', '69'])
      assert.throws(() => seenAfter(now, shown(1, 0, { id }), 'faces'), integrity(/has deleted it/));
    assert.equal(seenAfter(now, shown(1, 0, { id: '4' }), 'faces').id, '4');
  });
});

test('a file keeps what was deleted, and finds it', () =>
  withFile(async (path) => {
    const deleted = seen(5, { deletedIds: ['a', 'b'] });
    await new VersionFile(path).update(faces, () => deleted);
    const file = new VersionFile(path);
    assert.deepEqual(await file.read(faces), deleted);
    for (const id of [ID, 'a', 'b'])
      assert.deepEqual(
        (await file.places(id)).map(({ place }) => place),
        [faces],
      );
    assert.deepEqual(await file.places('c'), []);
    await writeFile(
      path,
      '{"format":1,"collections":[{"gallery":"g","name":"n","id":"x","version":1,"deletedIds":[1]}]}',
    );
    await assert.rejects(new VersionFile(path).read(faces), SyntaxError);
  }));

test('on a disk that is full, what was seen is still written down, with room that was kept for it', (t) =>
  withFile(async (path, folder) => {
    const isRoot = process.getuid?.() === 0;
    const mount = isRoot ? spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'hers-test', folder]) : undefined;
    if (mount?.status !== 0) return t.skip('a file system can be mounted only by root');
    try {
      const file = new VersionFile(path);
      await write(file, 3);
      const filler = join(folder, 'filler');
      await writeFile(filler, Buffer.alloc(2 ** 20)).catch(() => {});
      await assert.rejects(writeFile(join(folder, 'more'), 'x'), { code: 'ENOSPC' });
      await write(file, 4);
      assert.deepEqual(await new VersionFile(path).read(faces), seen(4));
      assert.ok((await readdir(folder)).every((name) => !name.endsWith('.tmp')));
      // Where there is no more room at all, what was written before stays.
      await rm(`${path}.spare`, { force: true });
      await writeFile(filler, Buffer.alloc(2 ** 20)).catch(() => {});
      await assert.rejects(write(file, 5), { code: 'ENOSPC' });
      assert.deepEqual(await new VersionFile(path).read(faces), seen(4));
      await rm(filler);
      await write(file, 5);
      assert.deepEqual(await new VersionFile(path).read(faces), seen(5));
      assert.ok((await readdir(folder)).includes('seen.json.spare'), 'the room is kept again');
    } finally {
      spawnSync('umount', ['-l', folder]);
    }
  }));
