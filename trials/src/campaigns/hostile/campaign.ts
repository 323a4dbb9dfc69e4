// A server under attack while it serves one honest client: malformed requests, slow clients, floods
// and bombs, each alone and then mixed. The server must never answer 5xx, never admit a client
// without permission, and type every error. The process must survive, and its memory must stay
// within its limit. The honest client must get right answers, in a time not too far from normal.
//
// Server, honest client and attackers are separate processes. They share the cores: the attackers
// take at most half of one. Choices follow from the seed; their order in time does not.

import { type ChildProcess, fork } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LIMITS } from '@hers/server';
import { ServiceProcess } from '../../service-process.ts';
import { Dice } from '../cheating/dice.ts';
import type { Order, Told } from './attacker-child.ts';
import { ATTACKS, LASTING } from './attacks.ts';
import type { HonestOrder, HonestTold } from './honest-child.ts';
import { Ledger, mb, type Phase, titleOf } from './ledger.ts';
import { makeSpoils, makeTokens, NAMES } from './stage.ts';

/**
 * What a server holds besides bodies: the program, the maps of its records, buffers of the system.
 */
const OWN_BYTES = 100e6;
const SAMPLE_MS = 100;
/** As Node chooses it on a machine of two gigabytes, for which the limits are made. */
const HEAP_MIB = 1024;
const LATE_MS = 60_000;
const MIXED = 3;

/** As a share of the available time. */
const SHARES = { quiet: 0.1, alone: 0.6, mixed: 0.25, after: 0.05 };

export interface HostileOptions {
  readonly seconds: number;
  /** The same seed makes the same choices. */
  readonly seed: number;
  /** With a small gallery and small limits; time and memory are not judged. */
  readonly isShort?: boolean;
  readonly log?: (line: string) => void;
  readonly onProgress?: (line: string) => void;
}

/** True if nothing was wrong. */
export async function hostileClients(options: HostileOptions): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-hostile-'));
  const campaign = new Campaign(folder, options);
  try {
    await campaign.run();
    return await campaign.report();
  } finally {
    await campaign.end();
    await rm(folder, { recursive: true, force: true });
  }
}

class Campaign {
  readonly #folder: string;
  readonly #options: HostileOptions;
  readonly #log: (line: string) => void;
  readonly #onProgress: (line: string) => void;
  readonly #limits: { readonly [name: string]: number };
  readonly #ledger = new Ledger();
  readonly #children: ChildProcess[] = [];
  #server!: ServiceProcess;
  #isStopping = false;
  #sampler: NodeJS.Timeout | undefined;

  constructor(folder: string, options: HostileOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#log = options.log ?? console.log;
    this.#onProgress = options.onProgress ?? console.error;
    this.#limits = options.isShort
      ? {
          ...{ bodyBytes: 6 * 2 ** 20, memoryBytes: 24 * 2 ** 20 },
          ...{ headerSeconds: 2, stallSeconds: 5, idleSeconds: 2, graceSeconds: 1 },
        }
      : { graceSeconds: 5 };
  }

