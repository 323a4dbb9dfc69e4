import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { inspect } from 'node:util';
import { Context } from './context.ts';
import { ClientKeys, EvaluationKeys } from './keys.ts';
import { PARAMETER_SETS, PUBLISHED } from './parameters.ts';
import { Primitives } from './primitives.ts';

function slots(value: (j: number) => number): BigInt64Array {
  return BigInt64Array.from({ length: 4096 }, (_, j) => BigInt(value(j)));
}

const a = slots((j) => (j % 501) - 250);
const b = slots((j) => ((j * 7) % 501) - 250);

for (const parameters of [PUBLISHED, PARAMETER_SETS.bgv_n_4096_t_147457]) {
  describe(`the primitives of Appendix A, ${parameters.name}`, () => {
    let context: Context;
    let keys: ClientKeys;
    let evaluation: EvaluationKeys;
    let primitives: Primitives;

    before(async () => {
      context = await Context.open(parameters);
      keys = new ClientKeys(context, { rotations: [1, 2048] });
      evaluation = new EvaluationKeys(context, keys.evaluationKeys);
      primitives = new Primitives(context, evaluation);
    });
    after(() => {
      evaluation[Symbol.dispose]();
      keys[Symbol.dispose]();
      context[Symbol.dispose]();
      assert.equal(context.heap.handles, 0);
    });

    it("has SEAL's default modulus", () => assert.deepEqual(context.modulusBits, [36, 36, 37]));

    it('decrypts what was encrypted, and never encrypts the same twice', () => {
      const bytes = keys.encrypt(a);
      assert.deepEqual(keys.decrypt(bytes), a);
      assert.notDeepEqual(keys.encrypt(a), bytes);
      assert.equal(bytes.length, 131185);
    });

    it('encrypts by the secret key to half the bytes', () => {
      using seeded = new ClientKeys(context, { encryption: 'seeded' });
      const bytes = seeded.encrypt(b);
      assert.deepEqual(seeded.decrypt(bytes), b);
      assert.equal(bytes.length, 65730);
    });

    it('adds, multiplies and rotates', () => {
      using scope = context.heap.scope();
      const left = context.load(scope.ciphertext(), keys.encrypt(a));
      const right = context.load(scope.ciphertext(), keys.encrypt(b));
      const out = scope.ciphertext();
      const value = (ciphertext = out) => keys.decrypt(context.save(ciphertext));

      primitives.multiply(left, right, out);
      assert.equal(out.size(), 2);
      assert.deepEqual(
        value(),
        slots((j) => Number(a[j] * b[j])),
      );

      primitives.tensor(left, right, out);
      assert.equal(out.size(), 3);
      assert.deepEqual(
        value(),
        slots((j) => Number(a[j] * b[j])),
      );
      primitives.relinearise(out);
      assert.deepEqual(
        value(),
        slots((j) => Number(a[j] * b[j])),
      );

      primitives.rotate(left, 1, out);
      assert.deepEqual(
        value(),
        slots((j) => Number(a[j < 2048 ? (j + 1) % 2048 : 2048 + ((j + 1) % 2048)])),
      );
      primitives.rotate(left, 2048, out);
      assert.deepEqual(
        value(),
        slots((j) => Number(a[(j + 2048) % 4096])),
      );

      primitives.add(left, right);
      assert.deepEqual(
        value(left),
        slots((j) => Number(a[j] + b[j])),
      );

      primitives.encryptZero(out);
      assert.deepEqual(
        value(),
        slots(() => 0),
      );
      assert.deepEqual(primitives.counts, { multiplications: 2, additions: 1, rotations: 2, relinearisations: 2 });
    });

    it('cannot rotate without keys for it, or by steps it has no key for', () => {
      using plain = new ClientKeys(context);
      using fewer = new EvaluationKeys(context, plain.evaluationKeys);
      using scope = context.heap.scope();
      const ciphertext = context.load(scope.ciphertext(), plain.encrypt(a));
      const without = new Primitives(context, fewer);
      assert.throws(() => without.rotate(ciphertext, 1, scope.ciphertext()), { code: 'KEY_MISMATCH' });
    });

    it('refuses bytes that are no ciphertext', () => {
      const bytes = keys.encrypt(a);
      for (const wrong of [new Uint8Array(0), new Uint8Array(200), bytes.subarray(0, 1000), keys.evaluationKeys]) {
        assert.throws(() => keys.decrypt(wrong), { code: 'MALFORMED' });
      }
      const flipped = bytes.slice();
      flipped.fill(255, 200, 400);
      assert.throws(() => keys.decrypt(flipped), { code: 'MALFORMED' });
    });
  });
}

describe('another key', () => {
  it('decrypts nothing', async () => {
    using context = await Context.open();
    using one = new ClientKeys(context);
    using other = new ClientKeys(context);
    assert.throws(() => other.decrypt(one.encrypt(a)), { code: 'NOISE_EXHAUSTED' });
  });

  it('is not shown by anything that prints it', async () => {
    using context = await Context.open();
    using keys = new ClientKeys(context);
    const shown = inspect(keys, { showHidden: true, depth: 6, maxArrayLength: 4 }) + JSON.stringify(Object.keys(keys));
    for (const name of ['SecretKey', 'Decryptor', 'Encryptor']) assert.ok(!shown.includes(`${name} {`), name);
    assert.deepEqual(Object.keys(keys), ['context', 'evaluationKeys']);
  });
});
