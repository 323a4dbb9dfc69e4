// What is wiped is overwritten, as far as a program can see its own memory: the arrays that held
// keys, the copies made on the way, and what goes to other threads. What Node, OpenSSL and a
// garbage collector copy by themselves cannot be seen from here (SECURITY.md).

import assert from 'node:assert/strict';
import nodeCrypto, { scryptSync } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { describe, it, type TestContext } from 'node:test';
import nodeThreads, { type WorkerOptions } from 'node:worker_threads';
import { Ring } from '@hers/ring';
import { blockMatrix, decodeBlock, decodeQuery, encodeResponse, expandedQuery, scanBlock } from '@hers/scheme';
import {
  CollectionKey,
  type ExposedSecret,
  encryptBlock,
  encryptQuery,
  MasterSeed,
  QuerySecret,
} from '@hers/scheme/secret';
import { decryptBlock } from '@hers/scheme/testing/decrypt-block';
import { HersError } from '@hers/service';
import { fromHex, hex } from '../bytes.ts';
import { startWorkers } from '../crew/crew.node.ts';
import { encrypted, InProcessCrypto, keyFrom, rankResponses, workFor } from '../crew/crew.ts';
import { memoryOf, type Task, Workers } from '../crew/workers.ts';
import { Packing } from '../formats/batch.ts';
import { RecordKeys } from '../formats/records.ts';
import { NodeSealer, nodeKeyedHash } from '../sealing/sealing.node.ts';
import { makeKeyedHash, makeSealer, seal, WebSealer, webKeyedHash } from '../sealing/sealing.ts';
import { openKey, sealKey, unsealedKey } from './keyfile.ts';

const bytes = (length: number, salt = 0) => Uint8Array.from({ length }, (_, i) => 1 + ((i * 7 + salt) % 255));
const isZero = (array: ArrayLike<number>) => Array.from(array).every((value) => value === 0);
const isDetached = ({ buffer }: ArrayBufferView) => (buffer as ArrayBuffer).detached;
const allZero = (arrays: readonly ArrayLike<number>[]) => arrays.length > 0 && arrays.every(isZero);
const wiped = (error: unknown) => error instanceof HersError && error.code === 'WIPED';

const DIMENSION = 4;
const collectionId = bytes(16);
const material = () => ({ seed: bytes(32), request: { dimension: DIMENSION }, collectionId, epoch: 3 });
const vectors = (count: number) => Float32Array.from({ length: count * DIMENSION }, (_, i) => (i % DIMENSION ? 0 : 1));

function batch() {
  const packing = new Packing(1, DIMENSION);
  packing.add('a', vectors(1), '');
  return packing.take();
}

/** What calls of a function give, in the arrays it gave them in. */
function results<T extends object>(t: TestContext, owner: T, name: keyof T): Uint8Array[] {
  const seen: Uint8Array[] = [];
  const original = owner[name] as (...given: unknown[]) => Uint8Array;
  t.mock.method(
    owner,
    name as never,
    function (this: unknown, ...given: unknown[]) {
      const result = original.apply(this, given);
      seen.push(result);
      return result;
    } as never,
  );
  return seen;
}

/** The arrays that calls of a function are given. */
function given<T extends object>(t: TestContext, owner: T, name: keyof T, at: number): Uint8Array[] {
  const seen: Uint8Array[] = [];
  const original = owner[name] as (...given: unknown[]) => unknown;
  t.mock.method(
    owner,
    name as never,
    function (this: unknown, ...all: unknown[]) {
      seen.push(all[at] as Uint8Array);
      return original.apply(this, all);
    } as never,
  );
  return seen;
}

/** What arrays held, in hexadecimal, when they were overwritten from end to end. */
function overwritten(t: TestContext): string[] {
  const seen: string[] = [];
  const arrays = Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array;
  const fill = arrays.fill;
  t.mock.method(arrays, 'fill', function (this: Uint8Array, value: number, ...range: number[]) {
    if (value === 0 && range.length === 0 && this instanceof Uint8Array && this.length < 4096) seen.push(hex(this));
    return fill.call(this, value, ...range);
  });
  return seen;
}

