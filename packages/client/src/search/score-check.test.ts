// Which residuals pass for noise, and which do not.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Compressor } from '@hers/compress';
import { noiselessScores, type PlanRequest, plainScores } from '@hers/scheme';
import { HersError } from '@hers/service';
import { vectorOf } from '../../testing/client.ts';
import type { PlainRecord } from '../formats/records.ts';
import { Space } from '../keys/space.ts';
import { largestSpread, ScoreCheck, WrongScore } from './score-check.ts';

const spaceOf = (request: PlanRequest) =>
  new Space({ seed: new Uint8Array(32).fill(3), request, collectionId: new Uint8Array(16), epoch: 0 });

let state = 1;
function uniform(): number {
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 2 ** 32;
}
const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());

const opened = (i: number, vector: Float32Array): PlainRecord => {
  const names = { id: `r${i}`, handle: String(i), version: '' };
  return { ...names, vector, payload: new Uint8Array(0), epoch: 0 };
};

/**
 * Whether so many records pass, with these residuals (in standard deviations) beside their own
 * scores.
 */
async function passes(
  space: Space,
  probe: Float32Array,
  vectors: Float32Array[],
  residuals: number[],
): Promise<boolean> {
  const check = new ScoreCheck(probe);
  try {
    for (const [i, vector] of vectors.entries()) {
      const [score] = noiselessScores(space.plan, vector, probe);
      const noisy = score + residuals[i] * space.plan.noise.score;
      const decrypted = space.plan.metric === 'euclidean' ? Math.sqrt(Math.max(0, noisy)) : noisy;
      await check.one({ handle: String(i), space, slot: (37 * i) % 2048, decrypted }, opened(i, vector));
    }
    check.together();
    return true;
  } catch (error) {
    assert.ok(error instanceof HersError && error.code === 'INTEGRITY', String(error));
    return false;
  }
}

const DIMENSION = 16;
const probe = vectorOf(1, DIMENSION);
const vectorsOf = (count: number) => Array.from({ length: count }, (_, i) => vectorOf(100 + i, DIMENSION));

describe('noise passes', () => {
  for (const metric of ['cosine', 'euclidean'] as const) {
    const space = spaceOf({ dimension: DIMENSION, metric });
    const share = (space.plan.noise.A / space.plan.noise.total) ** 2;
    it(`${metric}: independent, or with the largest part that templates of a block may share`, async () => {
      for (const count of [1, 2, 5, 10, 32, 128]) {
        const vectors = vectorsOf(count);
        for (let trial = 0; trial < 300; trial++) {
          const independent = vectors.map(normal);
          assert.ok(await passes(space, probe, vectors, independent), `${count} independent`);
          const common = Math.sqrt(share) * normal();
          const shared = vectors.map(() => common + Math.sqrt(1 - share) * normal());
          assert.ok(await passes(space, probe, vectors, shared), `${count} shared`);
        }
      }
    });
  }

  it('that walks from slot to slot, as that of a block of equal templates does', async () => {
    const space = spaceOf({ dimension: DIMENSION });
    const share = (space.plan.noise.A / space.plan.noise.total) ** 2;
    for (const count of [2, 40, 128]) {
      const vectors = vectorsOf(count);
      for (let trial = 0; trial < 1000; trial++) {
        // 2·W(t) − W(1), by the slots that `passes` gives them.
        const steps = Array.from({ length: 2048 }, normal);
        const whole = steps.reduce((sum, x) => sum + x, 0);
        let sum = 0;
        const walk = steps.map((x) => (2 * (sum += x) - whole) / Math.sqrt(2048));
        const residuals = vectors.map(
          (_, i) => Math.sqrt(share) * walk[(37 * i) % 2048] + Math.sqrt(1 - share) * normal(),
        );
        assert.ok(await passes(space, probe, vectors, residuals), `${count}`);
      }
    }
  });

  it('the best noise of many equal templates, or nearly equal ones', async () => {
    const space = spaceOf({ dimension: DIMENSION });
    for (const spread of [0, 0.0005, 0.002]) {
      for (let trial = 0; trial < 50; trial++) {
        // Of ten thousand alike, those that noise puts first.
        const all = Array.from({ length: 10_000 }, () => ({ score: spread * normal(), noise: normal() }));
        const sigma = space.plan.noise.score;
        const best = all
          .sort((a, b) => b.score + b.noise * sigma - (a.score + a.noise * sigma))
          .slice(0, 40 + 88 * (trial % 2));
        const vectors = best.map(({ score }) => {
          // At an angle whose cosine to the probe is half, give or take the score.
          const vector = new Float32Array(DIMENSION);
          const other = vectorOf(2, DIMENSION);
          const dot = other.reduce((sum, x, i) => sum + x * probe[i], 0);
          const side = other.map((x, i) => x - dot * probe[i]);
          const length = Math.hypot(...side);
          const cosine = 0.5 + score;
          for (let i = 0; i < DIMENSION; i++)
            vector[i] = cosine * probe[i] + (Math.sqrt(1 - cosine * cosine) * side[i]) / length;
          return vector;
        });
        const noise = best.map((each) => each.noise);
        assert.ok(await passes(space, probe, vectors, noise), `spread ${spread}`);
      }
    }
  });

  it('a distance that noise made negative', async () => {
    const space = spaceOf({ dimension: DIMENSION, metric: 'euclidean' });
    assert.ok(await passes(space, probe, [probe, vectorOf(4, DIMENSION)], [-5, 1]));
  });
});

