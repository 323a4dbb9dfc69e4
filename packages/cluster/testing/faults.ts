// Everything that can break does, one thing after the other, while clients change and search a
// collection. `history.ts` decides whether they were always told the truth. In the end everything
// has healed by itself: nothing lags, nothing is damaged, all that was acknowledged is on every
// node.

import { open, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HttpService } from '@hers/client/transport';
import { HersError, type Service } from '@hers/service';
import { Samples } from '@hers/service/samples';
import { openStore } from '@hers/store';
import { type ClusterStatus, clusterStatus } from '../src/status.ts';
import { HttpShards } from '../src/transport.ts';
import type { Part, TestCluster } from './cluster.ts';
import { ChangeHistory } from './history.ts';

const FAULTS = [
  'kill a node',
  'kill a server of NATS',
  'pause a node',
  'pause a server of NATS',
  'wipe a disk',
  'fill a disk',
  'flip a byte',
  'damage a catalogue',
  'cut the network',
  'cut off from NATS',
  'cut off from all',
  'lose NATS',
  'turn a clock',
  'grow',
  'drain',
] as const;
export type Fault = (typeof FAULTS)[number];

export interface FaultOptions {
  readonly seconds: number;
  readonly seed: number;
  /** Which of them; all by default that the cluster allows. */
  readonly faults?: readonly Fault[];
  /** It goes on until there were so many of each, however slow the machine is. */
  readonly least?: { readonly kills: number; readonly changes: number; readonly searches: number };
  /** How long NATS is gone, in seconds; 60 by default. */
  readonly natsSeconds?: number;
  readonly onEvent?: (event: string) => void;
}