const times = (texts: readonly string[], wanted: Uint8Array) => texts.filter((text) => text === hex(wanted)).length;

describe('keys that seal and name', () => {
  it('are taken over: the caller’s bytes are zero before the promise is kept, and refused when they come again', async (t) => {
    const secretKeys = given(t, nodeCrypto, 'createSecretKey', 0);
    syncBuiltinESMExports();
    try {
      const [forSeals, forNames] = [bytes(32), bytes(32)];
      const making = [makeSealer(forSeals), makeKeyedHash(forNames)] as const;
      assert.ok(allZero([forSeals, forNames]));
      const [sealer, hashed] = await Promise.all(making);
      assert.equal(secretKeys.length, 1);
      assert.ok(allZero(secretKeys));

      const sealed = await seal(sealer, bytes(50), collectionId);
      assert.deepEqual(hex(new NodeSealer(bytes(32)).open(sealed, collectionId)), hex(bytes(50)));
      for (const length of [10, 2 ** 17])
        assert.deepEqual(hex(hashed(bytes(length))), hex(nodeKeyedHash(bytes(32))(bytes(length))));

      await assert.rejects(makeSealer(forSeals), wiped);
      await assert.rejects(makeKeyedHash(forNames), wiped);
    } finally {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    }
  });

  it('a keyed hash overwrites its pads, and what it made for a long message as soon as that is hashed', (t) => {
    const blocks = results(t, Buffer, 'alloc');
    const hashed = nodeKeyedHash(bytes(32));
    assert.equal(blocks.length, 2);
    hashed(bytes(2 ** 17));
    assert.equal(blocks.length, 3);
    assert.ok(isZero(blocks[2]));
    assert.ok(!isZero(blocks[0]) && !isZero(blocks[1]));
    hashed.wipe();
    assert.ok(allZero(blocks));
  });

  it('throw WIPED afterwards, and can be wiped twice', () => {
    for (const hashed of [nodeKeyedHash(bytes(32)), webKeyedHash(bytes(32))]) {
      assert.equal(hashed(bytes(3)).length, 32);
      hashed.wipe();
      hashed.wipe();
      assert.throws(() => hashed(bytes(3)), wiped);
    }
  });

  it('a sealer overwrites what it made from its key, and throws WIPED afterwards', async (t) => {
    const pieces = results(t, Buffer, 'alloc');
    const imported = given(t, crypto.subtle, 'importKey', 1);
    const key = bytes(32);
    for (const sealer of [new NodeSealer(key), new WebSealer(key)]) {
      const sealed = await seal(sealer, bytes(50), collectionId);
      sealer.wipe();
      sealer.wipe();
      await assert.rejects(async () => sealer.open(sealed, collectionId), wiped);
      await assert.rejects(seal(sealer, bytes(50), collectionId), wiped);
    }
    assert.ok(allZero(pieces));
    assert.ok(allZero(imported));
    assert.deepEqual(key, bytes(32)); // theirs to wipe who made it
  });
});

