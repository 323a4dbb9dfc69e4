// A handful of people whose pictures lie on a line each: every matrix has a rank far below its
// size.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fit } from '../index.ts';

test('the linear methods are tried on little, and on what hardly varies', async () => {
  const [people, pictures, dimension] = [12, 5, 128];
  const vectors = new Float32Array(people * pictures * dimension);
  for (let i = 0; i < people * pictures; i++)
    for (let k = 0; k < dimension; k++) {
      const person = Math.floor(i / pictures);
      const turn = (i % pictures) / 10;
      vectors[i * dimension + k] = Math.sin((person + 1) * (k + 1) * 12.9898) + turn * Math.cos((k + 1) * 78.233);
    }
  const labels = Array.from({ length: people * pictures }, (_, i) => Math.floor(i / pictures));
  const made = await fit('auto', vectors, labels, { dimension: 8, settings: { ranking: null } });
  assert.equal(made.outputDimension, 8);
  assert.equal(made.metadata.figures.validationRank1, 1);
});
