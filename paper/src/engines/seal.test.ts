import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSeal } from './seal.ts';

const once = { atLeastMs: 0, atLeastRuns: 1, warmups: 0 };

test('SEAL runs with the parameters of the published system', async () => {
  const seal = await openSeal();
  try {
    assert.deepEqual(seal.parameters.coefficientModulusBits, [36, 36, 37]);
    assert.ok(seal.ntt(once) > 0);
    const block = seal.blockEncryption(2, once);
    assert.equal(block.ms, Math.min(block.symmetricMs, block.publicKeyMs));
    // It throws if a score is wrong.
    for (const dimension of [1, 8]) assert.ok(seal.responseDecryption(dimension, once).ms > 0);
    const { ciphertext, seededCiphertext } = seal.sizes();
    assert.ok(ciphertext >= 2 * 2 * 4096 * 8, 'two polynomials, two primes, eight bytes each');
    assert.ok(seededCiphertext < 0.51 * ciphertext, 'one of the two polynomials is a seed');
  } finally {
    seal.close();
  }
});