describe('the master seed', () => {
  it('is cloned without a loose copy, and each is wiped by itself', () => {
    const seed = MasterSeed.from(bytes(32));
    const clone = seed.clone();
    seed.wipe();
    assert.deepEqual(clone.reveal(), bytes(32));
    clone.wipe();
    assert.throws(() => clone.reveal(), wiped);
    assert.throws(() => seed.clone(), wiped);
  });

  it('leaves nothing behind in writing and opening a key file, nor do the passphrase and the key it gives', async (t) => {
    const seed = MasterSeed.from(bytes(32));
    const revealed = results(t, MasterSeed.prototype, 'reveal');
    const taken = given(t, MasterSeed as unknown as { from: unknown }, 'from', 0);
    const encoded = results(t, TextEncoder.prototype, 'encode');
    const gone = overwritten(t);
    const passphrase = 'correct horse';
    const derivedFrom = (text: string) => {
      const { salt, N, r, p } = JSON.parse(text).scrypt;
      return new Uint8Array(scryptSync(passphrase, fromHex(salt), 32, { N, r, p }));
    };

    const text = await sealKey(seed, passphrase, 2 ** 10);
    assert.equal(revealed.length, 1);
    assert.ok(allZero(revealed));
    const key = derivedFrom(text);
    assert.equal(times(gone, key), 3); // in scrypt's own scratch, what it gave, and what was imported
    assert.equal(times(gone, Buffer.from(passphrase)), 1);
    assert.ok(isZero(encoded[0]));

    gone.length = encoded.length = 0;
    await openKey(text, passphrase);
    assert.equal(times(gone, key), 3);
    assert.ok(isZero(encoded[0]));
    await assert.rejects(openKey(text, 'wrong'));
    await openKey(unsealedKey(seed));
    assert.equal(revealed.length, 2);
    assert.equal(taken.length, 2);
    assert.ok(allZero([...revealed, ...taken]));
  });
});

describe('a worker', () => {
  it('overwrites its seed once its keys are made, and its keys when it is told to', async () => {
    const own = material();
    const work = workFor(own);
    assert.ok(isZero(own.seed));
    const sealed = await work({ kind: 'seal', batch: batch() });
    const encrypted = await work({ kind: 'encrypt', vectors: vectors(2) });
    assert.ok('value' in sealed.answer && 'value' in encrypted.answer);
    using key = keyFrom(material());
    assert.equal(
      decryptBlock(key, (encrypted.answer.value as { block: Uint8Array }).block).vectors.length,
      (2 + key.plan.canaries) * DIMENSION,
    );

    assert.ok('value' in (await work({ kind: 'wipe' })).answer);
    for (const task of [
      { kind: 'seal', batch: batch() },
      { kind: 'encrypt', vectors: vectors(2) },
    ] as const) {
      const { answer } = await work(task);
      assert.equal('code' in answer && answer.code, 'WIPED');
    }
  });

  it('overwrites its seed when no keys can be made from it, too', () => {
    const own = { ...material(), request: { dimension: -1 } };
    assert.throws(() => workFor(own), HersError);
    assert.ok(isZero(own.seed));
  });

  it('that is a thread gets a copy of the seed that leaves this one', async (t) => {
    const given: WorkerOptions[] = [];
    class Watched extends nodeThreads.Worker {
      constructor(url: URL, options: WorkerOptions) {
        super(url, options);
        given.push(options);
      }
    }
    t.mock.property(nodeThreads, 'Worker', Watched);
    syncBuiltinESMExports();
    try {
      const own = material();
      const crew = (await startWorkers(own, 2))!;
      await crew.seal(batch());
      await crew.close();
      assert.equal(given.length, 1);
      const { seed } = given[0].workerData as { seed: Uint8Array };
      assert.ok(isDetached(seed));
      assert.deepEqual(own.seed, bytes(32)); // the owner's, who wipes it
    } finally {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    }
  });
});

