// Devices with keys of their own: queries of a kilobyte, from the bundle to the answer, and what
// becomes of the evaluation keys of a device when it is revoked, renewed, copied, lost and
// repaired.
//
// Long: inbox.test.ts is the short form.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { decodeEvaluation } from '@hers/scheme/open';
import { encryptShortQuery } from '@hers/scheme/secret/open';
import { decodeEnvelope, HersError } from '@hers/service';
import { openStore } from '@hers/store';
import fc from 'fast-check';
import { near, person, world } from '../../testing/devices.ts';
import { openView } from '../../testing/view.ts';
import { fromHex } from '../bytes.ts';
import { sessionOf } from '../collection.ts';
import { Database } from '../database.ts';
import { MasterSeed } from '../index.ts';
import { repairGallery } from '../repair/repair.node.ts';
import { InMemoryVersions } from '../session/versions.ts';
import { decodeBundle } from './bundle.ts';
import { signEnvelope, signText } from './envelopes.ts';
import { InMemoryNonces } from './memory.ts';

const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

describe('bundles', () => {
  it('are read as they are, or refused, whatever is done to them', async () => {
    await using w = await world(0);
    const text = await w.add('door', { ownKey: true, enrol: { most: 1 } });
    const given = JSON.parse(text);
    const codes = new Set<string>();
    const tried = (bundle: string) => {
      try {
        decodeBundle(bundle);
        codes.add('read');
      } catch (error) {
        assert.ok(error instanceof HersError, `${error}`);
        codes.add(error.code);
      }
    };
    const values = fc.oneof(
      fc.constantFrom(undefined, null, true, '', 'x', -1, 0, 2 ** 32, 1e300, [], {}, given.keeper, given.signature),
      fc.jsonValue(),
      fc.base64String(),
    );
    const places = fc.constantFrom(
      ...Object.keys(given),
      ...Object.keys(given.keys).map((name) => `keys.${name}`),
      'own.seed',
    );
    const signing = sessionOf(w.faces).keyring.keeperKeys().signing;
    fc.assert(
      fc.property(places, values, fc.boolean(), (place, value, isSigned) => {
        const [outer, inner] = place.split('.') as [string, string?];
        const { signature, ...altered } =
          inner === undefined
            ? { ...given, [outer]: value }
            : { ...given, [outer]: { ...given[outer], [inner]: value } };
        // Also by somebody who can sign: a keeper of another version, or one that errs.
        const signed = isSigned
          ? Buffer.from(signText(signing, JSON.stringify(altered))).toString('base64')
          : signature;
        tried(JSON.stringify({ ...altered, signature: signed }));
      }),
      { numRuns: 300 },
    );
    fc.assert(
      fc.property(fc.nat(text.length), fc.nat(200), fc.string(), (at, cut, put) => {
        tried(text.slice(0, at) + put + text.slice(at + cut));
      }),
      { numRuns: 200 },
    );
    fc.assert(fc.property(fc.string(), (garbage) => tried(garbage)));
    assert.deepEqual([...codes].sort(), ['INTEGRITY', 'MALFORMED', 'UNSUPPORTED_VERSION', 'read']);
  });
});

