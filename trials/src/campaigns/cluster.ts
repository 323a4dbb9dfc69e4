// `npm run campaign -- cluster`: faults of every kind on a cluster of four nodes and three servers
// of NATS, all processes of this machine.

import { natsServer, TestCluster } from '@hers/cluster/testing';
import { faultTrial } from '@hers/cluster/testing/faults';
import { HersError } from '@hers/service';

export async function clusterCampaign(options: { readonly minutes: number; readonly seed: number }): Promise<boolean> {
  const { minutes, seed } = options;
  const { path, skip } = natsServer();
  if (path === undefined) throw new HersError('UNAVAILABLE', String(skip));
  console.log(`seed ${seed}, ${minutes} minutes`);
  const tending = { goneMs: 15_000, scrubMs: 3_000 };
  const cluster = await TestCluster.start(path, {
    nodes: 4,
    replicas: 3,
    spare: 1,
    reference: true,
    proxies: true,
    smallDisk: true,
    quiet: true,
    tending,
  });
  if (cluster.small.size === 0) console.log('No disk is filled: this user may not mount a file system.');
  const began = performance.now();
  const at = () => `${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s`;
  try {
    const trial = await faultTrial(cluster, {
      seconds: 60 * minutes,
      seed,
      onEvent: (event) => console.log(`${at()}  ${event}`),
    });
    const { faults, kills, changes, rotations, searches, unavailable, silence, stall, healed } = trial;
    for (const [fault, count] of Object.entries(faults)) console.log(`${String(count).padStart(6)} × ${fault}`);
    console.log(
      `${kills} kills; ${changes} acknowledged changes, ${rotations} of which replaced all blocks; ${searches} searches, each checked against its version; ${unavailable} calls failed for the time being; at most ${silence.toFixed(1)} s without an answer (and the machine stood still for up to ${stall.toFixed(1)} s); whole again after ${healed.toFixed(1)} s`,
    );
    return true;
  } catch (error) {
    console.log(`${at()}  WRONG: ${error instanceof Error ? error.stack : error}`);
    return false;
  } finally {
    await cluster.close();
  }
}
