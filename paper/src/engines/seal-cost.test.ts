import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { measureSeal, type SealCost, sealBytes, sealSeconds } from './seal-cost.ts';

describe('what a search costs on SEAL', () => {
  it('is the blocks of the thread that has most, and what was scored is not extrapolated', () => {
    const cost: SealCost = {
      ...{ variant: 'hers', dimension: 4, threads: 2, capacity: 100, cumulative: [3, 5] },
      ...{ start: 1, block: 2, cpu: 1.5, blockBytes: 7 },
    };
    assert.deepEqual(sealSeconds(cost, 100), { seconds: 3, cpu: 1.5, source: 'measured' });
    assert.deepEqual(sealSeconds(cost, 350), { seconds: 5, cpu: 6, source: 'measured' });
    // Five blocks: three of one thread, two of the other.
    assert.deepEqual(sealSeconds(cost, 401), { seconds: 7, cpu: 7.5, source: 'extrapolated' });
    assert.equal(sealBytes(cost, 401), 35);
  });

  it('is measured in threads that share a gallery, whose scores are checked', async () => {
    const cost = await measureSeal('hers', 2, { blocks: 2, runs: 1, distinct: 1, threads: 2 });
    assert.deepEqual([cost.threads, cost.capacity, cost.cumulative.length], [2, 4096, 2]);
    assert.equal(cost.blockBytes, 2 * 131_072);
    assert.ok(cost.block > 0 && cost.cumulative[1] > cost.cumulative[0]);
  });
});
