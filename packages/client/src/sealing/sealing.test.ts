// Every way of naming and sealing records gives what every other opens: Node's and the browser's
// ciphers, this thread and a crew, and known answers.

import assert from 'node:assert/strict';
import nodeCrypto, { createHmac } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { describe, it, type TestContext } from 'node:test';
import { MasterSeed } from '@hers/scheme/secret';
import { frame, HersError } from '@hers/service';
import { concat, fromHex, hex, hexText } from '../bytes.ts';
import { startWorkers } from '../crew/crew.node.ts';
import { InProcessCrypto } from '../crew/crew.ts';
import { Packing, type PlainBatch, packed, recordsOf, type SealedBatch, sealsOf } from '../formats/batch.ts';
import { List, type ListEntry, openList, sealList } from '../formats/lists.ts';
import { type PlainRecord, RecordKeys, sealingKey } from '../formats/records.ts';
import { bulkAddon, withoutBulk } from './bulk-sealing.node.ts';
import { NodeSealer, nodeKeyedHash } from './sealing.node.ts';
import { NONCE_BYTES, SEAL_OVERHEAD, type Sealer, seal, WebSealer, webKeyedHash } from './sealing.ts';

const seed = MasterSeed.from(Uint8Array.from({ length: 32 }, (_, i) => i));
const collectionId = Uint8Array.from({ length: 16 }, (_, i) => 0xf0 + i);
const EPOCH = 7;
const DIMENSION = 3;
/** What stands before the seal of a record (records.ts). */
const HEAD_BYTES = 8;
const keys = await RecordKeys.of(seed, collectionId);
const key = sealingKey(seed, collectionId, EPOCH);
const ciphers: Record<string, Sealer> = { node: new NodeSealer(key), web: new WebSealer(key) };

/** Ids of one to four bytes a letter and of all lengths, payloads of none to many bytes. */
const samples = Array.from({ length: 300 }, (_, i) => ({
  id:
    i % 100 === 99 ? 'x'.repeat(1024 - (i >> 6)) : `${['a', 'ë', '名', '🙂', '\ufeff'][i % 5].repeat(1 + (i % 7))}${i}`,
  vector: Float32Array.of(i, -i / 3, 1 / (i + 1)),
  payload: i % 3 === 0 ? '' : JSON.stringify({ text: '名'.repeat(i % 50), i }),
}));
samples[200].payload = JSON.stringify('y'.repeat(100_000));

function pack(): { ids: string[]; batch: PlainBatch } {
  const packing = new Packing(samples.length, DIMENSION);
  for (const { id, vector, payload } of samples) packing.add(id, vector, payload);
  return { ids: packing.names, batch: packing.take() };
}

/** What a record is named, said as plainly as can be (records.ts, first lines). */
function plainNames({ id, vector, payload }: (typeof samples)[number]) {
  const hmac = (purpose: string, ...parts: Uint8Array[]) =>
    createHmac('sha256', seed.deriveKey(purpose, collectionId))
      .update(concat(...parts))
      .digest('hex')
      .slice(0, 32);
  const [name, content] = [Buffer.from(id), Buffer.from(payload)];
  const lengths = Buffer.from(Uint32Array.of(name.length, 4 * DIMENSION).buffer);
  return {
    handle: hmac('handles', name),
    version: hmac('record versions', lengths, name, Buffer.from(vector.buffer), content),
  };
}

async function openAll(sealer: Sealer, batch: SealedBatch): Promise<PlainRecord[]> {
  const out: PlainRecord[] = [];
  for (const { handle, sealed } of sealsOf([batch]))
    out.push(await keys.open((epoch) => (epoch === EPOCH ? sealer : assert.fail()), handle, sealed));
  return out;
}

const asSample = ({ id, vector, payload }: PlainRecord) => ({
  id,
  vector: new Float32Array(vector),
  payload: Buffer.from(payload).toString(),
});

