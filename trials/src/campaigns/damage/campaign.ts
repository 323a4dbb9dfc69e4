// Damages galleries at random, one or two files at a time, in every kind of file and every way we
// could think of. A client must then see correct data or an error. Nothing may be lost silently,
// deleted, or hang. A repair must restore every acknowledged record outside the damaged bytes.
//
// losses.ts lists what may be lost, and what else is accepted. Every case runs in another process
// with a time limit, from a seed that makes the same choices again. Ids and nonces are random all
// the same, so the folder of a failed case is kept.

import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { columns } from '@hers/paper/lab/report';
import { GALLERIES, makeGalleries } from './galleries.ts';
import { HARMS, shown } from './harm.ts';
import { KINDS } from './inventory.ts';
import { MENDED, MET, type Outcome } from './trial.ts';
import type { Told } from './trial-child.ts';

const CASE_MS = 40_000;
const PROGRESS_MS = 5000;
const MOST_SHOWN = 20;
const SHARED_MEMORY = '/dev/shm';

export interface DamageOptions {
  readonly cases: number;
  /** The same seed makes the same galleries, and damages them in the same ways. */
  readonly seed: number;
  readonly only?: number | undefined;
  /** With small galleries. */
  readonly isShort?: boolean;
  readonly log?: (line: string) => void;
  readonly onProgress?: (line: string) => void;
}

export async function damage(options: DamageOptions): Promise<boolean> {
  const { cases, seed, only, isShort = false, log = console.log, onProgress = console.error } = options;
  const folder = mkdtempSync(join(roomForFiles(), 'hers-damage-'));
  try {
    await makeGalleries(folder, seed, isShort);
    const numbers = only === undefined ? Array.from({ length: cases }, (_, i) => i) : [only];
    const campaign = new Campaign(folder, seed, numbers, log, onProgress);
    await campaign.run();
    campaign.report();
    return campaign.isFine;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Stores sync every write, which is slow on a disk and proves nothing here. */
function roomForFiles(): string {
  try {
    accessSync(SHARED_MEMORY, constants.W_OK);
    return process.env.TMPDIR ?? SHARED_MEMORY;
  } catch {
    return tmpdir();
  }
}

class Campaign {
  readonly #folder: string;
  readonly #seed: number;
  readonly #left: number[];
  readonly #cases: number;
  readonly #log: (line: string) => void;
  readonly #onProgress: (line: string) => void;
  readonly #tally = new Tally();
  readonly #began = performance.now();
  #done = 0;
  #told = performance.now();
  #slowest = 0;

  constructor(
    folder: string,
    seed: number,
    numbers: readonly number[],
    log: (line: string) => void,
    onProgress: (line: string) => void,
  ) {
    this.#folder = folder;
    this.#seed = seed;
    this.#left = [...numbers];
    this.#cases = numbers.length;
    this.#log = log;
    this.#onProgress = onProgress;
  }

  get isFine(): boolean {
    return this.#tally.failed.length === 0;
  }

  async run(): Promise<void> {
    const hands = Math.min(availableParallelism(), this.#left.length, 8);
    await Promise.all(Array.from({ length: hands }, (_, i) => this.#work(i)));
  }

  /** Beside the galleries, which are removed at the end of the run. */
  get #kept(): string {
    return join(tmpdir(), `hers-damage-failed-${this.#seed}`);
  }

  /** Runs cases one after the other, in a child that is replaced if a case ends it. */
  async #work(hand: number): Promise<void> {
    for (let life = 0; this.#left.length > 0; life++) {
      const room = join(this.#folder, `room-${hand}-${life}`);
      const child = fork(fileURLToPath(new URL('./trial-child.ts', import.meta.url)), [
        this.#folder,
        String(this.#seed),
        room,
        this.#kept,
      ]);
      try {
        await answer(child);
        await this.#serve(child, room);
      } finally {
        child.kill('SIGKILL');
        rmSync(room, { recursive: true, force: true });
      }
    }
  }

  async #serve(child: ChildProcess, room: string): Promise<void> {
    for (let number = this.#left.shift(); number !== undefined; number = this.#left.shift()) {
      let last: Outcome | undefined;
      child.send(number);
      try {
        const told = await answer(child, (so) => {
          last = so;
        });
        this.#take((told as { outcome: Outcome }).outcome);
      } catch (error) {
        const kept = `${this.#kept}-${number}`;
        rmSync(kept, { recursive: true, force: true });
        spawnSync('cp', ['-a', join(room, `case-${number}`), kept]);
        const where = last ? ` (${last.step})` : '';
        this.#take({ ...(last ?? nothingYet(number)), failures: [`${(error as Error).message}${where}`] });
        return;
      }
    }
  }

  #take(outcome: Outcome): void {
    const { failures } = outcome;
    this.#tally.add(outcome);
    this.#done++;
    this.#slowest = Math.max(this.#slowest, outcome.milliseconds);
    if (failures.length > 0) this.#log(this.#described(outcome));
    if (performance.now() - this.#told < PROGRESS_MS) return;
    this.#told = performance.now();
    this.#onProgress(`${this.#done} of ${this.#cases} cases, ${this.#tally.failed.length} failed, seed ${this.#seed}`);
  }

  #described({ number, gallery, harms, failures, said }: Outcome): string {
    const folder = `${this.#kept}-${number}`;
    return [
      `FAILED: case ${number} (--seed ${this.#seed} --case ${number}), gallery ${gallery}${existsSync(folder) ? `, kept at ${folder}` : ''}`,
      ...harms.map((harm) => `  ${shown(harm)}`),
      ...failures.map((failure) => `  → ${failure}`),
      ...said.slice(0, MOST_SHOWN).map((line) => `  said: ${line}`),
    ].join('\n');
  }

  report(): void {
    const log = this.#log;
    log(`\n${this.#tally.table()}`);
    const seconds = Math.round((performance.now() - this.#began) / 1000);
    log(
      `\n${this.#done} cases in ${seconds} s, the slowest ${(this.#slowest / 1000).toFixed(1)} s; seed ${this.#seed}`,
    );
    if (!this.isFine) log('NOT as it should be.');
    else log('Nothing wrong came without an error, and nothing was lost that was not damaged.');
  }
}

const nothingYet = (number: number): Outcome => ({
  number,
  gallery: 'unknown',
  harms: [],
  met: 'harmless',
  failures: [],
  said: [],
  step: '',
  lost: 0,
  milliseconds: CASE_MS,
});

/** The last message of a child; progress messages are handled on the way. */
function answer(child: ChildProcess, onStep: (so: Outcome) => void = () => {}): Promise<Told> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer);
      child.off('message', onMessage).off('exit', onExit);
      settle();
    };
    const onMessage = (told: Told) => {
      if ('so' in told) onStep(told.so);
      else end(() => resolve(told));
    };
    const onExit = (code: number | null, signal: string | null) =>
      end(() => reject(new Error(`it ended the process (${signal ?? code})`)));
    const timer = setTimeout(() => end(() => reject(new Error(`it hung: no end after ${CASE_MS / 1000} s`))), CASE_MS);
    child.on('message', onMessage).on('exit', onExit);
  });
}