  #limit(name: keyof typeof LIMITS): number {
    return this.#limits[name] ?? LIMITS[name].default;
  }

  get #mostBytes(): number {
    return this.#limit('memoryBytes') + OWN_BYTES;
  }

  async #serve(port = 0): Promise<void> {
    const server = await ServiceProcess.start(join(this.#folder, 'gallery'), {
      port,
      limits: this.#limits,
      tokens: join(this.#folder, 'tokens.json'),
      audit: join(this.#folder, 'audit.jsonl'),
      log: join(this.#folder, 'server.log'),
      heapMiB: HEAP_MIB,
    });
    this.#server = server;
    void server.ended.then(async (how) => {
      if (this.#isStopping) return;
      const phase = this.#ledger.phases.at(-1);
      if (phase) phase.died = `${how}${phase.died ? `, ${phase.died}` : ''}`;
      this.#onProgress(`the server died: ${how}`);
      await this.#serve(Number(new URL(server.url).port));
    });
  }

  #child(file: URL): ChildProcess {
    const child = fork(fileURLToPath(file));
    this.#children.push(child);
    return child;
  }

  async run(): Promise<void> {
    const { seconds, seed, isShort = false } = this.#options;
    const tokens = await makeTokens(join(this.#folder, 'tokens.json'));
    await this.#serve();
    const { url } = this.#server;
    const records = isShort ? 1500 : 20_000;
    this.#onProgress(`${records} records are enrolled by each side, seed ${seed}`);
    const bodyBytes = this.#limit('bodyBytes');
    const scale = isShort ? 0.3 : 1;
    const spoils = await makeSpoils({ url, folder: this.#folder, records, bodyBytes, seed, scale, tokens });
    const honest = this.#child(new URL('./honest-child.ts', import.meta.url));
    const order: HonestOrder = { url, token: tokens.honest, collection: NAMES.honest, records, seed };
    await tell(honest, order);
    const attackers = this.#child(new URL('./attacker-child.ts', import.meta.url));
    await tell(attackers, { spoils } satisfies Order);
    honest.on('message', (told: HonestTold) => {
      if ('done' in told) this.#ledger.done.push(told.done);
      if ('retry' in told) this.#ledger.retries++;
    });
    this.#sampler = setInterval(() => this.#sample(), SAMPLE_MS);
    honest.send('go' satisfies HonestOrder);
    await this.#phase('quiet', [], 1000 * seconds * SHARES.quiet);
    this.#ledger.atRest.before = await this.#resting();
    this.#ledger.disk.before = await bytesIn(this.#folder);
    await this.#fight(attackers);
    await this.#phase('after', [], 1000 * seconds * SHARES.after);
    // On a slow machine a search may take longer than that.
    for (let wait = 0; this.#ledger.searches('after') === 0 && wait < LATE_MS; wait += SAMPLE_MS)
      await sleep(SAMPLE_MS);
    await tell(honest, 'stop');
    this.#ledger.atRest.after = await this.#resting();
    this.#ledger.disk.after = await bytesIn(this.#folder);
    await this.#goDown(attackers);
  }

  async #resting(): Promise<number> {
    await Promise.race([this.#server.settled(), this.#server.ended]);
    return this.#server.bytes;
  }

  #sample(): void {
    const phase = this.#ledger.phases.at(-1);
    if (phase) phase.peak = Math.max(phase.peak, this.#server.bytes);
  }

  /**
   * Every attack alone, so that its effect is clear; then some of them together. If there is little
   * time, they run together from the beginning.
   */
  async #fight(attackers: ChildProcess): Promise<void> {
    const { seconds, seed, isShort = false } = this.#options;
    const dice = new Dice(seed, 5);
    const names = ATTACKS.map(({ name }) => name);
    let number = 1;
    if (isShort) {
      const groups = Math.ceil(names.length / MIXED);
      const ms = (1000 * seconds * (SHARES.alone + SHARES.mixed)) / groups;
      for (let i = 0; i < groups; i++) {
        const group = names.filter((_, at) => at % groups === i);
        await this.#phase('mixed', group, ms, attackers, number++);
      }
      return;
    }
    const weights = ATTACKS.reduce((sum, { weight = 1 }) => sum + weight, 0);
    for (const { name, weight = 1 } of ATTACKS)
      await this.#phase('alone', [name], (1000 * seconds * SHARES.alone * weight) / weights, attackers, number++);
    const rounds = Math.max(1, Math.round((seconds * SHARES.mixed) / 12));
    for (let round = 0; round < rounds; round++) {
      const mixture = new Set([dice.of(LASTING)]);
      while (mixture.size < MIXED) mixture.add(dice.of(names));
      await this.#phase('mixed', [...mixture], (1000 * seconds * SHARES.mixed) / rounds, attackers, number++);
    }
  }

  #begin(kind: Phase['kind'], attacks: readonly string[]): Phase {
    return this.#ledger.begin(kind, attacks, this.#server.bytes);
  }

  async #phase(
    kind: Phase['kind'],
    attacks: readonly string[],
    ms: number,
    attackers?: ChildProcess,
    number = 0,
  ): Promise<void> {
    const phase = this.#begin(kind, attacks);
    if (!attackers) {
      await sleep(ms);
    } else {
      const told = await tell(attackers, { attacks, ms, number } satisfies Order, ms + LATE_MS);
      Object.assign(phase, told as Extract<Told, { share: number }>);
    }
    const faults = Object.values(phase.tallies).flatMap((tally) => Object.keys(tally.faults));
    const notes = [
      `${mb(phase.before)} → ${mb(phase.peak)} MB`,
      ...(phase.died ? [`DIED: ${phase.died}`] : []),
      ...faults.slice(0, 3),
    ];
    this.#onProgress(`${titleOf(phase)}: ${notes.join('; ')}`);
    if (phase.peak > this.#mostBytes && attackers && !this.#options.isShort) await this.#replace(phase);
  }

  /**
   * A server that holds too much has already failed. The next attack gets a new one, so that its
   * own effect is clear.
   */
  async #replace(guilty: Phase): Promise<void> {
    this.#begin('between', []);
    this.#isStopping = true;
    const { how } = await this.#stop();
    if (how !== 'exit 0') guilty.died = `${how} when it was told to end`;
    await this.#serve(Number(new URL(this.#server.url).port));
    this.#isStopping = false;
    // The honest client has to find it first.
    const done = this.#ledger.done.length;
    for (let wait = 0; this.#ledger.done.length < done + 3 && wait < LATE_MS; wait += SAMPLE_MS) await sleep(SAMPLE_MS);
  }

  /** The server is told to shut down while slow clients hold connections. */
  async #goDown(attackers: ChildProcess): Promise<void> {
    this.#begin('down', LASTING);
    const { lines } = (await tell(attackers, { hold: LASTING } satisfies Order)) as { lines: number };
    this.#isStopping = true;
    this.#ledger.down = { ...(await this.#stop()), lines };
  }

  async #stop(): Promise<{ ms: number; how: string }> {
    const server = this.#server;
    const since = performance.now();
    const late = setTimeout(() => void server.kill(), 1000 * this.#limit('graceSeconds') + LATE_MS / 2);
    await server.stop();
    clearTimeout(late);
    return { ms: performance.now() - since, how: await server.ended };
  }

  async end(): Promise<void> {
    clearInterval(this.#sampler);
    this.#isStopping = true;
    for (const child of this.#children) child.kill('SIGKILL');
    await this.#server?.kill();
  }

  async report(): Promise<boolean> {
    const { seed, isShort } = this.#options;
    const allowed = isShort ? undefined : { bytes: this.#mostBytes, graceSeconds: this.#limit('graceSeconds') };
    return this.#ledger.report(this.#log, { seed, allowed, said: await this.#said() });
  }

  /** Its last output, and its bugs, each once. */
  async #said(): Promise<string[]> {
    const text = await readFile(join(this.#folder, 'server.log'), 'utf8').catch(() => '');
    const lines = text.split('\n').filter((line) => /FATAL|"level":"error"|Error:/.test(line));
    return [...new Set(lines.map((line) => line.replace(/"time":"[^"]*",|"reqId":"[^"]*",/g, '')))];
  }
}

async function bytesIn(folder: string): Promise<number> {
  let sum = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) sum += (await stat(join(entry.parentPath, entry.name)).catch(() => ({ size: 0 }))).size;
  return sum;
}

/** Sends an order and waits for its result; other messages on the way go elsewhere. */
function tell(child: ChildProcess, order: unknown, ms = 300_000): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer);
      child.off('message', onMessage).off('exit', onExit);
      settle();
    };
    const onMessage = (told: object) => {
      if (!('done' in told || 'retry' in told)) end(() => resolve(told));
    };
    const onExit = () => end(() => reject(new Error('a child of the campaign ended')));
    const timer = setTimeout(() => end(() => reject(new Error('a child of the campaign hung'))), ms);
    child.on('message', onMessage).on('exit', onExit);
    child.send(order as never);
  });
}
