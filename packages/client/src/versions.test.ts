import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { VersionFile } from './versions.node.ts';
import { rememberedAs } from './versions.ts';

async function withFile(work: (path: string, folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-versions-'));
  try {
    await work(join(folder, 'versions.json'), folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const id = new Uint8Array(16).fill(7);

test('versions outlive the process, in a file for its owner alone', () =>
  withFile(async (path, folder) => {
    const faces = rememberedAs(id, 'faces');
    await new VersionFile(path).write(faces, 3);
    const file = new VersionFile(path);
    assert.equal(await file.read(faces), 3);
    assert.equal(await file.read(rememberedAs(id, 'voices')), undefined);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    assert.deepEqual(await readdir(folder), ['versions.json']);
  }));

test('two that use one file do not forget what the other has seen', () =>
  withFile(async (path) => {
    const [a, b] = [new VersionFile(path), new VersionFile(path)];
    assert.equal(await a.read('x'), undefined);
    assert.equal(await b.read('y'), undefined);
    await a.write('x', 1);
    await b.write('y', 5);
    await Promise.all([2, 3, 4].map((version) => a.write('x', version)));
    assert.deepEqual(JSON.parse(await readFile(path, 'utf8')), { x: 4, y: 5 });
  }));

test('the highest version seen of a collection is that under any name', () =>
  withFile(async (path) => {
    const file = new VersionFile(path);
    assert.equal(await file.highest(id), undefined);
    await file.write(rememberedAs(id, 'faces'), 9);
    await file.write(rememberedAs(id, 'twin'), 4);
    await file.write(rememberedAs(new Uint8Array(16), 'other'), 40);
    assert.equal(await new VersionFile(path).highest(id), 9);
  }));

test('a file that holds no versions is said, not taken for one without any', () =>
  withFile(async (path) => {
    for (const content of ['', '{"half', '[]', 'null', '{"a": "1"}', '{"a": 1.5}']) {
      await writeFile(path, content);
      await assert.rejects(new VersionFile(path).read('a'), SyntaxError, content);
      await assert.rejects(new VersionFile(path).write('a', 1), SyntaxError, content);
      assert.equal(await readFile(path, 'utf8'), content);
    }
  }));
