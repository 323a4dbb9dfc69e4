import assert from 'node:assert/strict';
import { it } from 'node:test';
import { unitVectors } from '@hers/vectors/accuracy';
import { identities } from '@hers/vectors/synthetic';
import { encryptedTwice, inTheClear } from './two-stage-encrypted.ts';

it('both stages encrypted rank as in the clear, with real scores and mates', async () => {
  const dimension = 8;
  const { vectors, labels } = identities(12, 3, dimension).gallery();
  const fine = { vectors: Float32Array.from(vectors), dimension, labels: Int32Array.from(labels) };
  const short = fine.vectors.filter((_, i) => i % dimension < 3);
  const coarse = { vectors: unitVectors(short, 3), dimension: 3, labels: fine.labels };
  const { seconds, ...found } = await encryptedTwice(coarse, fine, [0, 7, 20], 5, 'test');
  assert.equal(found.same, 3);
  assert.deepEqual([found.probes, found.k], [3, 5]);
  assert.ok(seconds.every((time) => time > 0));
});

it('in the clear, the second stage orders what the first one chose', () => {
  // Templates (3, 0), (2, 9), (1, 5), (0, 99): the first coordinate chooses, both rank.
  const coarse = { integers: Int32Array.of(3, 2, 1, 0), dimension: 1 };
  const fine = { integers: Int32Array.of(3, 0, 2, 9, 1, 5, 0, 99), dimension: 2 };
  // Of probe 1 the best by the first stage are 0 and 1, with 3·2 and 2·2; then 3·2 + 0 and 4 + 81.
  assert.deepEqual(inTheClear(coarse, fine, 1, 2), [
    { index: 1, score: 85 },
    { index: 0, score: 6 },
  ]);
});
