// Nothing on the store's side of the interface can decrypt anything: every byte that crosses it,
// and every byte in the folder, is searched for secrets, ids and vectors in any of their encodings.
// And what a search asks does not depend on its answer.

import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, it } from 'node:test';
import { plan, roundVectors } from '@hers/scheme';
import { openStore } from '@hers/store';
import { bytesIn, type Call, encodings, vectorOf, watched } from '../testing/client.ts';
import { Database, MasterSeed } from './index.ts';

const folders: string[] = [];
const temporary = async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-secrecy-'));
  folders.push(folder);
  return folder;
};
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))));

const DIMENSION = 16;

const bytesOf = (array: { buffer: ArrayBufferLike; byteOffset: number; byteLength: number }) =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

for (const profile of ['compact', 'exact'] as const) {
  it(`${profile}: no secret, id or vector crosses the interface or reaches the folder`, async () => {
    const folder = await temporary();
    const calls: Call[] = [];
    const seed = MasterSeed.generate();
    const db = new Database(watched(await openStore(folder), calls), { key: seed });
    const things = await db.createCollection('things', { dimension: DIMENSION, profile });
    const n = things.plan.parameters.n;
    const secretName = 'a-very-private-person';
    const vectors = Array.from({ length: n + 50 }, (_, i) => vectorOf(i, DIMENSION));
    await things.upsert(
      vectors.map((vector, i) => ({
        id: `${secretName}-${i}`,
        vector,
        payload: { note: 'private note' },
      })),
    );
    const probe = vectorOf(12_345, DIMENSION);
    await things.search(probe, { rerank: true, payload: true });
    await things.verify(`${secretName}-3`, probe);
    await things.delete(`${secretName}-4`);
    await things.optimize();
    await things.rotateKey();
    for await (const _ of things.snapshot()) {
      // everything in a snapshot crosses as well
    }
    const id = calls.flatMap((call) => bytesIn(call.args)).find((bytes) => bytes.length === 16)!;
    await db.close();

    const needles: [string, Buffer[]][] = [
      ['the master seed', encodings(seed.reveal())],
      ['half of it', encodings(seed.reveal().subarray(0, 16))],
      [
        'ids',
        [
          Buffer.from(secretName),
          Buffer.from(Buffer.from(secretName).toString('base64').slice(0, 20)),
          Buffer.from(Buffer.from(secretName).toString('hex')),
        ],
      ],
      ['payloads', [Buffer.from('private note')]],
    ];
    for (const purpose of ['handles', 'record versions', 'manifest', 'descriptor'])
      needles.push([`the key of ${purpose}`, encodings(seed.deriveKey(purpose, id))]);
    for (const epoch of [0, 1]) {
      const context = Uint8Array.from([...id, epoch, 0, 0, 0]);
      needles.push([`the key of seals, epoch ${epoch}`, encodings(seed.deriveKey('seals', context))]);
    }
    // Vectors: whole, and any four coordinates in a row; as floats, doubles, rounded and scaled
    // integers.
    const settings = plan({ dimension: DIMENSION, profile });
    for (const vector of [vectors[0], vectors[n - 1], vectors[n + 49], probe]) {
      const forms = [vector, Float64Array.from(vector), Float64Array.from(vector, (x) => x / Math.hypot(...vector))];
      if (profile === 'exact') forms.push(roundVectors(settings, vector) as never);
      for (const form of forms)
        for (let at = 0; at + 4 <= DIMENSION; at += 4)
          needles.push(['a vector', [Buffer.from(bytesOf(form.subarray(at, at + 4)))]]);
      needles.push([
        'a vector as text',
        [
          Buffer.from([...vector.subarray(0, 3)].join(',')),
          Buffer.from(JSON.stringify([...vector.subarray(0, 3)]).slice(1, -1)),
        ],
      ]);
    }
    const haystacks: [string, Buffer][] = calls.flatMap((call, i) =>
      [...bytesIn(call.args), ...call.out].map((bytes): [string, Buffer] => [
        `call ${i} of ${call.method}`,
        Buffer.from(bytes),
      ]),
    );
    for (const name of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (name.isFile()) haystacks.push([name.name, await readFile(join(name.parentPath, name.name))]);
    }
    assert.ok(haystacks.length > 20);
    // Whatever way records are handed over, they were seen.
    const staged = calls.filter(({ method }) => method === 'stageRecords').flatMap((call) => bytesIn(call.args));
    assert.equal(staged.length >= 2 * vectors.length, true, `${staged.length}`);
    for (const [where, bytes] of haystacks) {
      for (const [what, forms] of needles)
        for (const form of forms) assert.ok(!bytes.includes(form), `${what} in ${where}`);
    }
    // The search itself works: what is there is found.
    const handleLike = calls.find((call) => call.method === 'createCollection')!;
    assert.ok(haystacks.some(([, bytes]) => bytes.includes(Buffer.from(bytesIn(handleLike.args)[0]))));
  });
}

it('two searches with different answers ask the same of the store', async () => {
  const calls: Call[] = [];
  const db = new Database(watched(await openStore(await temporary()), calls), { key: MasterSeed.generate() });
  const things = await db.createCollection('things', { dimension: DIMENSION });
  await things.upsert(
    Array.from({ length: 2048 * 2 + 10 }, (_, i) => ({ id: String(i), vector: vectorOf(i, DIMENSION) })),
  );
  const shape = async (probe: Float32Array, threshold?: number) => {
    calls.length = 0;
    const { matches } = await things.search(probe, threshold === undefined ? {} : { threshold });
    return {
      best: matches[0]?.id,
      calls: calls.map(({ method, args, out }) => [
        method,
        bytesIn(args).map((b) => b.length),
        out.map((b) => b.length),
      ]),
    };
  };
  const [a, b, none] = [
    await shape(vectorOf(3, DIMENSION)),
    await shape(vectorOf(4100, DIMENSION)),
    await shape(vectorOf(70_000, DIMENSION), 0.9999),
  ];
  assert.notEqual(a.best, b.best);
  assert.equal(none.best, undefined);
  assert.deepEqual(a.calls, b.calls);
  assert.deepEqual(a.calls, none.calls);
  assert.deepEqual(
    a.calls.map(([method]) => method),
    ['search'],
  );
  await db.close();
});
