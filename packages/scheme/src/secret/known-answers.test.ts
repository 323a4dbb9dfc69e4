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
  it('cover all parameter sets, every profile and metric, the tiny sets in whole messages', () => {
    const { cases, parameterSets } = expected;
    assert.equal(cases.length, actual.cases.length);
    const seen = new Set(cases.flatMap(({ request }) => [request.profile ?? 'compact', request.metric ?? 'cosine']));
    assert.deepEqual([...seen].sort(), [...PROFILES.filter((profile) => profile !== 'open'), ...METRICS].sort());
    const plain = parameterSets.map(({ name }) => name).filter((name) => !PARAMETER_SETS[name].evaluation);
    assert.deepEqual(new Set(cases.map(({ plan }) => plan.parameters)), new Set(plain));
    for (const { request, query } of cases) assert.equal('base64' in query.message, request.allowInsecure === true);
  });
  for (const { name, request, plan, block, response } of expected.cases) {
    it(`of ${name} are the scores of the vectors`, () => {
      const { dimension, metric = 'cosine' } = request;
      const vector = (j: number) => Array.from({ length: dimension }, (_, i) => coordinate(j, i));
      const query = vector(3);
      const score = (x: number[]) => {
        const dot = x.reduce((sum, xi, i) => sum + xi * query[i], 0);
        if (metric === 'cosine') return dot / (Math.hypot(...x) * Math.hypot(...query));
        return metric === 'dot' ? dot : Math.hypot(...x) ** 2 + Math.hypot(...query) ** 2 - 2 * dot;
      };
      // `compact` and `small` err by their noise and `exact` by rounding; none comes near this.
      const { scores, integers } = response;
      assert.equal(scores.length, block.count);
      assert.equal(integers?.length, plan.steps > 0 ? block.count : undefined);
      scores.forEach((s, j) => {
        assert.ok(Math.abs(s - score(vector(j))) < 0.02, `${s}, not ${score(vector(j))}`);
      });
    });
  }
});
