// Measured noise against predicted noise. More queries and fresh randomness: npm run campaign --
// noise

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GALLERY_KINDS, type GalleryKind, measureNoise } from '../../testing/measure.ts';
import { normals, repeatable } from '../../testing/samples.ts';
import { type PlanRequest, plan } from '../plan.ts';

function measure(request: PlanRequest, gallery: GalleryKind, queries: number) {
  const label = JSON.stringify([request, gallery]);
  return measureNoise(plan(request), {
    gallery,
    queries,
    entropy: repeatable(label),
    normal: normals(label),
  });
}

// The errors of a block of identical templates move together, about three degrees of freedom a
// query, so there it takes many queries.
const queriesFor = (gallery: GalleryKind, dimension: number) =>
  gallery !== 'identical' ? 4 : dimension > 512 ? 30 : 60;

for (const profile of ['compact', 'small', 'exact'] as const) {
  describe(`noise of ${profile}, within 10 % of the prediction`, () => {
    // Every profile at every dimension: npm run campaign -- noise.
    for (const dimension of [16, 128, 512, 1536]) {
      for (const gallery of dimension <= 128 ? GALLERY_KINDS : (['random'] as const)) {
        it(`d = ${dimension}, ${gallery} templates`, () => {
          const queries = queriesFor(gallery, dimension);
          const { ratio, largest, measured, wrong } = measure({ profile, dimension }, gallery, queries);
          assert.ok(Math.abs(ratio - 1) < 0.1, `measured over predicted is ${ratio}`);
          assert.ok(largest < 7 * measured, `largest error ${largest} at ${measured} rms`);
          if (profile === 'exact') assert.equal(wrong, 0);
        });
      }
    }
  });
}

describe('many scores', () => {
  for (const profile of ['compact', 'small'] as const)
    it(`${profile}: rms and maximum as planned over a million`, () => {
      const request = { dimension: 16, profile } as const;
      const { measured, largest, scores } = measure(request, 'random', 500);
      const { total } = plan(request).noise;
      assert.ok(scores >= 1e6);
      assert.ok(Math.abs(measured / total - 1) < 0.03, `${measured} rms, planned ${total}`);
      // A normal variable exceeds 4.2 and stays below 6.2 deviations over a million samples, but
      // for one run in a thousand.
      assert.ok(largest > 4.2 * total && largest < 6.2 * total, `largest ${largest / total} deviations`);
    });
  it('exact: no wrong score in a million', () => {
    const { wrong, scores } = measure({ profile: 'exact', dimension: 16 }, 'random', 250);
    assert.ok(scores >= 1e6);
    assert.equal(wrong, 0);
  });
});
