import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { COMMUNICATION } from '@hers/paper/lab/published';
import { meaningless, writeDatasets } from '@hers/paper/testing/datasets';
import { SmallRuns } from '@hers/paper/testing/small-runs';
import { plan } from '@hers/scheme';
import type { EncryptionCostParameters } from './encryption-cost.ts';
import { EXPERIMENTS } from './index.ts';

const { smallRun, results, testAll } = new SmallRuns(EXPERIMENTS);

testAll();

describe('what they say', () => {
  it("communication: a probe has the paper's size when it is compressed as then", async () => {
    const figures = await results('communication');
    // A ciphertext for each dimension.
    const probe = (figures.get('hers-seal-zlib-d4-probe')!.value / 4) * COMMUNICATION.dimension;
    assert.ok(Math.abs(probe / COMMUNICATION.hersProbe - 1) < 0.03, `${probe}, ${COMMUNICATION.hersProbe}`);
  });

  it('encryption-cost: exact is the search of rounded vectors, and compact and small are close to that in the clear', async () => {
    const figures = await results('encryption-cost');
    for (const name of ['full-24', 'lda-8']) {
      assert.equal(figures.get(`${name}-exact-different`)!.value, 0);
      assert.equal(figures.get(`${name}-exact`)!.value, figures.get(`${name}-rounded`)!.value);
      // Noise may decide between two that score almost the same: of 72 probes, two or three.
      assert.ok(Math.abs(figures.get(`${name}-compact`)!.value - figures.get(name)!.value) < 0.05);
    }
    assert.ok(Math.abs(figures.get('full-24-small')!.value - figures.get('full-24')!.value) < 0.1);
    assert.ok(!figures.has('lda-8-small'));
    const { data, markdown } = await smallRun('encryption-cost');
    assert.match(markdown, /At 8 dimensions `small` is not offered/);
    // The steps of the profile that was searched, at 24 and at 8 dimensions.
    const steps = [24, 8].map((dimension) => plan({ dimension, profile: 'exact' }).steps);
    assert.deepEqual((data.parameters as EncryptionCostParameters).rounding, steps);
    assert.match(markdown, /after rounding to 1\/1 370 as the profile `exact` does/);
  });

  it('encryption-cost: data with nothing to fit on are refused in a sentence', async () => {
    const data = await mkdtemp(join(tmpdir(), 'hers-data-'));
    try {
      const even = Int32Array.from({ length: 40 }, (_, i) => 2 * (i % 10));
      await writeDatasets(data, meaningless(even, 16));
      const given = { data, split: 'test', dimensions: '8' };
      await assert.rejects(
        results('encryption-cost', given),
        /nothing to fit on: there are no vectors with a label that is odd/,
      );
    } finally {
      await rm(data, { recursive: true });
    }
  });
});
