// The known answers of docs/formats.md. After a change of format that is meant (and a new version
// number), write them again, then format:
//
//   node packages/scheme/src/secret/known-answers.test.ts --write && npm run format

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { allCode, withNative } from '@hers/ring/testing/code';
import { coordinate, knownAnswers } from '../../testing/known-answers.ts';
import { PARAMETER_SETS, PROFILES } from '../parameters.ts';
import { METRICS } from '../plan.ts';

type Answers = ReturnType<typeof knownAnswers>;

const file = join(import.meta.dirname, '../../testing/known-answers.json');
const actual: Answers = JSON.parse(JSON.stringify(knownAnswers()));
if (process.argv.includes('--write')) writeFileSync(file, `${JSON.stringify(actual, null, 2)}\n`);
const expected: Answers = JSON.parse(readFileSync(file, 'utf8'));

describe('known answers', () => {
  it('of the parameter sets: primes, and the roots of unity that order the residues', () => {
    assert.deepEqual(actual.parameterSets, expected.parameterSets);
  });
  for (const [i, want] of expected.cases.entries()) {
    it(`of ${want.name}: every byte of every message, and every score`, () => {
      const got = actual.cases[i];
      for (const part of Object.keys(want) as (keyof typeof want)[]) assert.deepEqual(got[part], want[part], part);
      assert.deepEqual(got, want);
    });
  }
  for (const { name, native } of allCode())
    it(`are the same with ${name}`, () => {
      assert.deepEqual(JSON.parse(JSON.stringify(withNative(native, knownAnswers))), expected);
    });
  // Those of open queries have a file of their own: open/wire.test.ts.
  it('cover all parameter sets, every profile and metric, the small sets in whole messages', () => {
    const { cases, parameterSets } = expected;
    assert.equal(cases.length, actual.cases.length);
    const seen = new Set(cases.flatMap(({ request }) => [request.profile ?? 'compact', request.metric ?? 'cosine']));
    assert.deepEqual([...seen].sort(), [...PROFILES.filter((profile) => profile !== 'open'), ...METRICS].sort());
    const plain = parameterSets.map(({ name }) => name).filter((name) => !PARAMETER_SETS[name].evaluation);
    assert.deepEqual(new Set(cases.map(({ plan }) => plan.parameters)), new Set(plain));
    for (const { request, query } of cases) assert.equal('base64' in query.message, request.allowInsecure === true);
  });
  for (const { name, request, plan, block, secondBlock, response, sumResponse } of expected.cases) {
    it(`of ${name} are the scores of the vectors`, () => {
      const { dimension, metric = 'cosine', profile } = request;
      const vector = (j: number) => Array.from({ length: dimension }, (_, i) => coordinate(j, i));
      const query = vector(3);
      const score = (x: number[]) => {
        const dot = x.reduce((sum, xi, i) => sum + xi * query[i], 0);
        if (metric === 'cosine') return dot / (Math.hypot(...x) * Math.hypot(...query));
        return metric === 'dot' ? dot : Math.hypot(...x) ** 2 + Math.hypot(...query) ** 2 - 2 * dot;
      };
      // `compact` errs by its noise and `exact` by rounding to 1/250 of the bounds; neither comes
      // near this.
      const tolerance = profile?.startsWith('exact') ? 0.05 : 0.02;
      const whole = [{ ...response, count: block.count }];
      if (sumResponse && secondBlock) whole.push({ ...sumResponse, count: block.count + secondBlock.count });
      for (const { scores, integers, count } of whole) {
        assert.equal(scores.length, count);
        assert.equal(integers?.length, plan.steps > 0 ? count : undefined);
        scores.forEach((s, j) => {
          assert.ok(Math.abs(s - score(vector(j))) < tolerance, `${s}, not ${score(vector(j))}`);
        });
      }
    });
  }
});