describe('a crew', () => {
  /**
   * Workers of this thread; what is sent to them moves as it does between threads. Those that do
   * not answer stay busy.
   */
  function crewOf(size: number, answers: (task: Task) => boolean = () => true) {
    const log: string[] = [];
    const received: Task[] = [];
    const source = {
      start(answered: (answer: { value: unknown }) => void) {
        const work = workFor(material());
        return {
          begin(task: Task) {
            const moved = structuredClone(task, { transfer: memoryOf(task) });
            log.push(task.kind);
            received.push(moved);
            if (answers(task)) void work(moved).then(({ answer }) => answered(answer as { value: unknown }));
          },
          rest() {},
          async end() {
            log.push('end');
          },
        };
      },
      close() {},
    };
    return { crew: new Workers(source, size), log, received };
  }

  function exposed(t: TestContext): ExposedSecret[] {
    return results(t, QuerySecret.prototype, 'expose') as unknown as ExposedSecret[];
  }

  const tasks = (count: number) =>
    Array.from({ length: count }, (_, block) => ({
      response: bytes(100),
      block,
      canaries: { id: hex(bytes(16)), slots: 20 },
      dead: [],
    }));
  const options = { limit: 3, order: 'descending', query: vectors(1) } as const;

  it('sends secrets of queries away rather than copies of them, and workers overwrite them', async (t) => {
    using key = keyFrom(material());
    const { secret } = encryptQuery(key, vectors(1));
    using _ = secret;
    const copies = exposed(t);
    const { crew, received } = crewOf(2);
    await assert.rejects(crew.decrypt(secret, tasks(80), options), HersError); // no responses at all, these
    await new Promise(setImmediate);
    assert.equal(copies.length, 3);
    for (const copy of copies) assert.ok(isDetached(copy.secret));
    assert.equal(received.length, 3);
    const given = received.flatMap((task) =>
      task.kind === 'decrypt' && 'secret' in task.secret ? [task.secret.secret] : [],
    );
    assert.ok(given.length === 3 && given.every(({ length }) => length > 0));
    assert.ok(allZero(given));
    assert.ok(!isZero(secret.expose().secret)); // ours is as it was
    await crew.close();
  });

  it('that is closed overwrites secrets it has not sent', async (t) => {
    using key = keyFrom(material());
    const { secret } = encryptQuery(key, vectors(1));
    using _ = secret;
    const copies = exposed(t);
    const { crew } = crewOf(1, () => false);
    const ranking = crew.decrypt(secret, tasks(80), options);
    await Promise.all([assert.rejects(ranking, HersError), crew.close()]);
    await assert.rejects(crew.decrypt(secret, tasks(1), options), HersError);
    const [sent, ...kept] = copies.map((copy) => copy.secret);
    assert.ok(isDetached(sent));
    assert.equal(kept.length, 3);
    assert.ok(kept.every((each) => each.length > 0) && allZero(kept));
  });

  it('has workers overwrite their keys before it ends them, those at work excepted', async () => {
    const idle = crewOf(2);
    await Promise.all([idle.crew.seal(batch()), idle.crew.seal(batch())]);
    await idle.crew.close();
    assert.deepEqual(idle.log, ['seal', 'seal', 'wipe', 'wipe', 'end', 'end']);

    const busy = crewOf(1, () => false);
    const sealing = busy.crew.seal(batch());
    await Promise.all([assert.rejects(sealing, HersError), busy.crew.close()]);
    assert.deepEqual(busy.log, ['seal', 'end']);
  });

  it('does not wait for ever for a worker that does not', async (t) => {
    const { crew, log } = crewOf(1, ({ kind }) => kind !== 'wipe');
    await crew.seal(batch());
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const closing = crew.close();
    t.mock.timers.tick(1000);
    await closing;
    assert.deepEqual(log, ['seal', 'wipe', 'end']);
  });

  it('of threads is closed as soon as they have, whether they rest or work', async () => {
    const crew = (await startWorkers(material(), 2))!;
    await Promise.all([crew.seal(batch()), crew.seal(batch())]);
    const working = crew.encrypt(vectors(64)).then(
      () => 'done',
      (error) => error.code,
    );
    const began = performance.now();
    await crew.close();
    assert.ok(performance.now() - began < 900);
    assert.ok(['done', 'CLOSED'].includes(await working));
    await assert.rejects(crew.seal(batch()), HersError);
  });

  it('of one wipes its keys, and leaves the material to its owner', async () => {
    const own = material();
    const alone = new InProcessCrypto(own);
    await alone.seal(batch());
    await alone.close();
    await assert.rejects(alone.seal(batch()), wiped);
    await assert.rejects(alone.encrypt(vectors(1)), wiped);
    assert.deepEqual(own.seed, bytes(32));
    using seed = MasterSeed.from(own.seed);
    assert.equal((await RecordKeys.of(seed, collectionId)).handleOf('a').length, 16);
  });
});

