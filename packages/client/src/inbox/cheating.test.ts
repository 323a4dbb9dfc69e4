// Those who cheat: a store that replays, swaps, mixes and crafts, one that poses as a device, a
// stolen device, a device that floods, evaluation keys exchanged, a counter that goes back. What
// the store sees is compared for probes that match and probes that do not. docs/devices.md has the
// table.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { blockMatrix, decodeBlock, peekAnyResponse } from '@hers/scheme';
import {
  decodeEvaluation,
  decodeOpenQuery,
  type EvaluationPiece,
  Evaluator,
  encodeOpenQuery,
  encodePackedResponse,
  evaluationKeys,
} from '@hers/scheme/open';
import { MasterSeed } from '@hers/scheme/secret';
import { makeEvaluationKeys, readOpenQuery } from '@hers/scheme/secret/open';
import { scanOpenBlock } from '@hers/scheme/testing/slow-open';
import { decodeEnvelope, HersError, type InboxItem, joinEnvelope, type Service, withMethods } from '@hers/service';
import { type Call, vectorOf, watched } from '../../testing/client.ts';
import { DIMENSION, near, world } from '../../testing/devices.ts';
import { openView } from '../../testing/view.ts';
import { fromHex, joined } from '../bytes.ts';
import { Database } from '../database.ts';
import { decodeBundle } from './bundle.ts';
import { openDevice } from './device.ts';
import { signEnvelope } from './envelopes.ts';
import { InMemoryNonces } from './memory.ts';

const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