// The outcomes of all cases, as tables.

const HEADS = [
  'cases',
  'harmless',
  'refused at open',
  'open for reading',
  'said at first use',
  'said by scrub only',
  'whole',
  'mended',
  'repaired fully',
  'with losses',
  'refused (admitted)',
  'FAILED',
];

export class Tally {
  readonly #outcomes: Outcome[] = [];

  add(outcome: Outcome): void {
    this.#outcomes.push(outcome);
  }

  get failed(): Outcome[] {
    return this.#outcomes.filter(({ failures }) => failures.length > 0);
  }

  /**
   * By gallery, by kind of file, by kind of damage; cases with two faults have rows of their own.
   */
  table(): string {
    const single = this.#outcomes.filter(({ harms }) => harms.length === 1);
    const rows = [
      ['', ...HEADS],
      ['all', ...this.#row(this.#outcomes)],
      [''],
      ...GALLERIES.map((name) => [name, ...this.#row(this.#outcomes.filter(({ gallery }) => gallery === name))]),
      [''],
      ...KINDS.map((kind) => [kind, ...this.#row(single.filter(({ harms }) => harms[0].kind === kind))]),
      [''],
      ...HARMS.map((name) => [name, ...this.#row(single.filter(({ harms }) => harms[0].name === name))]),
      [''],
      ['two at once', ...this.#row(this.#outcomes.filter(({ harms }) => harms.length > 1))],
    ];
    const width = HEADS.length + 1;
    const full = rows.map((row) => [...row, ...Array.from({ length: width - row.length }, () => '')]);
    return columns(full, new Set(HEADS.map((_, i) => i + 1)));
  }

  #row(outcomes: readonly Outcome[]): string[] {
    const fine = outcomes.filter(({ failures }) => failures.length === 0);
    const counts = [
      outcomes.length,
      ...MET.map((met) => fine.filter((outcome) => outcome.met === met).length),
      ...MENDED.map((mended) => fine.filter((outcome) => outcome.mended === mended).length),
      outcomes.length - fine.length,
    ];
    return counts.map((count) => (count === 0 ? '·' : String(count)));
  }
}