describe('devices with keys of their own', () => {
  let w: Awaited<ReturnType<typeof world>>;
  const memory = new InMemoryNonces();
  before(async () => {
    w = await world();
  });
  after(() => w[Symbol.asyncDispose]());

  const evaluation = async () => (await openView(w.store, w.key, 'faces')).view.manifest.evaluation;
  /** The lists of devices, by the numbers of their secrets. */
  const pieces = async () => (await evaluation())[0].devices ?? {};
  const held = () => Array.fromAsync(w.store.takeInbox('faces'));

  it('ask with a kilobyte, beside devices with the public key, and the keeper sees who it is', async () => {
    const [own, other] = [await w.device('own', { ownKey: true }), await w.device('own-2', { ownKey: true })];
    const plain = await w.device('plain');
    const named: string[][] = [];
    w.methods.search = (name, request, options) => {
      // At once: the memory of a request is used again when it was answered.
      named.push((request.open?.devices ?? []).map((id) => Buffer.from(id).toString('hex')));
      return w.store.search(name, request, options);
    };
    await own.ask(near(3));
    await plain.ask(near(33));
    await other.ask(near(12));
    await own.ask(near(14));
    const sizes = (await held()).map(({ envelope }) => decodeEnvelope(envelope).body.length);
    assert.deepEqual([sizes[0] < 200, sizes[1] > 28_000, sizes[2], sizes[3]], [true, true, sizes[0], sizes[0]]);
    const { asked, refused } = await w.answers({ memory });
    delete w.methods.search;
    assert.deepEqual(refused, []);
    assert.deepEqual(
      asked.map(({ device, matches }) => [device, matches[0].id]),
      [
        ['own', 'person 3'],
        ['plain', 'person 33'],
        ['own-2', 'person 12'],
        ['own', 'person 14'],
      ],
    );
    // The same scores as the key holder's own search gives, but for noise.
    const search = await w.faces.search(near(3), { limit: 1 });
    assert.ok(Math.abs(search.matches[0].score - asked[0].matches[0].score) < 0.02);
    // One search, which names the keys of those that asked, each once.
    assert.deepEqual(named, [Object.values(await pieces())]);
    assert.deepEqual(
      (await w.faces.devices()).map(({ name, hasOwnKey }) => [name, hasOwnKey]),
      [
        ['own', true],
        ['own-2', true],
        ['plain', false],
      ],
    );
  });

  it('hold a secret that reads their own queries, and none of others or of the gallery', async () => {
    const [one, two] = [
      decodeBundle(await w.add('one', { ownKey: true })),
      decodeBundle(await w.add('two', { ownKey: true })),
    ];
    assert.notDeepEqual(one.own!.seed, two.own!.seed);
    assert.notEqual(one.own!.secret, two.own!.secret);
    const plain = decodeBundle(await w.add('three'));
    assert.equal(plain.own, undefined);
    // Whatever else they hold is the same for all, and public.
    assert.deepEqual({ ...one.keys, publicKey: 0 }, { ...two.keys, publicKey: 0 });
    // The store's piece of a device says which device it is for, and nothing of its seed.
    const list = (await pieces())[one.own!.secret];
    const [bytes] = await Array.fromAsync(w.store.getLists('faces', [fromHex(list)]));
    const piece = decodeEvaluation(bytes);
    assert.deepEqual([piece.part, piece.first, piece.generation], ['device', one.own!.secret, 0]);
    assert.equal(bytes.length, 163_928);
    assert.ok(!Buffer.from(bytes).includes(Buffer.from(one.own!.seed)));
    // A query under the secret of another device, or under the public key's, is not answered.
    const { plan } = w.faces;
    const { keyId, generation, collection, epoch } = one.keys;
    const post = async (secret: number, seed: Uint8Array) => {
      const query = encryptShortQuery(plan as never, { keyId, generation, number: secret, seed }, near(1));
      const nonce = crypto.getRandomValues(new Uint8Array(16));
      const about = { kind: 'question', device: one.number, epoch, time: Date.now(), collection, nonce } as const;
      await w.store.post('faces', signEnvelope(one.signingKey, about, query));
    };
    await post(two.own!.secret, one.own!.seed);
    await post(0, one.own!.seed);
    await post(4_000_000_000, one.own!.seed);
    await post(one.own!.secret, two.own!.seed);
    await post(one.own!.secret, one.own!.seed);
    const { asked, reasons } = await w.answers({ memory });
    assert.deepEqual(
      reasons.filter((reason) => reason !== 'repeated'),
      ['malformed', 'malformed', 'malformed', 'dishonest'],
    );
    assert.deepEqual(
      asked.map(({ device, matches }) => [device, matches[0].id]),
      [['one', 'person 1']],
    );
  });

  it('are asked for by searches that name what is there, and not too much', async () => {
    const { version } = await w.store.getManifest('faces');
    const [{ lists, devices }] = await evaluation();
    const open = { evaluation: lists.map(fromHex), inbox: [] };
    const own = fromHex(Object.values(devices!)[0]);
    const search = (named: Uint8Array[]) =>
      Array.fromAsync(w.store.search('faces', { version, queries: [], open: { ...open, devices: named } }));
    assert.deepEqual(await search([own]), []);
    await assert.rejects(search([new Uint8Array(32)]), fails('NOT_FOUND'));
    await assert.rejects(search([new Uint8Array(31)]), fails('INVALID_ARGUMENT'));
    await assert.rejects(search([fromHex(lists[0])]), fails('MALFORMED'));
    await assert.rejects(search(Array.from({ length: 65 }, () => own)), fails('INVALID_ARGUMENT'));
  });

  it('lose their evaluation keys when they are revoked, and get others with every bundle', async () => {
    const bundle = decodeBundle(await w.add('gate', { ownKey: true }));
    const old = (await pieces())[bundle.own!.secret];
    assert.ok(old);
    // Renewed: another secret, another piece, and the old one is gone.
    const renewed = decodeBundle(await w.add('gate', { renew: true }));
    assert.ok(renewed.own!.secret > bundle.own!.secret);
    assert.notDeepEqual(renewed.own!.seed, bundle.own!.seed);
    assert.equal(renewed.number, bundle.number);
    const now = await pieces();
    assert.deepEqual([now[bundle.own!.secret], now[renewed.own!.secret] !== old], [undefined, true]);
    await assert.rejects(Array.fromAsync(w.store.getLists('faces', [fromHex(old)])), fails('NOT_FOUND'));
    await assert.rejects(w.add('gate', { renew: true, ownKey: false }), fails('INVALID_ARGUMENT'));
    // One that had none may get one.
    await w.add('late');
    const late = decodeBundle(await w.add('late', { renew: true, ownKey: true }));
    assert.ok(late.own!.secret > renewed.own!.secret);
    await w.faces.revokeDevice('gate');
    const left = await pieces();
    assert.deepEqual([left[renewed.own!.secret], left[late.own!.secret]?.length], [undefined, 64]);
    await assert.rejects(
      Array.fromAsync(w.store.getLists('faces', [fromHex(now[renewed.own!.secret])])),
      fails('NOT_FOUND'),
    );
    // No number comes again, though the device that had the largest is gone.
    const next = decodeBundle(await w.add('next', { ownKey: true }));
    assert.ok(next.own!.secret > late.own!.secret);
  });

  it('that are revoked while the keeper scans stop nobody else', async () => {
    const [door, other] = [await w.device('door', { ownKey: true }), await w.device('other', { ownKey: true })];
    await w.store.dropInbox(
      'faces',
      (await held()).map(({ number }) => number),
    );
    await door.ask(near(1));
    await other.ask(near(2));
    const { search } = w.store;
    let first = true;
    w.methods.search = async function* (name, request, options) {
      if (first) await w.faces.revokeDevice('door');
      first = false;
      yield* search.call(w.store, name, request, options) as AsyncIterable<Uint8Array>;
    };
    const { asked, reasons } = await w.answers({ memory });
    delete w.methods.search;
    assert.deepEqual(
      asked.map(({ device, matches }) => [device, matches[0].id]),
      [['other', 'person 2']],
    );
    assert.deepEqual(reasons, ['key']);
  });

  it('are part of snapshots, and are renewed when the key was rotated', async () => {
    await using w = await world(4);
    const old = await w.device('door', { ownKey: true });
    await old.ask(near(1));
    assert.equal((await w.answers()).asked[0].matches[0].id, 'person 1');
    const { key } = w;
    const elsewhere = await world(0);
    const database = new Database(elsewhere.store, { key, versions: new InMemoryVersions() });
    await database.restore('faces-2', w.faces.snapshot());
    const { manifest } = (await openView(elsewhere.store, key, 'faces-2')).view;
    for (const list of Object.values(manifest.evaluation[0].devices!))
      assert.equal((await Array.fromAsync(elsewhere.store.getLists('faces-2', [fromHex(list)]))).length, 1);
    // What the device asks there is answered as well.
    for (const { envelope } of await Array.fromAsync(w.store.takeInbox('faces')))
      await elsewhere.store.post('faces-2', envelope);
    const copy = await database.collection('faces-2');
    const [question] = await Array.fromAsync(copy.questions({ wait: false, limit: 1 }));
    assert.equal(question?.matches[0].id, 'person 1');
    await database.close();
    await elsewhere[Symbol.asyncDispose]();

    await old.ask(near(2));
    await w.faces.rotateKey();
    const [{ devices, epoch }] = (await openView(w.store, key, 'faces')).view.manifest.evaluation;
    assert.deepEqual([epoch, devices], [1, undefined]);
    assert.deepEqual((await w.answers()).reasons, ['key', 'key']);
    const renewed = await w.device('door', { renew: true });
    await renewed.ask(near(3));
    const now = await w.answers();
    assert.deepEqual(
      now.asked.map(({ matches }) => matches[0].id),
      ['person 3'],
    );
    assert.equal((await w.faces.devices())[0].hasOwnKey, true);
  });

  it('are added to a collection whose key was rotated while it was empty', async () => {
    await using w = await world(0);
    await w.add('old', { ownKey: true });
    await w.faces.rotateKey();
    const door = await w.device('door', { ownKey: true });
    const [{ epoch, devices, lists }] = (await openView(w.store, w.key, 'faces')).view.manifest.evaluation;
    assert.deepEqual([epoch, Object.keys(devices!)], [1, ['2']]);
    const named = [...lists, devices![2]].map(fromHex);
    assert.equal((await Array.fromAsync(w.store.getLists('faces', named))).length, named.length);
    await w.faces.upsert(person(1), { optimize: 'always' });
    await door.ask(near(1));
    assert.equal((await w.answers()).asked[0]?.matches[0].id, 'person 1');
  });

  it('have evaluation keys again after they were lost', async () => {
    await using damaged = await lostPieces();
    const { gallery, key, lost } = damaged;
    await repairGallery({ folder: gallery, key, versions: new InMemoryVersions() });
    const store = await openStore(gallery);
    const database = new Database(store, { key, versions: new InMemoryVersions() });
    const faces = await database.collection('faces');
    const devicesOf = async () => (await openView(store, key, 'faces')).view.manifest.evaluation[0].devices ?? {};
    assert.deepEqual(Object.keys(await devicesOf()), []);
    await store.post('faces', damaged.question());
    const reasons: string[] = [];
    const ask = () =>
      Array.fromAsync(faces.questions({ wait: false, limit: 1, onRefused: ({ reason }) => reasons.push(reason) }));
    assert.deepEqual([await ask(), reasons], [[], ['key']]);
    await faces.optimize();
    const made = Object.values(await devicesOf());
    assert.ok(made.length === 1 && made[0] !== lost);
    await store.post('faces', damaged.question());
    assert.equal((await ask())[0]?.matches[0].id, 'person 2');
    await database.close();
  });
});