describe('against those who cheat', () => {
  let w: Awaited<ReturnType<typeof world>>;
  let memory = new InMemoryNonces();
  before(async () => {
    w = await world();
  });
  after(() => w[Symbol.asyncDispose]());

  /** What the store holds, and a store that shows something else. */
  const held = () => Array.fromAsync(w.store.takeInbox('faces'));
  const clear = async () => {
    for (const name of Object.keys(w.methods)) delete w.methods[name as keyof Service];
    await w.store.dropInbox(
      'faces',
      (await held()).map(({ number }) => number),
    );
    memory = new InMemoryNonces();
  };
  const show = (items: readonly InboxItem[]) => {
    w.methods.takeInbox = async function* (_name, { after: last = 0, limit = 100 } = {}) {
      yield* items.filter(({ number }) => number > last).slice(0, limit);
    };
  };

  it('a store that replays gets each nonce answered once, also as another number or another day', async (t) => {
    await clear();
    const door = await w.device('replayed');
    await door.ask(near(3));
    const [item] = await held();
    assert.equal((await w.answers({ memory })).asked.length, 1);
    show([item!, { ...item!, number: 900 }, { ...item!, number: 901, posted: Date.now() + 1 }]);
    const { asked, reasons } = await w.answers({ memory });
    assert.deepEqual([asked, reasons], [[], ['repeated', 'repeated', 'repeated']]);
    // Nine days later the keeper has forgotten the nonce, and refuses the item for its age.
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 9 * 86_400_000 });
    await memory.forget(Date.now() - 8 * 86_400_000);
    assert.equal(await memory.read(Buffer.from(decodeEnvelope(item!.envelope).nonce).toString('hex')), undefined);
    assert.deepEqual((await w.answers({ memory })).reasons, ['age', 'age', 'age']);
    t.mock.timers.reset();
  });

  it('a store cannot alter, mix or craft what a device says, nor pose as one', async () => {
    await clear();
    const bundle = await w.add('honest');
    const [honest, other] = [openDevice(undefined, bundle), await w.device('other')];
    await honest.ask(near(1));
    await other.ask(near(2));
    await honest.enrol({ id: 'x', vector: near(1) });
    const [one, two, three] = (await held()).map(({ envelope }) => decodeEnvelope(envelope));
    const crafted: Uint8Array[] = [
      // The query of another device in the envelope of this one, with a head that says so.
      signEnvelope(new Uint8Array(32).fill(1), one!, two!.body),
      // The head of one with the body of another, of which the hash is not right.
      joinEnvelope(one!.head, two!.body, one!.signature),
      // A device of a number that there is not, and of the number of another.
      signEnvelope(new Uint8Array(32).fill(1), { ...one!, device: 77 }, one!.body),
      joinEnvelope(Uint8Array.from(one!.head).with(12, two!.device), one!.body, one!.signature),
      // An enrolment of its own, sealed to the keeper; and one that is called a question.
      signEnvelope(new Uint8Array(32).fill(2), { ...three!, nonce: new Uint8Array(16) }, three!.body),
      joinEnvelope(Uint8Array.from(three!.head).with(10, 1), three!.body, three!.signature),
      // Bytes.
      new Uint8Array(0),
      crypto.getRandomValues(new Uint8Array(500)),
    ];
    show(crafted.map((envelope, i) => ({ number: i + 1, posted: Date.now(), envelope })));
    const { asked, reasons } = await w.answers({ memory });
    assert.deepEqual(asked, []);
    assert.deepEqual(reasons, [
      'signature',
      'malformed',
      'unknown',
      'signature',
      'signature',
      'signature',
      'malformed',
      'malformed',
    ]);
    // What was left of the honest ones is answered all the same.
    delete w.methods.takeInbox;
    assert.deepEqual(
      (await w.answers({ memory })).asked.map(({ matches }) => matches[0].id),
      ['person 1', 'person 2'],
    );
  });

  it('a store that answers one question with the scan of another is caught, and nothing is searched again', async () => {
    await clear();
    const door = await w.device('swapped');
    await door.ask(near(1));
    await door.ask(near(2));
    const [first, second] = await held();
    const [asked, other] = [first!, second!].map(({ envelope }) => decodeEnvelope(envelope).body);
    const isAsked = (query: Uint8Array) => Buffer.compare(query, asked!) === 0;
    const swap =
      (by: Uint8Array): Service['search'] =>
      (name, request, options) =>
        w.store.search(
          name,
          { ...request, queries: request.queries.map((query) => (isAsked(query) ? by : query)) },
          options,
        );
    show([first!]);
    // It does not even pass for an answer to this question: a response names its query.
    w.methods.search = swap(other!);
    await assert.rejects(w.answers({ memory }), fails('INTEGRITY'));
    // With the id of the query put right, canaries show it.
    const { queryId } = decodeOpenQuery(asked!);
    w.methods.search = swap(encodeOpenQuery({ ...decodeOpenQuery(other!), queryId }));
    await assert.rejects(w.answers({ memory }), fails('INTEGRITY'));
    delete w.methods.search;
    // A person has to look: the same secrets answer every question.
    await assert.rejects(w.answers({ memory }), fails('INTEGRITY'));
    await w.faces.resume();
    assert.deepEqual(
      (await w.answers({ memory })).asked.map(({ matches }) => matches[0].id),
      ['person 1'],
    );
  });

  it('a stolen device cannot ask what no honest one does; the store sees no difference, and nobody else is stopped', async () => {
    await clear();
    const stolen = decodeBundle(await w.add('stolen'));
    const device = openDevice(undefined, await w.add('other-door'));
    await device.ask(near(4));
    const [honest] = await held();
    const query = decodeOpenQuery(decodeEnvelope(honest!.envelope).body);
    // A query a thousand times as long, and one with a coordinate that is off by little.
    const changes = [(x: number) => 1000 * x, (x: number, i: number) => (i === 3 ? x + 2 ** 22 : x)];
    for (const change of changes) {
      const primes = [1073692673, 33538049];
      const body = query.body.map((words, l) => words.map((x, i) => change(x, i) % primes[l]!));
      const about = { kind: 'question', device: stolen.number, epoch: 0, time: Date.now() } as const;
      const nonce = crypto.getRandomValues(new Uint8Array(16));
      const { collection } = decodeEnvelope(honest!.envelope);
      const crafted = encodeOpenQuery({ ...query, queryId: nonce, body });
      await w.store.post('faces', signEnvelope(stolen.signingKey, { ...about, collection, nonce }, crafted));
    }
    let scanned = 0;
    w.methods.search = (name, request, options) => {
      scanned += request.queries.length;
      return w.store.search(name, request, options);
    };
    const { asked, reasons } = await w.answers({ memory });
    // All of them were scanned, so the store does not learn which was refused.
    assert.equal(scanned, 3);
    assert.deepEqual([asked.map(({ matches }) => matches[0].id), reasons], [['person 4'], ['dishonest', 'dishonest']]);
    // It holds nothing that opens a query of another device.
    const text = JSON.stringify(stolen, (_, value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
    );
    const seed = Buffer.from(w.key.reveal()).toString('hex');
    assert.ok(!text.includes(seed));
    await w.faces.revokeDevice('stolen');
    const late = signEnvelope(
      stolen.signingKey,
      {
        kind: 'question',
        device: stolen.number,
        epoch: 0,
        time: Date.now(),
        collection: decodeEnvelope(honest!.envelope).collection,
        nonce: new Uint8Array(16),
      },
      encodeOpenQuery(query),
    );
    await assert.rejects(w.store.post('faces', late), fails('FORBIDDEN'));
    // A store that lets it post all the same gains nothing.
    show([{ number: 5000, posted: Date.now(), envelope: late }]);
    assert.deepEqual((await w.answers({ memory })).reasons, ['revoked']);
  });

  it('a device that floods fills its own share alone: items, bytes and age of a real server', async (t) => {
    const limits = { items: 5, bytes: 100_000, age: 600 };
    await using flooded = await world(8, {}, { inbox: limits });
    const bundle = await flooded.add('flood', { enrol: { most: 100 } });
    const [flood, quiet] = [openDevice(undefined, bundle), await flooded.device('quiet', { ownKey: true })];
    const count = async () => (await Array.fromAsync(flooded.store.takeInbox('faces'))).length;
    // By bytes: questions with the public key are 28 KB each, and three are within 100 KB.
    const outcomes = await Promise.allSettled(Array.from({ length: 40 }, () => flood.ask(near(1))));
    const refused = outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    assert.equal(refused.length, 37);
    assert.ok(refused.every((error) => fails('INBOX_FULL')(error) && /may have no more/.test(error.message)));
    assert.equal(await count(), 3);
    // By items: enrolments are small.
    await flood.enrol({ id: 'a', vector: near(500) });
    await flood.enrol({ id: 'b', vector: near(500) });
    await assert.rejects(flood.enrol({ id: 'c', vector: near(500) }), fails('INBOX_FULL'));
    assert.equal(await count(), 5);
    // Nor with the number of another device: its token is for its own.
    const { token, number, keys, signingKey } = decodeBundle(bundle);
    const about = { kind: 'question', device: quiet.number, epoch: 0, time: Date.now() } as const;
    const nonce = crypto.getRandomValues(new Uint8Array(16));
    const posed = signEnvelope(signingKey, { ...about, collection: keys.collection, nonce }, new Uint8Array(100));
    assert.notEqual(number, quiet.number);
    const answer = await fetch(`${flooded.server.url}/v1/collections/faces/inbox`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/octet-stream' },
      body: posed as Uint8Array<ArrayBuffer>,
    });
    assert.equal(answer.status, 403);
    // Others are not in its way.
    for (const i of [2, 3]) await quiet.ask(near(i));
    assert.deepEqual(
      (await flooded.answers()).asked.map(({ device, matches }) => [device, matches[0].id]),
      [
        ['flood', 'person 1'],
        ['flood', 'person 1'],
        ['flood', 'person 1'],
        ['quiet', 'person 2'],
        ['quiet', 'person 3'],
      ],
    );
    // By age: what nobody takes is gone after a while, and there is room again.
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 1000 * (limits.age + 1) });
    assert.equal(await count(), 0);
    await flood.ask(near(1));
    assert.equal(await count(), 1);
    t.mock.timers.reset();
  });

  it('a counter that goes back hides nothing and answers nothing twice', async () => {
    await clear();
    const door = await w.device('counted');
    const numbered = (items: readonly InboxItem[], from: number) =>
      items.map((item, i) => ({ ...item, number: from + i }));
    for (const i of [1, 2, 3]) await door.ask(near(i));
    const items = await held();
    let shown = numbered(items.slice(0, 2), 500);
    w.methods.takeInbox = async function* (_name, { after: last = 0, limit = 100 } = {}) {
      yield* shown.filter(({ number }) => number > last).slice(0, limit);
    };
    const ending = new AbortController();
    const found: string[] = [];
    const reading = (async () => {
      for await (const { matches } of w.faces.questions({ memory, pollMs: 10, limit: 1, signal: ending.signal })) {
        found.push(matches[0].id);
        // An older copy of the store: the third has a number below those that were seen.
        if (found.length === 2) shown = numbered([items[0]!, items[2]!], 1);
        if (found.length === 3) ending.abort(new Error('enough'));
      }
    })();
    await assert.rejects(reading, /enough/);
    assert.deepEqual(found, ['person 1', 'person 2', 'person 3']);
  });

  it('evaluation keys of another device give no answer, and are noticed', async () => {
    await clear();
    const [door, other] = [
      await w.device('exchanged-2', { ownKey: true }),
      await w.device('other-2', { ownKey: true }),
    ];
    await other.ask(near(1));
    await door.ask(near(1));
    const items = await held();
    const [theirs, right] = items.map(({ envelope }) => decodeOpenQuery(decodeEnvelope(envelope).body));
    const [{ lists, devices }] = (await openView(w.store, w.key, 'faces')).view.manifest.evaluation;
    const read = (ids: readonly string[]) =>
      Array.fromAsync(w.store.getLists('faces', ids.map(fromHex)), (bytes) => decodeEvaluation(bytes));
    const evaluator = new Evaluator(evaluationKeys(await read(lists)));
    const [own] = await read([devices![right!.device]!]);
    const [swapped] = await read([devices![theirs!.device]!]);
    const answeredWith = (piece: EvaluationPiece): Service['search'] =>
      async function* (name, request, options) {
        for await (const response of w.store.search(name, request, options)) {
          const { blocks } = peekAnyResponse(response);
          const results = await Promise.all(
            blocks.map(async ({ blockId }) => {
              const { block, maskRows } = blockMatrix(decodeBlock(await joined(w.store.getBlock(name, blockId))));
              return scanOpenBlock(block, maskRows, right!, evaluator.expand(right!, 1, piece));
            }),
          );
          yield encodePackedResponse(evaluator.pack(right!, results));
        }
      };
    show([items[1]!]);
    // It says that it is of this device.
    w.methods.search = answeredWith({ ...swapped!, first: right!.device });
    await assert.rejects(w.answers({ memory }), fails('INTEGRITY'));
    await w.faces.resume();
    // With the right one the same computation is an answer.
    w.methods.search = answeredWith(own!);
    assert.deepEqual(
      (await w.answers({ memory })).asked.map(({ matches }) => matches[0].id),
      ['person 1'],
    );
  });

  it('evaluation keys of another key give no answer, and are noticed', async () => {
    await clear();
    const door = await w.device('exchanged');
    await door.ask(near(1));
    const right = decodeOpenQuery(decodeEnvelope((await held())[0]!.envelope).body);
    using seed = MasterSeed.generate();
    const pieces = makeEvaluationKeys(seed.collectionKey(w.faces.plan, new Uint8Array(16)));
    // They say that they are of this key.
    const keys = evaluationKeys(pieces.map((piece) => ({ ...decodeEvaluation(piece), keyId: right.keyId })));
    const evaluator = new Evaluator(keys);
    w.methods.search = async function* (name, request, options) {
      for await (const response of w.store.search(name, request, options)) {
        const { blocks } = peekAnyResponse(response);
        const results = await Promise.all(
          blocks.map(async ({ blockId }) => {
            const { block, maskRows } = blockMatrix(decodeBlock(await joined(w.store.getBlock(name, blockId))));
            return scanOpenBlock(block, maskRows, right, evaluator.expand(right));
          }),
        );
        yield encodePackedResponse(evaluator.pack(right, results));
      }
    };
    await assert.rejects(w.answers({ memory }), fails('INTEGRITY'));
    delete w.methods.search;
    await w.faces.resume();
    assert.equal((await w.answers({ memory })).asked.length, 1);
  });

  for (const ownKey of [false, true])
    it(`nothing that the store sees depends on an answer, of devices with ${ownKey ? 'keys of their own' : 'the public key'}`, async () => {
      await clear();
      const door = await w.device(`compared-${ownKey}`, { ownKey });
      /** What a store sees of a keeper that answers these, ciphertexts left out. */
      const trafficOf = async (probes: readonly ArrayLike<number>[]) => {
        const calls: Call[] = [];
        for (const probe of probes) await door.ask(probe);
        const posted = await held();
        const [{ number: base = 0 } = {}] = posted;
        const db = new Database(withMethods(watched(w.store, calls), { close: async () => {} }), {
          key: w.key,
          versions: w.versions,
          gallery: new URL(w.server.url).origin,
        });
        const faces = await db.collection('faces');
        const asked = await Array.fromAsync(faces.questions({ wait: false, threshold: 0.985 }));
        const seen = calls.map(({ method, args, out }) => [
          method,
          JSON.stringify(args, (name, value) => {
            if (value instanceof Uint8Array) return value.length;
            if (name === 'inbox') return (value as number[]).map((number) => number - base);
            return value;
          }).replace(/"after":\d+/g, '"after":0'),
          out.map(({ length }) => length).sort((a, b) => a - b),
        ]);
        await w.store.dropInbox(
          'faces',
          (await held()).map(({ number }) => number),
        );
        return {
          seen: [...seen, posted.map(({ envelope }) => envelope.length)],
          found: asked.map(({ matches }) => matches.length),
        };
      };
      const match = await trafficOf([near(1), near(30), near(2)]);
      const none = await trafficOf(
        [near(777), near(888), near(999)].map((_, i) => vectorOf(5000 + i, DIMENSION).map((x) => -x)),
      );
      assert.deepEqual(
        [match.found, none.found],
        [
          [1, 1, 1],
          [0, 0, 0],
        ],
      );
      assert.deepEqual(match.seen, none.seen);
      assert.ok(match.seen.some(([method]) => method === 'search'));
      assert.equal(
        match.seen.some(([, args]) => String(args).includes('"devices":[32]')),
        ownKey,
      );
    });

  it('the store knows devices by their numbers alone, and cannot read what they say', async () => {
    await clear();
    const door = await w.device('unmistakable-name', { enrol: { most: 1 } });
    await door.enrol({ id: 'a-secret-person', vector: near(1), payload: { note: 'a-secret-payload' } });
    await door.ask(near(6));
    const [enrolment, question] = await held();
    const all = Buffer.concat([
      ...(await held()).map(({ envelope }) => Buffer.from(envelope)),
      Buffer.from((await w.store.getManifest('faces')).manifest),
    ]).toString('latin1');
    for (const secret of ['unmistakable-name', 'a-secret-person', 'a-secret-payload']) assert.ok(!all.includes(secret));
    // Only the keeper reads the query.
    const { body } = decodeEnvelope(question!.envelope);
    using seed = MasterSeed.generate();
    const stranger = seed.collectionKey(w.faces.plan, decodeEnvelope(question!.envelope).collection);
    const { keyId } = stranger;
    const passed = encodeOpenQuery({ ...decodeOpenQuery(body), keyId });
    const read = readOpenQuery(stranger, passed);
    assert.equal(read.isHonest, false);
    assert.equal(decodeEnvelope(enrolment!.envelope).kind, 'enrolment');
  });
});