describe('records in bulk', () => {
  const { ids, batch } = pack();

  it('are named by keyed hashes of what they hold', () => {
    const records = recordsOf(ids, batch, keys.name(batch), EPOCH);
    assert.deepEqual(
      records.map(({ handle, version }) => ({ handle, version })),
      samples.map(plainNames),
    );
    assert.deepEqual(records.map(asSample), samples);
    assert.equal(hex(keys.handleOf(samples[3].id)), records[3].handle);
  });

  const material = { seed: seed.reveal(), request: { dimension: DIMENSION }, collectionId, epoch: EPOCH };
  const ways: Record<string, () => Promise<SealedBatch>> = {
    node: () => keys.seal(ciphers.node, EPOCH, batch),
    web: () => keys.seal(ciphers.web, EPOCH, batch),
    'one by one': async () => keys.seal(await withoutBulk(() => new NodeSealer(key)), EPOCH, batch),
    'this thread': () => new InProcessCrypto(material).seal(batch),
    'a crew': async () => {
      const crew = (await startWorkers(material, 2))!;
      const all = await Promise.all([crew.seal(batch), crew.seal(batch), crew.seal(batch)]);
      assert.notDeepEqual(all[0].sealed, all[1].sealed);
      await crew.close();
      return all[2];
    },
  };
  for (const [way, sealing] of Object.entries(ways)) {
    it(`sealed by ${way}: every cipher opens them, and nothing that was altered`, async () => {
      const sealed = await sealing();
      // As they are sent: the same as each framed by itself.
      const framed = [...sealsOf([sealed])].map((each) => frame(concat(each.handle, each.sealed)));
      assert.deepEqual(concat(...sealsOf([sealed]).frames()), concat(...framed));
      assert.deepEqual(concat(...[...sealsOf([sealed])].map(({ handle }) => handle)), sealed.handles);
      const nonces = new Set<string>();
      for (const { sealed: each } of sealsOf([sealed]))
        nonces.add(hex(each.subarray(HEAD_BYTES, HEAD_BYTES + NONCE_BYTES)));
      assert.equal(nonces.size, samples.length);
      for (const cipher of Object.values(ciphers)) {
        const opened = await openAll(cipher, sealed);
        assert.deepEqual(opened.map(asSample), samples);
        assert.deepEqual(
          opened.map(({ handle, version }) => ({ handle, version })),
          samples.map(plainNames),
        );
        const [first] = sealsOf([sealed]);
        for (const at of [0, 5, 9, 25, 40, first.sealed.length - 1]) {
          const altered = first.sealed.slice();
          altered[at] ^= 1;
          const opening = keys.open(() => cipher, sealed.handles.subarray(0, 16), altered);
          const code = at === 0 ? 'UNSUPPORTED_VERSION' : 'INTEGRITY';
          await assert.rejects(opening, (error) => error instanceof HersError && error.code === code);
        }
      }
    });
  }

  it('are packed again from records one by one, in parts', async () => {
    const records = recordsOf(ids, batch, keys.name(batch), EPOCH);
    const parts = [...packed(records, DIMENSION, 128)];
    assert.deepEqual(
      parts.map(({ count }) => count),
      [128, 128, 44],
    );
    const sealed = await Promise.all(parts.map((part) => keys.seal(ciphers.node, EPOCH, part)));
    assert.deepEqual(
      (await Promise.all(sealed.map((part) => openAll(ciphers.web, part)))).flat().map(asSample),
      samples,
    );
  });

  it('are copied: what an application does to its vectors afterwards changes nothing', () => {
    const vector = Float32Array.of(1, 2, 3);
    const packing = new Packing(1, DIMENSION);
    packing.add('a', vector, '');
    vector.fill(9);
    assert.deepEqual(packing.take().vectors, Float32Array.of(1, 2, 3));
    assert.throws(() => packing.add('b', vector, ''), RangeError);
  });

  it('a worker that answers for another batch is noticed', () => {
    const packing = new Packing(1, DIMENSION);
    packing.add('a', Float32Array.of(1, 2, 3), '');
    assert.throws(() => recordsOf(ids, batch, keys.name(packing.take()), EPOCH), HersError);
  });

  it('that were sealed once open as they did: a known answer', async () => {
    const handle = 'd4b4d4201fcecfaa487560ed1e858a84';
    const version = '8ea77616adac39bf65973bc9cc5457da';
    const sealed =
      '0100000007000000ed4e6d594b4bb9a438f592ceef585350a40d6992bd485ece85c1a39316935fa6063892434d0858225ff87ad86e8fbefa43cf20cda7fe323e51d64620d74ca6c316e60606a904cc2795ce93f0b01258';
    const expected = { id: 'Zoë', vector: Float32Array.of(0.5, -0.25, 0.125), payload: '{"n":1}' };
    const list =
      '0cbadba18471eadf141c990c5d8a5b366dd329f5d192fa08065ea03e0f37fe919076fa94b71de5cca027c8dd0607710f0fe417945855fd9008c3c6e93c38a623d5c293b413565a7795edf4ce63c10e4eeac1fbfd65480b8520e6d448';
    for (const cipher of Object.values(ciphers)) {
      const record = await keys.open(() => cipher, fromHex(handle), fromHex(sealed));
      assert.deepEqual([asSample(record), record.handle, record.version], [expected, handle, version]);
      assert.deepEqual(
        [...(await openList(cipher, collectionId, fromHex(list))).list],
        [
          { id: 'Zoë', version, order: 1 },
          { id: 'x', version: '00'.repeat(16), order: 0 },
        ],
      );
    }
    const packing = new Packing(1, DIMENSION);
    packing.add(expected.id, expected.vector, expected.payload);
    const again = await keys.seal(ciphers.node, EPOCH, packing.take());
    assert.deepEqual([again.handleText, again.versionText], [handle, version]);
  });
});

