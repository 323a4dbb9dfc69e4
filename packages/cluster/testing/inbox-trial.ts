// Devices post and a keeper takes and drops, while nodes and servers of NATS are killed. What was
// acknowledged is taken, under the number that was acknowledged, and what was dropped stays away.

import assert from 'node:assert/strict';
import { HttpService } from '@hers/client/transport';
import { HersError } from '@hers/service';
import { Samples, sampleEnvelope } from '@hers/service/samples';
import type { TestCluster } from './cluster.ts';

export interface InboxTrial {
  readonly kills: number;
  /** Posts that were acknowledged, and calls that failed because something could not be reached. */
  readonly posts: number;
  readonly unavailable: number;
}

const DEVICES = 3;
const HEAL_MS = 120_000;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const passes = (error: unknown) =>
  error instanceof HersError && ['UNAVAILABLE', 'TIMED_OUT', 'OVERLOADED', 'CLOSED'].includes(error.code);

/** Ends when so many posts were acknowledged, and so many processes killed. */
export async function inboxTrial(
  cluster: TestCluster,
  { posts, kills, seed }: { readonly posts: number; readonly kills: number; readonly seed: number },
): Promise<InboxTrial> {
  const samples = new Samples(seed);
  const { urls } = cluster;
  const service = (first: number) =>
    new HttpService([...urls.slice(first % urls.length), ...urls.slice(0, first % urls.length)], {
      token: cluster.token,
    });
  const services = Array.from({ length: DEVICES + 1 }, (_, i) => service(i));
  const [keeper, ...devices] = services;
  let [killed, unavailable, acknowledged] = [0, 0, 0];
  /** Until it answers. */
  const retry = async <T>(call: () => Promise<T>): Promise<T> => {
    for (const until = performance.now() + HEAL_MS; ; await pause(20))
      try {
        return await call();
      } catch (error) {
        if (!passes(error) || performance.now() > until) throw error;
        unavailable++;
      }
  };
  const id = samples.id();
  const bytes = new TextEncoder().encode('trial');
  await retry(() => keeper.createCollection('trial', { id, descriptor: bytes, manifest: bytes }));
  const numbers = new Map<string, number>();
  const isDone = () => acknowledged >= posts && killed >= kills;
  let posting = DEVICES;
  const post = async (device: number) => {
    while (!isDone()) {
      const body = samples.bytes(60);
      const envelope = sampleEnvelope({ collection: id, nonce: samples.id(), body, device });
      numbers.set(hex(envelope), await retry(() => devices[device].post('trial', envelope)));
      acknowledged++;
    }
    posting--;
  };
  const seen = new Map<number, string>();
  const dropped = new Set<number>();
  const keep = async () => {
    for (let last = 0; ; await pause(10)) {
      const ends = posting === 0;
      const gone = new Set(dropped);
      const all = await retry(() => Array.fromAsync(keeper.takeInbox('trial', { limit: 1000 })));
      for (const { number } of all) assert.ok(!gone.has(number), `item ${number} came back`);
      // A keeper looks behind the last number that it knows, and nowhere else.
      const items = all.filter(({ number }) => number > last);
      for (const { number, envelope } of all)
        assert.ok(number > last || seen.get(number) === hex(envelope), `item ${number} came late, or is another`);
      for (const { number, envelope } of items) seen.set(number, hex(envelope));
      last = items.at(-1)?.number ?? last;
      const some = all.map(({ number }) => number).slice(0, 1 + samples.below(20));
      await retry(() => keeper.dropInbox('trial', some));
      for (const number of some) dropped.add(number);
      if (ends && all.length === 0) return;
    }
  };
  const kill = async () => {
    while (killed < kills) {
      const parts = samples.below(4) === 0 ? cluster.nats : cluster.nodes;
      const part = parts[samples.below(parts.length)];
      await pause(samples.below(400));
      await part.kill();
      killed++;
      await pause(samples.below(400));
      await part.start();
    }
  };
  try {
    await Promise.all([keep(), kill(), ...devices.map((_, device) => post(device))]);
    for (const [envelope, number] of numbers)
      assert.equal(seen.get(number), envelope, `item ${number} was acknowledged, and never came`);
    assert.equal(new Set(numbers.values()).size, numbers.size);
    return { kills: killed, posts: acknowledged, unavailable };
  } finally {
    await retry(() => keeper.deleteCollection('trial')).catch(() => {});
    await Promise.all(services.map((each) => each.close()));
  }
}
