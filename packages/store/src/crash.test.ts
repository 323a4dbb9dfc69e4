import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkFolder, crashCampaign, runChild, withFolder } from '../testing/crash.ts';
import { Script } from '../testing/crash-script.ts';
import { FAULT_POINTS } from './faults.ts';

const STEPS = 16;
const SHARE = 0.3;

describe('a crash', { concurrency: 2 }, () => {
  for (const point of FAULT_POINTS) {
    it(`at ${point} leaves what was acknowledged`, () =>
      withFolder(async (folder) => {
        const { signal, acknowledged } = await runChild({ folder, seed: 1, share: SHARE, steps: STEPS, fault: point });
        assert.equal(signal, 'SIGKILL', 'the point was not reached');
        await checkFolder(folder, new Script(1, SHARE), acknowledged);
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