describe('decryption', () => {
  for (const profile of ['compact', 'exact'] as const) {
    it(`${profile}: of a block overwrites what it passed through, also where it throws`, (t) => {
      using key = keyFrom({ ...material(), request: { dimension: DIMENSION, profile } });
      const block = encryptBlock(key, vectors(5), { first: 2 });
      const centred = results(t, Ring.prototype, key.plan.parameters.wideBits > 0 ? 'centredWide' : 'centred');
      assert.ok(!isZero(decryptBlock(key, block).vectors));
      assert.equal(centred.length, DIMENSION);
      if (profile === 'exact') {
        using forged = new CollectionKey(key.plan, collectionId, key.epoch, key.keyId, key.queryMasks, {
          gallery: bytes(32, 9),
          weights: bytes(32, 7),
          canaries: bytes(32, 6),
          queries: bytes(32, 5),
        });
        assert.throws(() => decryptBlock(forged, block), HersError);
        assert.equal(centred.length, DIMENSION + 1);
      }
      assert.ok(allZero(centred));
    });
  }

  for (const profile of ['compact', 'exact'] as const) {
    it(`${profile}: of a response gives the slots of its block, and other slots are zero in the same memory`, (t) => {
      const slots = 60;
      using key = keyFrom({ ...material(), request: { dimension: DIMENSION, profile } });
      const block = blockMatrix(decodeBlock(encryptBlock(key, vectors(slots), { first: 2 })));
      const { query, secret } = encryptQuery(key, vectors(1));
      using _ = secret;
      const response = encodeResponse(scanBlock(block, expandedQuery(decodeQuery(query))));
      const { scores, integers } = secret.decrypt(response);
      assert.equal(scores.length, slots);
      assert.ok(scores.every((score) => Math.abs(score - 1) < 0.05));
      const whole = integers ? new Int32Array(integers.buffer) : new Float32Array(scores.buffer);
      assert.equal(whole.length, key.plan.parameters.n);
      assert.ok(isZero(whole.subarray(0, 2)) && isZero(whole.subarray(2 + slots)));

      const read = results(t, Ring.prototype, profile === 'compact' ? 'scores' : 'integers');
      // With a wrong secret one of n phases is beyond all scores nine times in ten (`compact`).
      const isRefused = () => {
        const { secret: other } = encryptQuery(key, vectors(1));
        using _other = other;
        const wrong = QuerySecret.from(key.plan, { ...secret.expose(), secret: other.expose().secret });
        try {
          wrong.decrypt(response);
          return false;
        } catch (error) {
          assert.ok(error instanceof HersError);
          return true;
        }
      };
      assert.ok(Array.from({ length: 40 }).some(isRefused));
      assert.ok(isZero((read as unknown as { values: Uint8Array }[]).at(-1)!.values));

      const ranked: Uint8Array[] = [];
      const decrypt = secret.decrypt.bind(secret);
      t.mock.method(secret, 'decrypt', (bytes: Uint8Array) => {
        const opened = decrypt(bytes);
        ranked.push(...([opened.scores, opened.integers ?? [0]] as unknown as Uint8Array[]));
        return opened;
      });
      const encoded = decodeBlock(encrypted(key, vectors(5)).block);
      const answer = encodeResponse(scanBlock(blockMatrix(encoded), expandedQuery(decodeQuery(query))));
      const rank = (id: Uint8Array) => {
        const task = { response: answer, block: 0, canaries: { id: hex(id), slots: encoded.count }, dead: [] };
        return rankResponses(key, secret, [task], { limit: 2, order: 'descending', query: vectors(1) });
      };
      assert.equal(rank(encoded.blockId).length, 2);
      assert.ok(ranked.length === 2 && allZero(ranked));
      // Also where the canaries are not those of the block.
      if (key.plan.canaries > 0) assert.throws(() => rank(bytes(16)), { code: 'INTEGRITY' });
      assert.ok(allZero(ranked));
    });
  }
});