export interface FaultTrial {
  readonly faults: Readonly<Record<string, number>>;
  /** Processes that were ended by SIGKILL. */
  readonly kills: number;
  /** Changes that were acknowledged, and how many of them replaced all blocks. */
  readonly changes: number;
  readonly rotations: number;
  /** Searches that were answered, each checked against the version that it was of. */
  readonly searches: number;
  /** Calls that failed because something could not be reached. */
  readonly unavailable: number;
  /** The longest time without an answer to a search, in seconds. */
  readonly silence: number;
  /** The longest time for which the machine gave this process nothing to run on, in seconds. */
  readonly stall: number;
  /** Seconds until everything was whole again after the last fault. */
  readonly healed: number;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** Searches may be late while a node is found out to be silent, and not for longer. */
const LONGEST_SILENCE_MS = 30_000;
const TICK_MS = 50;
const LONGEST_TICK_MS = 250;
const HEAL_MS = 120_000;

export async function faultTrial(cluster: TestCluster, options: FaultOptions): Promise<FaultTrial> {
  const { seconds, seed, natsSeconds = 60, onEvent = () => {} } = options;
  const { small } = cluster;
  const random = new Samples(seed);
  const services = cluster.urls.map(
    (_, first): Service =>
      new HttpService([...cluster.urls.slice(first), ...cluster.urls.slice(0, first)], { token: cluster.token }),
  );
  const connect = (url: string) => new HttpShards(url, { token: cluster.nodeToken });
  let turn = 0;
  const history = new ChangeHistory(seed, () => services[turn++ % services.length]);
  await history.begin();
  const counts: Record<string, number> = {};
  let kills = 0;
  let silence = 0;
  let stall = 0;

  const pick = <T>(all: readonly T[]): T => all[random.below(all.length)];
  const running = () => cluster.nodes.filter((part) => part.isRunning);
  const numberOf = (part: Part) => cluster.nodes.indexOf(part);
  const folderOf = (part: Part) => join(cluster.folder, part.name);
  const kill = async (part: Part) => {
    await part.kill();
    kills++;
  };
  const stopped = async (part: Part, ms: number) => {
    part.signal('SIGSTOP');
    await pause(ms);
    part.signal('SIGCONT');
  };
  const cut = async (cables: readonly { readonly proxy: TestCluster['proxies'][number]['proxy'] }[]) => {
    for (const { proxy } of cables) proxy.cut();
    await pause(1000 + random.below(7000));
    for (const { proxy } of cables) proxy.mend();
  };
  const status = async (): Promise<ClusterStatus | undefined> => {
    for (const part of running()) {
      const found = await clusterStatus(cluster.nodeUrls[numberOf(part)], connect).catch(() => undefined);
      if (found) return found;
    }
    return undefined;
  };
  const isWhole = async (): Promise<boolean> => {
    const now = await status();
    return (
      now !== undefined &&
      now.moves.length === 0 &&
      now.collections.every(({ degraded }) => degraded === 0) &&
      now.nodes.every(({ error, lagging }) => error === undefined && lagging === 0)
    );
  };
  const whole = async (what: string): Promise<number> => {
    const began = performance.now();
    while (!(await isWhole())) {
      if (!history.isRunning) return 0;
      if (performance.now() - began > HEAL_MS)
        throw new Error(`not whole ${HEAL_MS / 1000} s after: ${what}; ${JSON.stringify(await status())}`);
      await pause(100);
    }
    return (performance.now() - began) / 1000;
  };

  const faults: Record<Fault, () => Promise<void>> = {
    'kill a node': async () => {
      const node = pick(running());
      await kill(node);
      await pause(100 + random.below(1500));
      await node.start();
    },
    'kill a server of NATS': async () => {
      const server = pick(cluster.nats);
      await kill(server);
      await pause(100 + random.below(1500));
      await server.start();
    },
    'pause a node': () => stopped(pick(running()), 500 + random.below(5000)),
    'pause a server of NATS': () => stopped(pick(cluster.nats), 500 + random.below(5000)),
    'wipe a disk': async () => {
      const node = pick(running().filter((part) => !small.has(numberOf(part))));
      await kill(node);
      await rm(folderOf(node), { recursive: true, force: true });
      await node.start();
    },
    'fill a disk': async () => {
      const node = cluster.nodes[pick([...small])];
      const filler = join(folderOf(node), 'filler');
      for (let bytes = 2 ** 20; bytes >= 4096; bytes /= 2)
        while (
          await writeFile(filler, Buffer.alloc(bytes), { flag: 'a' }).then(
            () => true,
            () => false,
          )
        );
      await pause(2000 + random.below(2000));
      await rm(filler);
    },
    'flip a byte': async () => {
      const node = pick(running());
      const file = await flipByte(folderOf(node), random);
      if (file === undefined) return;
      onEvent(`in ${node.name}/${file}`);
      const began = performance.now();
      while ((await damageOf(folderOf(node))) > 0) {
        if (performance.now() - began > HEAL_MS) throw new Error(`${node.name}/${file} was not mended`);
        await pause(300);
      }
    },
    'damage a catalogue': async () => {
      const node = pick(running().filter((part) => !small.has(numberOf(part))));
      // In order, so that nothing is left in the log, which would hide the damage.
      await node.stop();
      await damageCatalogue(folderOf(node), random);
      await node.start();
    },
    'cut the network': async () => {
      const a = pick(running());
      const b = pick(running().filter((part) => part !== a));
      const between = cluster.proxies.filter(({ from, to }) =>
        [a, b].every((part) => [from, to].includes(numberOf(part))),
      );
      await cut(between);
    },
    'cut off from NATS': async () => {
      const node = numberOf(pick(running()));
      await cut(cluster.natsProxies.filter(({ from }) => from === node));
    },
    'cut off from all': async () => {
      const node = numberOf(pick(running()));
      await cut([
        ...cluster.natsProxies.filter(({ from }) => from === node),
        ...cluster.proxies.filter(({ from, to }) => [from, to].includes(node)),
      ]);
    },
    'lose NATS': async () => {
      for (const server of cluster.nats) await kill(server);
      const before = history.searches;
      await pause(1000 * natsSeconds);
      if (history.isRunning && history.searches === before) throw new Error('no search was answered without NATS');
      for (const server of cluster.nats) await server.start();
    },
    'turn a clock': async () => pick(running()).signal('SIGUSR2'),
    grow: async () => {
      const node = cluster.nodes.find((part) => !part.isRunning);
      await node?.start();
    },
    // Down to as many as there are replicas; the emptied node is stopped and joins again later.
    drain: async () => {
      if (running().length <= 3) return;
      const node = pick(running());
      const asked = connect(cluster.nodeUrls[numberOf(pick(running()))]);
      try {
        await asked.drain(node.name, true);
        await whole('a drain began');
        for (;;) {
          const now = await status();
          if (now?.nodes.find(({ name }) => name === node.name)?.shards === 0) break;
          await pause(100);
        }
        await asked.drain(node.name, false);
      } finally {
        await asked.close();
      }
    },
  };

  const possible = (options.faults ?? FAULTS).filter(
    (fault) =>
      (fault !== 'fill a disk' || small.size > 0) &&
      (!fault.startsWith('cut ') || cluster.proxies.length > 0) &&
      (!['grow', 'drain'].includes(fault) || cluster.nodes.length > 3),
  );
  const breaking = async () => {
    // Each once, in a random order, and then any.
    let left: Fault[] = [];
    while (history.isRunning) {
      if (left.length === 0) left = [...possible];
      const [fault] = left.splice(random.below(left.length), 1);
      onEvent(fault);
      counts[fault] = (counts[fault] ?? 0) + 1;
      await faults[fault]();
      // One thing at a time: with three replicas, a majority is always there and current.
      await whole(fault);
      await pause(random.below(300));
    }
  };
  const began = performance.now();
  const { least = { kills: 0, changes: 0, searches: 0 } } = options;
  const isEnough = () => kills >= least.kills && history.changes >= least.changes && history.searches >= least.searches;
  // Counted in ticks: none come while the machine itself stands still, and no answer can.
  const watching = async () => {
    let [last, answered, gap] = [performance.now(), history.last.search, 0];
    while (history.isRunning) {
      if (performance.now() - began >= 1000 * seconds && isEnough()) history.stop();
      await pause(TICK_MS);
      const now = performance.now();
      const passed = Math.min(now - last, LONGEST_TICK_MS);
      stall = Math.max(stall, now - last);
      last = now;
      gap = history.last.search === answered ? gap + passed : passed;
      answered = history.last.search;
      silence = Math.max(silence, gap);
      if (gap > LONGEST_SILENCE_MS)
        throw new Error(`no search was answered for ${Math.round(gap / 1000)} seconds: ${history.refusal}`);
    }
  };

  const fail = (error: unknown) => {
    history.stop();
    throw error;
  };
  let healed = 0;
  try {
    await Promise.all([history.run().catch(fail), breaking().catch(fail), watching().catch(fail)]);
    for (const part of [...cluster.nats, ...cluster.nodes]) part.signal('SIGCONT');
    for (const server of cluster.nats) await server.start();
    for (const node of cluster.nodes) await node.start();
    const began = performance.now();
    while (!(await isWhole())) {
      if (performance.now() - began > HEAL_MS) throw new Error(`it does not heal: ${JSON.stringify(await status())}`);
      await pause(100);
    }
    healed = (performance.now() - began) / 1000;
    // All of it is there, whichever node is asked.
    for (const url of cluster.urls) {
      const service = new HttpService(url, { token: cluster.token });
      await history.check(service);
      await service.close();
    }
    await services[0].deleteCollection(ChangeHistory.COLLECTION).catch((error) => {
      // An attempt that failed half way has deleted it.
      if (!(error instanceof HersError && error.code === 'NOT_FOUND')) throw error;
    });
  } finally {
    history.end();
    await Promise.all(services.map((service) => service.close()));
  }
  const { changes, rotations, searches, unavailable } = history;
  const inSeconds = { silence: silence / 1000, stall: stall / 1000, healed };
  return { faults: counts, kills, changes, rotations, searches, unavailable, ...inSeconds };
}

/** Flips one bit of one byte somewhere in the content of a folder. */
async function flipByte(folder: string, random: Samples): Promise<string | undefined> {
  const files: string[] = [];
  for (const kind of ['blocks', 'segments', 'vault'])
    for (const file of await readdir(join(folder, kind)).catch(() => [])) files.push(join(kind, file));
  for (let tries = 10; tries > 0 && files.length > 0; tries--) {
    const file = files[random.below(files.length)];
    try {
      const { size } = await stat(join(folder, file));
      if (size === 0) continue;
      const handle = await open(join(folder, file), 'r+');
      try {
        const byte = Buffer.alloc(1);
        const at = random.below(size);
        await handle.read(byte, 0, 1, at);
        byte[0] ^= 1 << random.below(8);
        await handle.write(byte, 0, 1, at);
        return `${file}, byte ${at} of ${size}`;
      } finally {
        await handle.close();
      }
    } catch {} // It was removed meanwhile.
  }
  return undefined;
}

/** Overwrites bytes of some pages of a catalogue. */
async function damageCatalogue(folder: string, random: Samples): Promise<void> {
  const handle = await open(join(folder, 'catalogue.db'), 'r+');
  try {
    const { size } = await handle.stat();
    for (let i = 0; i < 4; i++) await handle.write(random.bytes(64), 0, 64, random.below(size - 64));
  } finally {
    await handle.close();
  }
}

/** Files that are damaged. */
async function damageOf(folder: string): Promise<number> {
  try {
    const store = await openStore(folder, { mode: 'read' });
    try {
      let damaged = 0;
      for await (const { damage } of store.scrub({ threads: 1 })) if (damage) damaged++;
      return damaged;
    } finally {
      await store.close();
    }
  } catch {
    return 1; // It changes too fast to be read. Once more.
  }
}
