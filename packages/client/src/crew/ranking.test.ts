import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { Ranking } from './ranking.ts';

it('keeps what sorting everything would keep', () => {
  const score = fc.double({ min: -2, max: 2, noNaN: false, noDefaultInfinity: true });
  fc.assert(
    fc.property(
      fc.array(fc.array(score)),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom('ascending' as const, 'descending' as const),
      fc.option(fc.double({ min: -1, max: 1, noNaN: true }), { nil: undefined }),
      (blocks, limit, order, threshold) => {
        const ranking = new Ranking(limit, order, threshold);
        blocks.forEach((scores, block) => {
          ranking.offer(block, 10, scores);
        });
        const sign = order === 'descending' ? 1 : -1;
        const expected = blocks
          .flat()
          .filter((x) => !Number.isNaN(x) && (threshold === undefined || sign * x >= sign * threshold))
          .sort((a, b) => sign * (b - a))
          .slice(0, limit);
        const best = ranking.best();
        assert.deepEqual(
          best.map((b) => b.score + 0),
          expected.map((x) => x + 0),
        );
        for (const { block, slot, score: x } of best) assert.ok(Math.abs(blocks[block][slot - 10] - x) === 0);
      },
    ),
  );
});

it('what parts of the scores would keep, merged, is what all of them would', () => {
  const score = fc.double({ min: -2, max: 2, noNaN: true });
  fc.assert(
    fc.property(
      fc.array(fc.array(score)),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom('ascending' as const, 'descending' as const),
      (blocks, limit, order) => {
        const [whole, merged] = [new Ranking(limit, order), new Ranking(limit, order)];
        blocks.forEach((scores, block) => {
          const part = new Ranking(limit, order);
          part.offer(block, 0, scores);
          whole.offer(block, 0, scores);
          merged.merge(part.best());
        });
        const scoresOf = (ranking: Ranking) => ranking.best().map((candidate) => candidate.score);
        assert.deepEqual(scoresOf(merged), scoresOf(whole));
      },
    ),
  );
});

it('offered some slots, it keeps what it would keep if the others had no score', () => {
  const slot = fc.record({ score: fc.double({ min: -2, max: 2, noNaN: true }), counts: fc.boolean() });
  fc.assert(
    fc.property(
      fc.array(fc.array(slot, { maxLength: 100 }), { maxLength: 4 }),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom('ascending' as const, 'descending' as const),
      (blocks, limit, order) => {
        const [some, all] = [new Ranking(limit, order), new Ranking(limit, order)];
        for (const [block, slots] of blocks.entries()) {
          const words = new Uint32Array(Math.ceil(slots.length / 32));
          slots.forEach(({ counts }, j) => {
            if (counts) words[j >> 5] |= 1 << (j & 31);
          });
          const scores = slots.map(({ score }) => score);
          some.offer(block, 3, scores, words);
          const left = slots.map(({ score, counts }) => (counts ? score : Number.NaN));
          all.offer(block, 3, left);
        }
        assert.deepEqual(some.best(), all.best());
      },
    ),
  );
});