it('lists open by either cipher, whoever sealed them', async () => {
  const entries: ListEntry[] = samples.map((sample) => ({ id: sample.id, version: plainNames(sample).version }));
  for (const sealing of Object.values(ciphers)) {
    const sealed = await sealList(sealing, collectionId, List.of(entries));
    const plain = entries.map(({ version }, i) => ({ id: `ascii ${i}`, version }));
    const ascii = await sealList(sealing, collectionId, List.of(plain));
    for (const opening of Object.values(ciphers)) {
      assert.deepEqual([...(await openList(opening, collectionId, sealed)).list], entries);
      assert.deepEqual([...(await openList(opening, collectionId, ascii)).list], plain);
    }
  }
});

it('seals have the size they say, from nothing to 64 KiB', async () => {
  for (const length of [0, 1, 15, 16, 17, 2 ** 16]) {
    const plain = new Uint8Array(length).fill(5);
    for (const sealing of Object.values(ciphers)) {
      const sealed = await seal(sealing, plain, collectionId);
      assert.equal(sealed.length, length + SEAL_OVERHEAD);
      for (const opening of Object.values(ciphers)) {
        assert.deepEqual(hex(await opening.open(sealed, collectionId)), hex(plain));
        await assert.rejects(async () => opening.open(sealed, key), HersError);
      }
    }
  }
});

const needsAddon = { skip: bulkAddon() ? false : 'the addon that seals in bulk was not built' };

