import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { HersError, isSealed, MasterSeed, openKey, sealKey, unsealedKey } from '../index.ts';

const seed = MasterSeed.from(Uint8Array.from({ length: 32 }, (_, i) => i * 7));
const refused =
  (...codes: string[]) =>
  (error: unknown) =>
    error instanceof HersError && codes.includes(error.code);
const CHEAP = 2 ** 10;

it('a sealed key opens with its passphrase and no other', async () => {
  const text = await sealKey(seed, 'correct horse', CHEAP);
  assert.equal(isSealed(text), true);
  assert.ok(!text.includes(Buffer.from(seed.reveal()).toString('hex')));
  assert.deepEqual((await openKey(text, 'correct horse')).reveal(), seed.reveal());
  for (const wrong of ['correct horsf', '', 'CORRECT HORSE'])
    await assert.rejects(openKey(text, wrong), refused('WRONG_KEY'));
  await assert.rejects(openKey(text), refused('WRONG_KEY'));
  assert.notEqual(await sealKey(seed, 'correct horse', CHEAP), text);
});

it('the same passphrase typed in another Unicode form opens it', async () => {
  const text = await sealKey(seed, 'caf\u00e9', CHEAP);
  assert.deepEqual((await openKey(text, 'cafe\u0301')).reveal(), seed.reveal());
});

it('an unsealed key is plain to see', async () => {
  const text = unsealedKey(seed);
  assert.equal(isSealed(text), false);
  assert.deepEqual((await openKey(text)).reveal(), seed.reveal());
});

it('an empty passphrase is refused', async () => {
  await assert.rejects(sealKey(seed, ''), refused('INVALID_ARGUMENT'));
});

it('a key file of this version opens for ever', async () => {
  const fixture =
    '{"format":"hers-key","version":1,"scrypt":{"N":1024,"r":8,"p":1,"salt":"000102030405060708090a0b0c0d0e0f"},' +
    '"sealed":"fb672ac7a90333d67a00493727d06b8121fa1a05cb4917081eb6fab4f1cf34f9ec2fd270ec1481c8a5c3f255452ab52ce3d9079811642714d9b4b85d"}';
  assert.deepEqual((await openKey(fixture, 'fixture')).reveal(), seed.reveal());
});

it('anything else is a typed error, without work or memory that the file asks for', async () => {
  const text = await sealKey(seed, 'x', CHEAP);
  const file = JSON.parse(text);
  const bad = [
    '',
    'null',
    '[]',
    '{}',
    '{"format":"hers-key"}',
    JSON.stringify({ ...file, version: 2 }),
    JSON.stringify({ ...file, sealed: 'zz' }),
    JSON.stringify({ ...file, scrypt: null }),
    JSON.stringify({ ...file, scrypt: { ...file.scrypt, N: 2 ** 30 } }),
    JSON.stringify({ ...file, scrypt: { ...file.scrypt, N: 1000 } }),
    JSON.stringify({ ...file, scrypt: { ...file.scrypt, r: 1e6 } }),
    JSON.stringify({ format: 'hers-key', version: 1, seed: 'abcd' }),
  ];
  for (const version of [0, 2, '1'])
    await assert.rejects(openKey(JSON.stringify({ ...file, version }), 'x'), refused('UNSUPPORTED_VERSION'));
  for (const each of bad) await assert.rejects(openKey(each, 'x'), refused('MALFORMED', 'UNSUPPORTED_VERSION'));
  await fc.assert(
    fc.asyncProperty(fc.nat(text.length - 1), fc.string({ minLength: 1, maxLength: 1 }), async (at, letter) => {
      const altered = text.slice(0, at) + letter + text.slice(at + 1);
      try {
        assert.deepEqual((await openKey(altered, 'x')).reveal(), seed.reveal());
      } catch (error) {
        assert.ok(refused('MALFORMED', 'UNSUPPORTED_VERSION', 'WRONG_KEY')(error), String(error));
      }
    }),
    { numRuns: 60 },
  );
});
