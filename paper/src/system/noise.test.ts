// Long: primitives.test.ts is the short form.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Pair, plainScores, unitVectors } from '../../testing/search.ts';
import { Context } from './context.ts';
import { HERS } from './encodings.ts';
import type { Encryption } from './keys.ts';
import { PARAMETER_SETS, type Parameters, PUBLISHED } from './parameters.ts';

/**
 * A search among a few templates: whether it is answered, whether rightly, and what is left of the
 * noise budget.
 */
async function trial(
  parameters: Parameters,
  dimension: number,
  encryption: Encryption = 'public',
  { scale = 1, switchModulus = false } = {},
) {
  const gallery = unitVectors(4, dimension).map((x) => x * scale);
  const vector = gallery.slice(0, dimension);
  using context = await Context.open(parameters);
  using pair = new Pair(context, HERS, { dimension, relinearise: 'once', encryption, switchModulus });
  pair.enrol(gallery);
  const query = pair.client.query(vector);
  const [response] = pair.server.search(query.bytes);
  const budget = pair.client.noiseBudget(response);
  const { handles } = context.heap;
  let answer: number[] | string;
  try {
    answer = [...query.read(response).integers];
  } catch (error) {
    answer = (error as { code: string }).code;
  }
  assert.equal(context.heap.handles, handles);
  return { budget, answer, right: plainScores(context, gallery, vector) };
}

describe('a search whose noise has used up its budget', () => {
  it('is refused, not answered', async () => {
    // Far more than the paper's t, so that a few products are enough.
    const large: Parameters = { name: 'bgv_n_4096_t_1073692673', scheme: 'bgv', n: 4096, plainModulus: 1073692673 };
    const { budget, answer } = await trial(large, 3);
    assert.equal(budget, 0);
    assert.equal(answer, 'NOISE_EXHAUSTED');
  });

  it("is never answered wrongly: BGV with the paper's t at d = 512, where it may or may not be used up", async () => {
    const { budget, answer, right } = await trial(PARAMETER_SETS.bgv_n_4096_t_1032193, 512);
    if (budget < 1) assert.equal(answer, 'NOISE_EXHAUSTED');
    else assert.deepEqual(answer, right);
  });
});

describe('BGV with lazy accumulation is right', () => {
  it("with the paper's t at d = 512, when the secret key encrypts, and when a prime is dropped at the end", async () => {
    const options = { switchModulus: true };
    const { budget, answer, right } = await trial(PARAMETER_SETS.bgv_n_4096_t_1032193, 512, 'seeded', options);
    assert.deepEqual(answer, right);
    assert.ok(budget >= 5, String(budget));
  });

  it('with a smaller t that still holds the scores', async () => {
    const { budget, answer, right } = await trial(PARAMETER_SETS.bgv_n_4096_t_147457, 128);
    assert.deepEqual(answer, right);
    assert.ok(budget >= 3, String(budget));
  });

  it('with the smallest t, for shorter vectors', async () => {
    const { budget, answer, right } = await trial(PARAMETER_SETS.bgv_n_4096_t_65537, 64, 'public', { scale: 0.7 });
    assert.deepEqual(answer, right);
    assert.ok(budget >= 3, String(budget));
  });
});

describe('the published system', () => {
  it('has noise budget to spare', async () => {
    const { budget, answer, right } = await trial(PUBLISHED, 64);
    assert.deepEqual(answer, right);
    assert.ok(budget >= 6, String(budget));
  });
});