describe('what is not noise does not pass', () => {
  const space = spaceOf({ dimension: DIMENSION });

  it('a single score eight standard deviations off', async () => {
    for (const residual of [8, -8, 1000, Number.NaN, Number.POSITIVE_INFINITY])
      assert.ok(!(await passes(space, probe, vectorsOf(1), [residual])), `${residual}`);
  });

  it('changes of a few standard deviations that follow something else, long before a single one would show', async () => {
    for (const [count, size, share] of [
      [128, 4.6, 0.3],
      [128, 4.2, 0.5],
    ] as const) {
      const vectors = vectorsOf(count);
      let caught = 0;
      for (let trial = 0; trial < 50; trial++) {
        const residuals = vectors.map((_, i) => normal() + (i < share * count ? size : 0));
        if (
          !(await passes(
            space,
            probe,
            vectors,
            residuals.map((x) => Math.min(x, 6.9)),
          ))
        )
          caught++;
      }
      assert.ok(caught >= 45, `${caught} of 50 with ${count} records and ${size} standard deviations`);
    }
  });

  it('all of them moved together by more than shared noise can', async () => {
    assert.ok(!(await passes(space, probe, vectorsOf(128), Array(128).fill(6.95))));
  });

  it('exact: by one step', async () => {
    for (const metric of ['cosine', 'euclidean', 'dot'] as const) {
      const exact = spaceOf({ dimension: DIMENSION, metric, profile: 'exact' });
      const vector = vectorOf(7, DIMENSION);
      const [plain] = plainScores(exact.plan, vector, probe);
      const step = 1 / exact.plan.steps ** 2;
      const asDecrypted = (score: number) => (metric === 'euclidean' ? Math.sqrt(score) : score);
      const check = (score: number) =>
        new ScoreCheck(probe).one({ handle: '', space: exact, decrypted: asDecrypted(score) }, opened(0, vector));
      await check(plain);
      await assert.rejects(check(plain + step), WrongScore);
      await assert.rejects(check(plain - step), WrongScore);
    }
  });
});

it('exact, after a network: by one step of what was sealed, or of what the network makes', async () => {
  const halve = async (vectors: Float32Array) => vectors.slice(0, DIMENSION);
  const compressor = { inputDimension: 2 * DIMENSION, outputDimension: DIMENSION, reproducible: false };
  const compression = { compressor: { ...compressor, transform: halve } as unknown as Compressor, digest: 'd' };
  const request = { dimension: 2 * DIMENSION, metric: 'dot', profile: 'exact' } as const;
  const material = { seed: new Uint8Array(32).fill(3), request, collectionId: new Uint8Array(16), epoch: 2 };
  const space = new Space(material, compression);
  const whole = vectorOf(5, 2 * DIMENSION);
  const record = opened(0, vectorOf(7, 2 * DIMENSION));
  const sealed = vectorOf(8, DIMENSION, 0.5);
  const cases: [PlainRecord, Float32Array][] = [
    [{ ...record, epoch: 2, projection: { epoch: 2, values: sealed } }, sealed],
    [{ ...record, epoch: 3, projection: { epoch: 3, values: sealed } }, await halve(record.vector)],
  ];
  const check = (each: PlainRecord, decrypted: number) =>
    new ScoreCheck(whole).one({ handle: '', space, decrypted }, each);
  for (const [each, indexed] of cases) {
    const [plain] = plainScores(space.plan, indexed, await halve(whole));
    const step = 1 / space.plan.steps ** 2;
    await check(each, plain);
    // One that was sealed again for another compressor meanwhile may have been rounded differently.
    const room = each.epoch === 2 ? step : 9 / space.plan.steps;
    if (each.epoch === 3) await check(each, plain + 7 / space.plan.steps);
    for (const wrong of [plain + room, plain - room]) await assert.rejects(check(each, wrong), WrongScore);
  }
  for (const epoch of [1, 2])
    await assert.rejects(check({ ...record, epoch }, 0), { code: 'INTEGRITY', message: /without what was indexed/ });
});

it('the bound on the spread is the one that Chernoff gives, and falls with the number of records', () => {
  let before = Number.POSITIVE_INFINITY;
  for (const count of [1, 2, 9, 31, 127, 1000]) {
    const x = largestSpread(count);
    assert.ok(Math.abs(count * (x - 1 - Math.log(x)) - 128 * Math.LN2) < 1e-6 * count);
    assert.ok(x < before && x > 1);
    before = x;
  }
  assert.ok(Math.sqrt(largestSpread(127)) < 1.65);
});
