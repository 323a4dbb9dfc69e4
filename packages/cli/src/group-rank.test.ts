import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { rankOneByMean } from './commands/compress.ts';

/** One vector at a time, with nothing added up before. */
function obviously(vectors: readonly (readonly number[])[], labels: readonly number[]): number {
  const cosine = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, x, k) => sum + x * b[k]!, 0) / (Math.hypot(...a) * Math.hypot(...b));
  const meanOf = (i: number, label: number) => {
    const others = vectors.filter((_, j) => j !== i && labels[j] === label).map((each) => cosine(vectors[i]!, each));
    return others.reduce((a, b) => a + b, 0) / others.length;
  };
  const probes = labels.flatMap((label, i) => (labels.filter((each) => each === label).length > 1 ? [i] : []));
  const found = probes.filter((i) =>
    [...new Set(labels)].every((label) => label === labels[i] || meanOf(i, label) < meanOf(i, labels[i]!)),
  );
  return found.length / probes.length;
}

it('finds persons by the mean of their templates as the obvious version does', () => {
  const vector = fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 3, maxLength: 3 });
  fc.assert(
    fc.property(
      fc.array(fc.tuple(vector, fc.integer({ min: 0, max: 4 })), { minLength: 2, maxLength: 20 }),
      (pairs) => {
        // Exact ties are decided by rounding: a little of everything else keeps them apart.
        const vectors = pairs.map(([each], i) => each.map((x, k) => Math.fround(x + 0.01 * Math.sin(7 * i + k) + 0.1)));
        const labels = pairs.map(([, label]) => label);
        assert.equal(
          rankOneByMean(Float32Array.from(vectors.flat()), Int32Array.from(labels)),
          obviously(vectors, labels),
        );
      },
    ),
    { numRuns: 200 },
  );
});