describe('the addon that hashes and seals many at once', needsAddon, () => {
  const bytes = (length: number) => new Uint8Array(length);
  const words = (...numbers: number[]) => Uint32Array.from(numbers);

  it('refuses arrays that do not belong together, and never reads or writes beyond them', () => {
    const addon = bulkAddon()!;
    const [hash, sealing] = [addon.makeHashKey(key), addon.makeSealKey(key)];
    const refused = (run: () => void) => assert.throws(run, Error);
    refused(() => addon.makeHashKey(bytes(31)));
    refused(() => addon.makeSealKey(bytes(33)));
    refused(() => addon.hashMany(hash, bytes(0), bytes(8), words(0), words(9), bytes(16)));
    refused(() => addon.hashMany(hash, bytes(0), bytes(8), words(5), words(4), bytes(16)));
    refused(() => addon.hashMany(hash, bytes(0), bytes(8), words(0), words(4, 8), bytes(32)));
    refused(() => addon.hashMany(hash, bytes(3), bytes(8), words(0, 4), words(4, 8), bytes(32)));
    refused(() => addon.hashMany(hash, bytes(0), bytes(8), words(0), words(8), bytes(33)));
    refused(() => addon.hashMany(sealing as never, bytes(0), bytes(8), words(0), words(8), bytes(16)));
    const seals = (nonces: number, associated: number, plain: number, ends: Uint32Array, before: number, out: number) =>
      refused(() => addon.sealMany(sealing, bytes(nonces), bytes(associated), bytes(plain), ends, before, bytes(out)));
    seals(11, 4, 8, words(8), 0, 36);
    seals(12, 4, 8, words(7), 0, 35);
    seals(12, 4, 8, words(9), 0, 37);
    seals(12, 4, 8, words(8), 0, 35);
    seals(12, 4, 8, words(8), 2 ** 32 - 1, 36);
    seals(24, 5, 8, words(4, 8), 0, 64);
    seals(24, 4, 8, words(9, 8), 0, 64);
    refused(() => addon.sealMany(hash as never, bytes(12), bytes(4), bytes(8), words(8), 0, bytes(36)));
    addon.hashMany(hash, bytes(0), bytes(0), words(), words(), bytes(0));
    addon.sealMany(sealing, bytes(0), bytes(0), bytes(0), words(), 4, bytes(0));
  });

  it('does nothing with keys that were wiped', () => {
    const addon = bulkAddon()!;
    const [hash, sealing] = [addon.makeHashKey(key), addon.makeSealKey(key)];
    addon.wipeHashKey(hash);
    addon.wipeSealKey(sealing);
    addon.wipeSealKey(sealing);
    assert.throws(() => addon.hashMany(hash, bytes(0), bytes(8), words(0), words(8), bytes(16)), /wiped/);
    assert.throws(() => addon.sealMany(sealing, bytes(12), bytes(4), bytes(8), words(8), 0, bytes(36)), /wiped/);
    const [sealer, keyed] = [new NodeSealer(key), nodeKeyedHash(key)];
    sealer.wipe();
    keyed.wipe();
    const contents = { plains: bytes(8), ends: words(8), associated: bytes(4), hedges: bytes(16) };
    assert.throws(() => sealer.sealMany!(bytes(36), 0, contents), { code: 'WIPED' });
    assert.throws(() => keyed.many!(bytes(0), bytes(8), words(0), words(8), bytes(16)), { code: 'WIPED' });
  });
});

