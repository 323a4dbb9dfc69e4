// `hers doctor --repair`, as people and programs call it. What a repair brings back is the client's
// repair.test.ts.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readdir, readFile, truncate, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { hers, hersJson, PEOPLE, Prepared, writeGallery } from '../testing/cli.ts';
import { Interrupted } from './exit.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

const beside = async (folder: string) => (await readdir(folder)).filter((name) => name.startsWith('gallery'));

/** Flips a byte of a sealed record of `faces`. */
async function flipRecord(folder: string): Promise<void> {
  const vault = join(folder, 'gallery/vault');
  const [name] = (await readdir(vault)).filter((file) => file.startsWith('1-'));
  const bytes = await readFile(join(vault, name));
  for (let at = 40; ; at += 16 + bytes.readUInt32LE(at)) {
    if (bytes.readUInt32LE(at + 4) !== 1) continue;
    bytes[at + 100] ^= 1;
    await writeFile(join(vault, name), bytes);
    return;
  }
}

describe('hers doctor --repair', () => {
  test('does nothing to a gallery that is whole', async () => {
    const folder = await prepared.copy();
    const { exit, out } = await hers(folder, ['doctor', '--repair', '--into', 'repaired']);
    assert.equal(exit, 0);
    assert.match(out, /gallery is whole\. Nothing was done\.$/m);
    assert.ok(!existsSync(join(folder, 'repaired')));
    assert.deepEqual(await beside(folder), ['gallery']);
  });

  test('says that another key opens nothing of a gallery that is whole', async () => {
    const folder = await prepared.copy();
    await hers(folder, ['keys', 'create', 'other.key', '--unsealed']);
    const { exit, out, err } = await hers(folder, ['doctor', '--repair', '--key', 'other.key']);
    assert.deepEqual([exit, out], [4, '']);
    assert.match(err, /gallery was made with another key \(.*faces.*\); use that\. Its files are whole/);
    await hers(folder, ['collections', 'create', 'theirs', '--dimension', '4', '--key', 'other.key']);
    const mixed = await hers(folder, ['doctor', '--repair']);
    assert.equal(mixed.exit, 0, mixed.err);
    assert.match(mixed.out, /^theirs: made with another key; its files are whole/m);
  });

  test('brings a gallery without a catalogue back, and says where the damaged one is', async () => {
    const folder = await prepared.copy();
    await truncate(join(folder, 'gallery/catalogue.db'), 0);
    assert.equal((await hers(folder, ['count'])).exit, 6);
    const { exit, out, err } = await hers(folder, ['doctor', '--repair']);
    assert.equal(exit, 0, err);
    assert.match(out, /^What was wrong: catalogue\.db is damaged/m);
    assert.match(out, /^faces: version \d+, 12 records, all that its manifest names\.$/m);
    const [, backup] = /^The damaged one is in (\S+);/m.exec(out)!;
    assert.ok(existsSync(join(backup, 'vault')));
    assert.equal((await hers(folder, ['count'])).out, '12\n');
    assert.equal((await hers(folder, ['doctor', '--scrub'])).exit, 0);
    assert.match((await hers(folder, ['doctor', '--repair'])).out, /Nothing was done/);
  });

  test('says what is lost, with its id where that is asked for, and ends with 1', async () => {
    const folder = await prepared.copy();
    await flipRecord(folder);
    const { exit, out } = await hers(folder, ['doctor', '--repair', '--into', 'text']);
    assert.equal(exit, 1);
    assert.match(out, /^vault\/1-\d+\.pack: \S+ bytes cannot be used, at \d+ to \d+\.$/m);
    assert.match(out, /^faces: 1 record lost\. --verbose and --json name them\.$/m);
    const asJson = await hers(folder, ['doctor', '--repair', '--json', '--into', 'data']);
    assert.equal(asJson.exit, 1);
    const { complete, collections } = JSON.parse(asJson.out);
    assert.equal(complete, false);
    const { lost, records } = collections.find(({ name }: { name: string }) => name === 'faces');
    assert.equal(records, 11);
    assert.ok(PEOPLE.includes(lost.ids[0]));
    const { out: named, err } = await hers(folder, ['doctor', '--repair', '--verbose', '--into', 'verbose']);
    assert.match(err, new RegExp(`^faces: lost "${lost.ids[0]}"$`, 'm'));
    assert.match(named, /^faces: 1 record lost\.$/m);
    assert.equal((await hers(folder, ['count', '--gallery', 'data'])).out, '11\n');
  });

  test('refuses another key, options without --repair, a place that is taken, and a server', async () => {
    const folder = await prepared.copy();
    await unlink(join(folder, 'gallery/catalogue.db'));
    await hers(folder, ['keys', 'create', 'other.key', '--unsealed']);
    const before = await readdir(join(folder, 'gallery'), { recursive: true });
    const wrong = await hers(folder, ['doctor', '--repair', '--key', 'other.key']);
    assert.equal(wrong.exit, 4, wrong.err);
    assert.match(wrong.err, /made with another key/);
    assert.deepEqual((await readdir(join(folder, 'gallery'), { recursive: true })).sort(), before.sort());
    assert.deepEqual(await beside(folder), ['gallery']);
    for (const flag of ['--unlisted', '--into=x']) assert.equal((await hers(folder, ['doctor', flag])).exit, 2);
    const server = await hers(folder, ['doctor', '--repair', '--gallery', 'https://gallery.example']);
    assert.equal(server.exit, 2, server.err);
    assert.equal((await hers(folder, ['doctor', '--repair', '--into', 'gallery/vault'])).exit, 3);
    assert.equal((await hers(folder, ['doctor', '--repair', '--gallery', 'nowhere'])).exit, 3);
  });

  test('stopped, it leaves nothing behind', async () => {
    const folder = await prepared.copy();
    await unlink(join(folder, 'gallery/catalogue.db'));
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Interrupted('SIGINT')), 30);
    const { exit, err } = await hers(folder, ['doctor', '--repair'], { signal: stop.signal });
    assert.equal(exit, 130, err);
    assert.deepEqual(await beside(folder), ['gallery']);
    assert.equal((await hersJson(folder, ['doctor', '--repair'])).complete, true);
  });
});
