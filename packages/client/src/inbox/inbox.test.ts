// Keeper, server and devices together.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { HersError } from '@hers/service';
import { near, person, world } from '../../testing/devices.ts';
import { openDevice } from './device.ts';
import { InMemoryNonces } from './memory.ts';

const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

describe('devices', () => {
  /** One for most: its evaluation keys take a second. */
  let w: Awaited<ReturnType<typeof world>>;
  const memory = new InMemoryNonces();
  before(async () => {
    w = await world();
  });
  after(() => w[Symbol.asyncDispose]());

  it('ask, and the keeper sees who it is', async () => {
    const [door, gate] = [await w.device('door'), await w.device('gate')];
    const posted = [await door.ask(near(3)), await gate.ask(near(33)), await door.ask(near(12))];
    const { asked, refused } = await w.answers({ memory });
    assert.deepEqual(
      asked.map(({ device, nonce, matches, coverage }) => [device, nonce, matches.map(({ id }) => id), coverage]),
      [
        ['door', posted[0].nonce, ['person 3'], { searched: 40, total: 40 }],
        ['gate', posted[1].nonce, ['person 33'], { searched: 40, total: 40 }],
        ['door', posted[2].nonce, ['person 12'], { searched: 40, total: 40 }],
      ],
    );
    assert.deepEqual(refused, []);
    for (const { time } of asked) assert.ok(Math.abs(time.getTime() - Date.now()) < 60_000);
    // The same scores as the key holder's own search gives, but for noise.
    const own = await w.faces.search(near(3), { limit: 1 });
    assert.ok(Math.abs(own.matches[0].score - asked[0].matches[0].score) < 0.02);
    // Once for every nonce: they are still in the inbox, and are dropped now.
    const again = await w.answers({ memory });
    assert.deepEqual([again.asked, again.reasons], [[], ['repeated', 'repeated', 'repeated']]);
    assert.deepEqual(await Array.fromAsync(w.store.takeInbox('faces')), []);
    assert.deepEqual(
      (await w.faces.devices()).map(({ name, number }) => [name, number]),
      [
        ['door', 1],
        ['gate', 2],
      ],
    );
  });

  it('enrol as far as they may, and cannot replace a record', async () => {
    const kiosk = await w.device('kiosk', { enrol: { most: 2 } });
    const door = await w.device('door-2');
    await kiosk.enrol({ ...person(100), payload: { badge: 7 } });
    await kiosk.enrol(person(3));
    await door.enrol(person(101));
    await kiosk.enrol(person(102));
    await kiosk.enrol(person(103));
    const enrolled: string[] = [];
    const options = {
      memory,
      onEnrolled: ({ id, device }: { id: string; device: string }) => enrolled.push(`${device} ${id}`),
    };
    // Left where they are by a keeper that does not enrol.
    assert.deepEqual((await w.answers({ enrol: false, memory })).reasons, []);
    const { reasons } = await w.answers(options);
    assert.deepEqual(enrolled, ['kiosk person 100', 'kiosk person 102']);
    assert.deepEqual(reasons, ['policy', 'policy', 'policy']);
    const [record] = await w.faces.get('person 100');
    assert.deepEqual([record?.payload, record?.vector], [{ badge: 7 }, person(100).vector]);
    assert.deepEqual(await w.faces.get(['person 101', 'person 103']), []);
    await w.answers(options);
    assert.equal(enrolled.length, 2);
    // A keeper that was ended in the middle enrols it again, though the record is there already.
    const other = await w.device('kiosk-2', { enrol: { most: 1 } });
    const { nonce } = await other.enrol(person(104));
    await memory.write({ nonce, device: other.number, time: Date.now(), state: 'enrolling' });
    await w.faces.upsert(person(104));
    await w.answers(options);
    assert.equal(enrolled.at(-1), 'kiosk-2 person 104');
    // Who was enrolled is found.
    await door.ask(near(102));
    assert.equal((await w.answers({ memory })).asked[0]?.matches[0]?.id, 'person 102');
  });

  it('enrol into the partition that they may', async () => {
    await using w = await world(0, {}, { partitionBy: 'site' });
    const kiosk = await w.device('kiosk', { enrol: { most: 9, partition: 'north' } });
    await assert.rejects(w.add('other', { enrol: { most: 1 } }), fails('INVALID_ARGUMENT'));
    await kiosk.enrol(person(1));
    await kiosk.enrol({ ...person(2), payload: { site: 'north' } });
    await kiosk.enrol({ ...person(3), payload: { site: 'south' } });
    const { reasons } = await w.answers();
    assert.deepEqual(reasons, ['policy']);
    assert.deepEqual(
      (await w.faces.partitions()).map(({ name, records }) => [name, records]),
      [['north', 2]],
    );
  });

  it('are refused by the store when they were revoked, and what waits is not answered', async () => {
    const [door, gate] = [await w.device('door-3'), await w.device('gate-3')];
    await door.ask(near(1));
    await gate.ask(near(1));
    await w.faces.revokeDevice('door-3');
    await assert.rejects(door.ask(near(1)), fails('FORBIDDEN'));
    const { asked, reasons } = await w.answers({ memory });
    assert.deepEqual(
      asked.map(({ device }) => device),
      ['gate-3'],
    );
    assert.deepEqual(
      reasons.filter((reason) => reason !== 'repeated'),
      ['revoked'],
    );
    // The name is free again, the number is not.
    assert.equal((await w.device('door-3')).number, gate.number + 1);
    await assert.rejects(w.add('door-3'), fails('ALREADY_EXISTS'));
    await assert.rejects(w.faces.revokeDevice('nobody'), fails('NOT_FOUND'));
    assert.ok((await w.faces.devices())[door.number - 1]?.revoked);
  });

  it('are told that their key is old, and renewed, when it was rotated while questions wait', async () => {
    await using w = await world(4);
    const old = await w.device('door');
    await old.ask(near(1));
    await w.faces.rotateKey();
    const { asked, reasons } = await w.answers();
    assert.deepEqual([asked, reasons], [[], ['key']]);
    const renewed = await w.device('door', { renew: true });
    assert.equal(renewed.number, old.number);
    await renewed.ask(near(1));
    await old.ask(near(1));
    const now = await w.answers();
    assert.deepEqual(
      [now.asked.map(({ matches }) => matches[0].id), now.reasons],
      [['person 1'], ['signature', 'signature']],
    );
  });

  it('refuse vectors, bundles and options that cannot be', async () => {
    const bundle = await w.add('door-4');
    const door = openDevice(w.server.url, bundle);
    for (const wrong of [[], [1, 2], Array(8).fill(0), Array(8).fill(Number.NaN)])
      await assert.rejects(door.ask(wrong), fails('INVALID_VECTOR'));
    await assert.rejects(door.enrol({ id: '', vector: near(1) }), fails('INVALID_ARGUMENT'));
    await assert.rejects(door.enrol({ id: 'x', vector: near(1), payload: 'x'.repeat(2 ** 20) }), fails('TOO_LARGE'));
    assert.throws(() => openDevice(w.server.url, 'nonsense'), fails('MALFORMED'));
    assert.throws(() => openDevice(w.server.url, '{}'), fails('MALFORMED'));
    const given = JSON.parse(bundle);
    for (const format of [0, 2])
      assert.throws(() => openDevice(w.server.url, JSON.stringify({ ...given, format })), {
        code: 'UNSUPPORTED_VERSION',
        message: /in another format; make it again$/,
      });
    await assert.rejects(w.faces.addDevice('a b'), fails('INVALID_ARGUMENT'));
    const plain = await w.db.createCollection('plain', { dimension: 8 });
    await assert.rejects(plain.addDevice('door'), fails('INVALID_ARGUMENT'));
    await assert.rejects(Array.fromAsync(plain.questions()), fails('INVALID_ARGUMENT'));
    door.close();
    await assert.rejects(door.ask(near(1)), fails('CLOSED'));
  });

  it('take a bundle as the keeper has signed it, all of it, and of their keeper alone', async () => {
    const bundle = await w.add('door-signed', { ownKey: true });
    const given = JSON.parse(bundle);
    const other = { ...given.keys, publicKey: JSON.parse(await w.add('door-other')).keys.publicKey };
    const forged: object[] = [
      { address: 'https://evil.example' },
      { address: undefined },
      { collection: 'others' },
      { number: 1 },
      { name: 'x' },
      { token: 'x' },
      { signingKey: given.keys.keyId },
      { own: undefined },
      { own: { ...given.own, secret: 99 } },
      { own: { ...given.own, seed: given.signingKey } },
      { keys: { ...given.keys, epoch: 1 } },
      { keys: { ...given.keys, request: { ...given.keys.request, normBound: 2 } } },
      { keys: other },
      { keeper: given.signingKey },
      { extra: 1 },
    ];
    for (const change of forged)
      assert.throws(
        () => openDevice(undefined, JSON.stringify({ ...given, ...change })),
        fails('INTEGRITY'),
        JSON.stringify(change).slice(0, 80),
      );
    const door = openDevice(undefined, bundle);
    assert.match(door.keeper, /^[0-9a-f]{64}$/);
    // A bundle of somebody else is in order by itself, and not for a device that knows its keeper.
    await using stranger = await world(0);
    const theirs = await stranger.add('door');
    openDevice(undefined, theirs).close();
    assert.throws(() => openDevice(undefined, theirs, { keeper: door.keeper }), fails('INTEGRITY'));
    openDevice(undefined, await w.add('door-signed', { renew: true }), { keeper: door.keeper }).close();
    door.close();
  });

  it('are answered as they ask, until the signal ends it', async () => {
    const door = await w.device('door-5');
    const ending = new AbortController();
    const asked: string[] = [];
    const reading = (async () => {
      for await (const { matches } of w.faces.questions({ memory, pollMs: 20, limit: 1, signal: ending.signal })) {
        asked.push(matches[0].id);
        if (asked.length === 2) ending.abort(new Error('enough'));
      }
    })();
    await door.ask(near(1));
    await door.ask(near(2));
    await assert.rejects(reading, /enough/);
    assert.deepEqual(asked, ['person 1', 'person 2']);
  });
});