describe('nonces', () => {
  /** More seals than any pool has random bytes for. */
  const MANY = 2000;
  const nonceOf = (sealed: Uint8Array) => hex(sealed.subarray(0, NONCE_BYTES));
  const drain = () => {
    const out = new Uint8Array(SEAL_OVERHEAD);
    for (let i = 0; i < MANY; i++) void ciphers.node.sealInto(out, new Uint8Array(0), key);
  };

  /** As in an image that is resumed again and again: every random byte is 7 meanwhile. */
  async function withRepeatedRandomness(t: TestContext, run: () => Promise<void>): Promise<void> {
    t.mock.method(nodeCrypto, 'randomFillSync', (bytes: Uint8Array) => bytes.fill(7));
    t.mock.method(crypto, 'getRandomValues', (bytes: Uint8Array) => bytes.fill(7));
    syncBuiltinESMExports();
    drain();
    try {
      await run();
    } finally {
      t.mock.restoreAll();
      syncBuiltinESMExports();
      drain();
    }
  }

  it(
    'of records sealed at once are those of records sealed one by one, and so is everything else',
    needsAddon,
    async (t) => {
      const { batch } = pack();
      const slowly = await withoutBulk(() => new NodeSealer(key));
      const slowKeys = await withoutBulk(() => RecordKeys.of(seed, collectionId));
      assert.equal(slowly.sealMany, undefined);
      await withRepeatedRandomness(t, async () => {
        const fast = await keys.seal(ciphers.node, EPOCH, batch);
        const slow = await slowKeys.seal(slowly, EPOCH, batch);
        assert.deepEqual(fast, slow);
        const projected = { ...batch, projections: new Float32Array(2 * batch.count).fill(0.5) };
        assert.deepEqual(
          await keys.seal(ciphers.node, EPOCH, projected),
          await slowKeys.seal(slowly, EPOCH, projected),
        );
      });
    },
  );

  /**
   * Around the size from which on they are hashed in pieces; each is there twice, with one bit
   * changed.
   */
  const contents = [0, 1, 31, 600, 601, 8100, 8192, 20_000].flatMap((length) => {
    const plain = Uint8Array.from({ length }, (_, i) => i);
    const other = plain.slice();
    if (length > 0) other[length - 1] ^= 1;
    return length > 0 ? [plain, other] : [plain];
  });
  const associated = [new Uint8Array(0), Uint8Array.of(0), Uint8Array.of(0, 1), collectionId];

  it('differ for different contents when the random bytes repeat; equal contents have the equal seal, by either cipher', async (t) => {
    await withRepeatedRandomness(t, async () => {
      const nonces = new Set<string>();
      for (const plain of contents) {
        for (const associatedData of associated) {
          const [node, again, web] = [
            await seal(ciphers.node, plain, associatedData),
            await seal(ciphers.node, plain, associatedData),
            await seal(ciphers.web, plain, associatedData),
          ];
          assert.equal(hex(again), hex(node));
          assert.equal(hex(web), hex(node));
          nonces.add(nonceOf(node));
          for (const cipher of Object.values(ciphers))
            assert.equal(hex(await cipher.open(node, associatedData)), hex(plain));
        }
      }
      assert.equal(nonces.size, contents.length * associated.length);
    });
  });

  it('depend on where contents begin, and on the key', async (t) => {
    await withRepeatedRandomness(t, async () => {
      const bytes = Uint8Array.from({ length: 40 }, (_, i) => i);
      const nonces = new Set<string>();
      for (let cut = 0; cut <= bytes.length; cut++)
        nonces.add(nonceOf(await seal(ciphers.node, bytes.subarray(cut), bytes.subarray(0, cut))));
      assert.equal(nonces.size, bytes.length + 1);
      const other = new NodeSealer(sealingKey(seed, collectionId, EPOCH + 1));
      const [one, two] = [await seal(ciphers.node, bytes, collectionId), await seal(other, bytes, collectionId)];
      assert.notEqual(nonceOf(one), nonceOf(two));
    });
  });

  it('follow the hedge that is given, which is not too short', async (t) => {
    const plain = new Uint8Array(600);
    const out = new Uint8Array(plain.length + SEAL_OVERHEAD);
    await withRepeatedRandomness(t, async () => {
      for (const [name, cipher] of Object.entries(ciphers)) {
        for (const byte of [0, 1, 255]) {
          await cipher.sealInto(out, plain, collectionId, new Uint8Array(16).fill(byte));
          assert.equal(nonceOf(out), hex(new Uint8Array(NONCE_BYTES).fill(7 ^ byte)), name);
          for (const opening of Object.values(ciphers))
            assert.equal(hex(await opening.open(out, collectionId)), hex(plain));
        }
        await assert.rejects(
          async () => cipher.sealInto(out, plain, collectionId, new Uint8Array(NONCE_BYTES - 1)),
          RangeError,
        );
      }
    });
  });

  it('of one content are all different, with a hedge or without', async () => {
    const plain = new Uint8Array(100);
    const nonces = new Set<string>();
    for (const cipher of Object.values(ciphers)) {
      for (let i = 0; i < MANY; i++) {
        const out = new Uint8Array(plain.length + SEAL_OVERHEAD);
        await cipher.sealInto(out, plain, collectionId, i % 2 === 0 ? undefined : collectionId);
        nonces.add(nonceOf(out));
      }
    }
    assert.equal(nonces.size, MANY * Object.keys(ciphers).length);
  });
});

it('the keyed hash is HMAC-SHA256, whatever the length and however it is cut', () => {
  const hashes = [nodeKeyedHash(key), webKeyedHash(key)];
  for (const length of [0, 1, 55, 56, 63, 64, 65, 600, 2 ** 16 - 65, 2 ** 16 - 64, 2 ** 16 - 63, 2 ** 18]) {
    const bytes = Uint8Array.from({ length }, (_, i) => i * 7);
    const expected = createHmac('sha256', key).update(bytes).digest('hex');
    for (const cut of [0, 1, length >> 1, length])
      for (const hashed of hashes) assert.equal(hex(hashed(bytes.subarray(0, cut), bytes.subarray(cut))), expected);
  }
});

it('hexadecimal text says the same for many bytes as for few', () => {
  const bytes = Uint8Array.from({ length: 512 }, (_, i) => i);
  assert.equal(hexText(bytes), hex(bytes));
  assert.deepEqual(fromHex(hexText(bytes)), bytes);
});
