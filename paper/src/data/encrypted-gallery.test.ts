import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eachScoreRow } from '@hers/vectors/accuracy';
import { identities } from '@hers/vectors/synthetic';
import { EncryptedGallery } from './encrypted-gallery.ts';

test('answers are those of the plaintext, for both profiles and over several blocks', async () => {
  const [count, dimension] = [2500, 8];
  const { vectors } = identities(count, 1, dimension).gallery();
  const probes = vectors.slice(100 * dimension, 108 * dimension);
  for (const profile of ['exact', 'compact'] as const) {
    const gallery = await EncryptedGallery.open({ dimension, profile });
    try {
      await gallery.enrol(vectors.subarray(0, 1000 * dimension));
      await gallery.enrol(vectors.subarray(1000 * dimension));
      await gallery.seal();
      assert.equal(gallery.size, count);
      const found = await gallery.search(probes, 5);
      eachScoreRow(probes, vectors, dimension, (i, scores) => {
        assert.equal(found[i].length, 5);
        const sorted = [...scores].sort((a, b) => b - a);
        for (const [n, { index, score }] of found[i].entries()) {
          assert.ok(Math.abs(scores[index] - score) < 0.02, `${profile}: ${scores[index]}, ${score}`);
          assert.ok(Math.abs(sorted[n] - score) < 0.02);
        }
        assert.equal(found[i][0].score > 0.98, true);
      });
    } finally {
      await gallery.close();
    }
  }
});
