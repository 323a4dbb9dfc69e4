import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { decodeEnvelope, type EnvelopeHead, HersError } from '@hers/service';
import { parse } from 'es-module-lexer';
import fc from 'fast-check';
import * as hpke from 'hpke';
import {
  HYBRID_KEM,
  isSignedBy,
  openRecord,
  sealingKeyOf,
  sealRecord,
  signEnvelope,
  verifyingKey,
} from './envelopes.ts';

const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;
const SIGNING = new Uint8Array(32).fill(7);
const KEEPER = new Uint8Array(32).fill(9);
const ABOUT: EnvelopeHead = {
  kind: 'enrolment',
  device: 3,
  epoch: 1,
  time: 1_800_000_000_000,
  collection: new Uint8Array(16).fill(1),
  nonce: new Uint8Array(16).fill(2),
};

describe('envelopes', () => {
  it('are signed by their device, and nothing in them can be changed', () => {
    const envelope = signEnvelope(SIGNING, ABOUT, Uint8Array.of(1, 2, 3, 4));
    const decoded = decodeEnvelope(envelope);
    const { kind, device, epoch, time } = decoded;
    assert.deepEqual({ kind, device, epoch, time }, { kind: 'enrolment', device: 3, epoch: 1, time: ABOUT.time });
    assert.deepEqual([...decoded.body], [1, 2, 3, 4]);
    assert.ok(isSignedBy(verifyingKey(SIGNING), decoded));
    assert.ok(!isSignedBy(verifyingKey(KEEPER), decoded));
    for (let i = 0; i < envelope.length; i++) {
      const altered = Uint8Array.from(envelope).with(i, envelope[i]! ^ 1);
      let refused = false;
      try {
        refused = !isSignedBy(verifyingKey(SIGNING), decodeEnvelope(altered));
      } catch (error) {
        refused = fails('MALFORMED')(error) || fails('UNSUPPORTED_VERSION')(error);
      }
      assert.ok(refused, `byte ${i} can be changed`);
    }
  });

  it('have the bytes that docs/formats.md says', () => {
    const envelope = Buffer.from(signEnvelope(SIGNING, ABOUT, Uint8Array.of(1, 2, 3, 4)));
    assert.equal(
      envelope.subarray(0, 100).toString('hex'),
      [
        Buffer.from('HERSPOST').toString('hex'),
        '01000200',
        '03000000',
        '01000000',
        '00000000',
        '00505c18a3010000',
        '01'.repeat(16),
        '02'.repeat(16),
        // SHA-256 of 01020304.
        '9f64a747e1b97f131fabb6b447296c9b6f0201e79fb3c5356e6c77e89b6a806a',
        '01020304',
      ].join(''),
    );
    assert.equal(envelope.length, 164);
  });

  it('garbage is never anything but MALFORMED, of another version, or too large', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.nat(120), (bytes, cut) => {
        const start = signEnvelope(SIGNING, ABOUT, Uint8Array.of(1)).subarray(0, cut);
        try {
          decodeEnvelope(Uint8Array.from([...start, ...bytes]));
          return cut > 96;
        } catch (error) {
          return fails('MALFORMED')(error) || fails('UNSUPPORTED_VERSION')(error);
        }
      }),
    );
  });
});

describe('what is sealed to the keeper', () => {
  it('opens there alone, for the head it was sealed with, and hides its length', async () => {
    const keeper = sealingKeyOf(KEEPER);
    const record = { id: 'ada', vector: Float32Array.of(0.5, -1, 2), payload: { name: 'Ada', tags: ['x'] } };
    const sealed = await sealRecord(keeper, ABOUT, record);
    assert.deepEqual(await openRecord(KEEPER, ABOUT, sealed), record);
    const plain = { id: 'ada', vector: record.vector };
    assert.deepEqual(await openRecord(KEEPER, ABOUT, await sealRecord(keeper, ABOUT, plain)), plain);
    const wrong: [Uint8Array, EnvelopeHead, Uint8Array][] = [
      [SIGNING, ABOUT, sealed],
      [KEEPER, { ...ABOUT, device: 4 }, sealed],
      [KEEPER, { ...ABOUT, nonce: new Uint8Array(16) }, sealed],
      [KEEPER, ABOUT, sealed.with(1130, sealed[1130]! ^ 1)],
      [KEEPER, ABOUT, sealed.with(5, sealed[5]! ^ 1)],
      [KEEPER, ABOUT, sealed.slice(0, 1125)],
      [KEEPER, ABOUT, new Uint8Array(3)],
    ];
    for (const [i, [key, about, bytes]] of wrong.entries())
      await assert.rejects(openRecord(key, about, bytes), fails('INTEGRITY'), `case ${i}`);
    const lengths = new Set<number>();
    for (let i = 0; i < 60; i++)
      lengths.add((await sealRecord(keeper, ABOUT, { ...plain, id: 'x'.repeat(100 + i) })).length);
    assert.ok(lengths.size <= 16, `${lengths.size} lengths`);
  });

  it('is what Web Crypto makes of the same suite, where there is one', async (t) => {
    const suite = (kem: hpke.KEMFactory) => new hpke.CipherSuite(kem, hpke.KDF_HKDF_SHA256, hpke.AEAD_AES_256_GCM);
    const [ours, theirs] = [suite(HYBRID_KEM as unknown as hpke.KEMFactory), suite(hpke.KEM_MLKEM768_X25519)];
    let pair: Awaited<ReturnType<typeof theirs.GenerateKeyPair>>;
    try {
      pair = await theirs.GenerateKeyPair(true);
    } catch {
      return t.skip('this Node has no ML-KEM');
    }
    const [text, info] = ['hello', 'about'].map((each) => new TextEncoder().encode(each));
    const publicBytes = await theirs.SerializePublicKey(pair.publicKey);
    const secret = await theirs.SerializePrivateKey(pair.privateKey);
    assert.deepEqual(sealingKeyOf(secret), publicBytes);
    for (const [from, to] of [
      [ours, theirs],
      [theirs, ours],
    ]) {
      const sealed = await from!.Seal(await from!.DeserializePublicKey(publicBytes), text!, { info: info! });
      const key = await to!.DeserializePrivateKey(secret, false);
      assert.deepEqual(await to!.Open(key, sealed.encapsulatedSecret, sealed.ciphertext, { info: info! }), text);
    }
  });
});

describe('the module for devices', () => {
  it('is one file that loads nothing else, below 60 kB compressed', async () => {
    const bytes = await readFile(join(import.meta.dirname, '../../build/hers-device.js'));
    const [imports, exports] = parse(bytes.toString());
    assert.deepEqual(
      imports.filter(({ type }) => type !== 'import-meta'),
      [],
    );
    assert.deepEqual(exports.flatMap((each) => ('name' in each ? [each.name] : [])).sort(), ['Device', 'openDevice']);
    const compressed = gzipSync(bytes, { level: 9 }).length;
    assert.ok(compressed < 60_000, `${compressed} bytes`);
  });
});
