import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Context, parameterSet, STEPS } from '@hers/paper';
import { type Kernel, openKernel } from '@hers/scan';
import fc from 'fast-check';
import { type Engine, enrol, search } from './engine.ts';
import { openPaper, PAPER_VARIANTS, type PaperVariant, type PaperVariantName } from './engine-paper.ts';
import { openSharedMask } from './engine-shared-mask.ts';

const contexts = new Map<string, Context>();
let kernel: Kernel;
before(async () => {
  for (const { parameters } of Object.values(PAPER_VARIANTS) as PaperVariant[]) {
    if (!contexts.has(parameters)) contexts.set(parameters, await Context.open(parameterSet(parameters)));
  }
  ({ kernel } = await openKernel({ threads: 1, warn() {} }));
});
after(async () => {
  for (const context of contexts.values()) {
    context[Symbol.dispose]();
    assert.equal(context.heap.handles, 0);
  }
  await kernel.close();
});

function open(name: PaperVariantName | 'exact', dimension: number): Promise<Engine> {
  if (name === 'exact') return openSharedMask({ dimension, profile: 'exact', kernel });
  return openPaper(name, { dimension, context: contexts.get(PAPER_VARIANTS[name].parameters)! });
}

/** Enrols the parts one after the other, searches, and closes. */
async function scoresOf(
  name: PaperVariantName | 'exact',
  parts: Float64Array[],
  query: Float64Array,
): Promise<number[]> {
  const engine = await open(name, query.length);
  try {
    for (const part of parts) await enrol(engine, part);
    return [...(await search(engine, query))];
  } finally {
    await engine.close();
  }
}

function plainScores(gallery: Float64Array, query: Float64Array): number[] {
  const d = query.length;
  const round = (x: number) => {
    const down = Math.floor(x);
    const rest = x - down;
    return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
  };
  return Array.from({ length: gallery.length / d }, (_, j) => {
    let sum = 0;
    for (let i = 0; i < d; i++) sum += round(gallery[j * d + i] * STEPS) * round(query[i] * STEPS);
    return sum;
  });
}

/**
 * Vectors of some dimension up to a norm; among them zero, and those with coordinates on the edge
 * between two steps.
 */
function cases(longest: number) {
  const coordinate = fc.oneof(
    fc.double({ min: -1, max: 1, noNaN: true }),
    fc.constantFrom(0, 1, -1),
    fc.integer({ min: -250, max: 250 }).map((k) => (k + 0.5) / 250),
  );
  const vectors = (count: number, dimension: number) =>
    fc.array(coordinate, { minLength: count * dimension, maxLength: count * dimension }).map((numbers) => {
      const out = Float64Array.from(numbers);
      for (let at = 0; at < out.length; at += dimension) {
        const norm = Math.hypot(...out.subarray(at, at + dimension));
        if (norm > longest) for (let i = at; i < at + dimension; i++) out[i] *= longest / norm;
      }
      return out;
    });
  return fc.record({ m: fc.integer({ min: 1, max: 5 }), d: fc.integer({ min: 2, max: 7 }) }).chain(({ m, d }) =>
    fc.record({
      gallery: vectors(m, d),
      query: vectors(1, d),
      // How many templates come in the first of two enrolments.
      cut: fc.integer({ min: 0, max: m }),
    }),
  );
}

describe('agreement: on the same vectors every engine gives the same integers', () => {
  const every = Object.keys(PAPER_VARIANTS) as PaperVariantName[];
  for (const [norm, names, runs] of [
    [1, every.filter((name) => name !== 'hers-bgv-65537'), 8],
    [0.715, every, 3],
  ] as const) {
    it(`exact, ${names.join(', ')}: norms up to ${norm}`, async () => {
      await fc.assert(
        fc.asyncProperty(cases(norm), async ({ gallery, query, cut }) => {
          const expected = plainScores(gallery, query);
          const at = cut * query.length;
          const parts = [gallery.subarray(0, at), gallery.subarray(at)].filter(({ length }) => length > 0);
          for (const name of ['exact', ...names] as const) {
            assert.deepEqual(await scoresOf(name, parts, query), expected, name);
          }
        }),
        { numRuns: runs },
      );
    });
  }

  it('beyond one block, for the engines that have blocks', async () => {
    const [m, d] = [4099, 3];
    const gallery = Float64Array.from({ length: m * d }, (_, k) => Math.sin(k * k) / Math.sqrt(d));
    const query = gallery.slice(4097 * d, 4098 * d);
    const expected = plainScores(gallery, query);
    for (const name of ['exact', 'hers', 'hers-lazy', 'hers-bgv'] as const) {
      assert.deepEqual(await scoresOf(name, [gallery], query), expected, name);
    }
  });
});

describe('compact', () => {
  it('gives nearly the same scores', async () => {
    const [m, d] = [50, 16];
    const gallery = Float64Array.from({ length: m * d }, (_, k) => Math.sin(k * k) / Math.sqrt(d));
    const query = gallery.slice(0, d);
    const engine = await openSharedMask({ dimension: d, profile: 'compact', kernel });
    await enrol(engine, gallery);
    const scores = await search(engine, query);
    await engine.close();
    assert.equal(engine.exact, false);
    // Rounding to 1/250 and noise: 0.0022 together, and 8 standard deviations are allowed.
    plainScores(gallery, query).forEach((score, j) => {
      assert.ok(Math.abs(score - scores[j]) < 0.02 * STEPS ** 2, `${score}, ${scores[j]}`);
    });
  });
});
