// Long: kill.test.ts of client and power-loss.test.ts are the short forms.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkFolder, crashCampaign, runChild, withFolder } from '../testing/crash.ts';
import { PARTITIONED, Script } from '../testing/crash-script.ts';
import { FAULT_POINTS } from './base/faults.ts';

const STEPS = 16;
const SHARE = 0.3;

describe('a crash', { concurrency: 2 }, () => {
  for (const point of FAULT_POINTS) {
    it(`at ${point} leaves what was acknowledged`, () =>
      withFolder(async (folder) => {
        const shards = point === 'stage.kept';
        const run = { folder, seed: 1, share: SHARE, steps: STEPS, shards, fault: point };
        const { signal, acknowledged } = await runChild(run);
        assert.equal(signal, 'SIGKILL', 'the point was not reached');
        await checkFolder(folder, new Script(1, SHARE), acknowledged);
      }));
  }

  for (const point of ['stage.kept:40', 'commit.within:3', 'commit.committed:5', 'purge.copied', 'purge.committed']) {
    it(`in a shard, at ${point}, leaves what was acknowledged`, () =>
      withFolder(async (folder) => {
        const run = { folder, seed: 3, share: SHARE, steps: STEPS, shards: true, fault: point };
        const { signal, acknowledged } = await runChild(run);
        assert.equal(signal, 'SIGKILL', 'the point was not reached');
        await checkFolder(folder, new Script(3, SHARE), acknowledged);
      }));
  }

  // Every point of a commit and of compaction, and the last of staging, in each of two partitions.
  const ofPartitions = FAULT_POINTS.filter((point) => /^(?:commit|segment)\.|\.synced$/.test(point)).map((point, i) =>
    point.startsWith('segment') ? point : `${point}:${2 + (i % 3)}`,
  );
  for (const point of ofPartitions) {
    it(`among partitions, at ${point}, leaves what was acknowledged, and segments of one partition each`, () =>
      withFolder(async (folder) => {
        const seed = PARTITIONED + 1;
        const { signal, acknowledged } = await runChild({ folder, seed, share: SHARE, steps: STEPS, fault: point });
        assert.equal(signal, 'SIGKILL', 'the point was not reached');
        await checkFolder(folder, new Script(seed, SHARE), acknowledged);
      }));
  }

  it('at random moments leaves what was acknowledged', async () => {
    const { kills } = await crashCampaign(6);
    assert.equal(kills, 6);
  });
});

it('without a crash the script runs through', () =>
  withFolder(async (folder) => {
    const run = await runChild({ folder, seed: 2, share: SHARE, steps: STEPS });
    assert.deepEqual(run, { acknowledged: STEPS, finished: true, signal: null });
    await checkFolder(folder, new Script(2, SHARE), STEPS);
  }));