/** A folder whose store has damaged the list of a device. */
async function lostPieces() {
  const folder = await mkdtemp(join(tmpdir(), 'hers-own-'));
  const gallery = join(folder, 'gallery');
  const key = MasterSeed.generate();
  const store = await openStore(gallery, { quietMs: 60_000 });
  const database = new Database(store, { key, versions: new InMemoryVersions() });
  const faces = await database.createCollection('faces', { dimension: 8, profile: 'open' });
  await faces.upsert(
    Array.from({ length: 4 }, (_, i) => person(i)),
    { optimize: 'always' },
  );
  const bundle = decodeBundle(await faces.addDevice('door', { ownKey: true }));
  const [{ devices }] = (await openView(store, key, 'faces')).view.manifest.evaluation;
  const [lost] = Object.values(devices!);
  const [bytes] = await Array.fromAsync(store.getLists('faces', [fromHex(lost)]));
  const { plan } = faces;
  await database.close();
  // Its bytes are in one file, in the middle of which they are overwritten.
  const needle = Buffer.from(bytes.subarray(1000, 1100));
  let hits = 0;
  for (const { parentPath, name } of readdirSync(gallery, { recursive: true, withFileTypes: true }).filter((each) =>
    each.isFile(),
  )) {
    const path = join(parentPath, name);
    const content = await readFile(path);
    const at = content.indexOf(needle);
    if (at < 0) continue;
    hits++;
    content.fill(0x55, at, at + 100);
    await writeFile(path, content);
  }
  assert.equal(hits, 1);
  const { keyId, generation, collection, epoch } = bundle.keys;
  return {
    gallery,
    key,
    lost,
    question: () => {
      const query = encryptShortQuery(
        plan as never,
        { keyId, generation, number: bundle.own!.secret, seed: bundle.own!.seed },
        near(2),
      );
      const nonce = crypto.getRandomValues(new Uint8Array(16));
      const about = { kind: 'question', device: bundle.number, epoch, time: Date.now(), collection, nonce } as const;
      return signEnvelope(bundle.signingKey, about, query);
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}
