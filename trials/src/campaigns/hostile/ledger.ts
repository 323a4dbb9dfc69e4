// What happened in a campaign, phase by phase: the tables, and the verdict.

import { columns } from '@hers/paper/lab/report';
import { ATTACKS } from './attacks.ts';
import type { Done } from './honest-child.ts';
import { addTally, emptyTally, type Tally } from './tally.ts';

/** What it may keep at the end, above what it had at the beginning. */
const KEPT_BYTES = 128 * 2 ** 20;
const MOST_SLOWER = 10;
/** About how often the honest client searches when undisturbed. */
const EVERY_MS = 60;
const MOST_SHOWN = 12;
const MOST_LETTERS = 600;

const TITLES = {
  quiet: 'quiet',
  after: 'afterwards',
  between: 'while the server was replaced',
  down: 'going down under slow clients',
};

export interface Phase {
  /** Nothing counts while a server is being replaced. */
  readonly kind: 'alone' | 'mixed' | keyof typeof TITLES;
  readonly attacks: readonly string[];
  readonly began: number;
  readonly before: number;
  peak: number;
  share: number;
  heldMs: Record<string, number>;
  tallies: Record<string, Tally>;
  died?: string;
}

export interface Allowed {
  /** Of memory. */
  readonly bytes: number;
  readonly graceSeconds: number;
}

export interface Reported {
  readonly seed: number;
  readonly allowed: Allowed | undefined;
  readonly said: readonly string[];
}

export class Ledger {
  readonly phases: Phase[] = [];
  readonly done: Done[] = [];
  retries = 0;
  readonly atRest = { before: 0, after: 0 };
  readonly disk = { before: 0, after: 0 };
  /** How the server shut down when told to, and how many connections slow clients held. */
  down = { ms: 0, how: '', lines: 0 };

  begin(kind: Phase['kind'], attacks: readonly string[], bytes: number): Phase {
    const phase: Phase = {
      ...{ kind, attacks, before: bytes, peak: bytes, began: Date.now() },
      ...{ share: 0, heldMs: {}, tallies: {} },
    };
    this.phases.push(phase);
    return phase;
  }

  /** Searches of the honest client that began in such phases. */
  searches(...kinds: Phase['kind'][]): number {
    return this.#began(this.#of(...kinds)).length;
  }

  #began(phases: readonly Phase[]): number[] {
    return this.done.flatMap(({ what, began, ms }) => {
      const at = this.phases.findLast((phase) => phase.began <= began);
      return what === 'search' && at && phases.includes(at) ? [ms] : [];
    });
  }

  /**
   * How long searches took. A client that waits for an answer sends no other request. So that a
   * long stall does not count as one search, the searches it would have begun are added, one for
   * every `EVERY_MS` of it.
   */
  #searchesIn(phases: readonly Phase[]): number[] {
    const times: number[] = [];
    for (const ms of this.#began(phases)) for (let left = ms; left > 0; left -= EVERY_MS) times.push(left);
    return times.sort((a, b) => a - b);
  }

  #of(...kinds: Phase['kind'][]): Phase[] {
    return this.phases.filter(({ kind }) => kinds.includes(kind));
  }

  #rows(): string[][] {
    return ATTACKS.map(({ name }) => {
      const tally = emptyTally();
      for (const { tallies } of this.phases) if (tallies[name]) addTally(tally, tallies[name]);
      const alone = this.#of('alone').filter(({ attacks }) => attacks[0] === name);
      const held = Math.max(...this.phases.map(({ heldMs }) => heldMs[name] ?? 0));
      const statuses = Object.entries(tally.statuses).map(([status, count]) => `${status}×${count}`);
      const [phase] = alone;
      return [
        name,
        String(tally.sent),
        ...[tally.reset, tally.refused, tally.unanswered].map((count) => (count === 0 ? '·' : String(count))),
        held > 0 ? (held / 1000).toFixed(1) : '·',
        phase ? `${mb(phase.before)} → ${mb(phase.peak)}` : '',
        ...times(this.#searchesIn(alone)),
        statuses.join(' ') || '·',
        phase?.died ? `DIED (${phase.died})` : '',
      ];
    });
  }

  /**
   * Prints what happened; true if all is well. Time and memory are not judged if nothing is
   * `allowed`.
   */
  report(log: (line: string) => void, { seed, allowed, said }: Reported): boolean {
    const heads = ['attack', 'sent', 'reset', 'refused', 'unanswered', 'held s', 'alone: MB', 'p50 ms', 'p95', 'most'];
    const right = new Set([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    log(`\n${columns([[...heads, 'answers'], ...this.#rows()], right)}`);
    const mixed = this.#of('mixed').map((phase) => [
      phase.attacks.join(' + '),
      `${mb(phase.before)} → ${mb(phase.peak)}`,
      ...times(this.#searchesIn([phase])),
      phase.died ? `DIED (${phase.died})` : '',
    ]);
    log(`\n${columns([['mixture', 'MB', 'p50 ms', 'p95', 'most'], ...mixed], new Set([1, 2, 3, 4]))}`);
    const shares = this.#of('alone', 'mixed').map(({ share }) => share);
    const used = shares.reduce((sum, share) => sum + share, 0) / shares.length;
    log(`\nThe attackers used ${(100 * used).toFixed(0)} % of one core.`);
    log(`The gallery and its logs take ${mb(this.disk.after)} MB on disk, and ${mb(this.disk.before)} MB before.`);
    this.#tellHonest(log);
    const mistakes = said.filter((line) => line.includes('a bug in this server'));
    const verdicts = [
      ...this.#verdicts(),
      ...(allowed === undefined
        ? []
        : [...this.#measured(allowed), none('The server logged no mistake of its own.', mistakes)]),
    ];
    log('');
    for (const { isFine, line, details = [] } of verdicts) {
      log(`${isFine ? 'ok ' : 'NOT'}  ${line}`);
      for (const detail of details.slice(0, MOST_SHOWN)) log(`       ${detail.slice(0, MOST_LETTERS)}`);
      if (details.length > MOST_SHOWN) log(`       and ${details.length - MOST_SHOWN} more`);
    }
    const isFine = verdicts.every((verdict) => verdict.isFine);
    const words = isFine ? [] : said.filter((line) => !mistakes.includes(line));
    if (words.length > 0) log('\nThe server said:');
    for (const line of words.slice(0, MOST_SHOWN)) log(`  ${line.slice(0, MOST_LETTERS)}`);
    log(`\n${isFine ? 'All as it should be' : 'NOT as it should be'}; seed ${seed} (--seed ${seed} repeats it).`);
    return isFine;
  }

  #tellHonest(log: (line: string) => void): void {
    const rows = [['honest client', 'searches', 'p50 ms', 'p95', 'most']];
    const lines: [string, Phase['kind'][]][] = [
      ['quiet', ['quiet']],
      ['attacked', ['alone', 'mixed']],
      ['afterwards', ['after']],
    ];
    for (const [name, kinds] of lines)
      rows.push([name, String(this.searches(...kinds)), ...times(this.#searchesIn(this.#of(...kinds)))]);
    log(`\n${columns(rows, new Set([1, 2, 3, 4]))}`);
    const others = this.done.filter(({ what }) => what !== 'search').length;
    log(`and ${others} reads and changes; ${this.retries} attempts were repeated`);
  }

  #verdicts(): Verdict[] {
    const faults: string[] = [];
    for (const { tallies, attacks } of this.phases)
      for (const [name, tally] of Object.entries(tallies))
        for (const [what, count] of Object.entries(tally.faults))
          faults.push(`${what} (${count}×, ${name}${attacks.length > 1 ? ' in a mixture' : ''})`);
    const of = (pattern: RegExp) => faults.filter((line) => pattern.test(line));
    const died = this.phases.filter((phase) => phase.died).map((phase) => `${titleOf(phase)}: ${phase.died}`);
    const wrong = this.done.flatMap((done) => (done.wrong ? [`${done.what}: ${done.wrong}`] : []));
    const failed = this.done.flatMap((done) => this.#failure(done) ?? []);
    const searched = this.searches('after');
    return [
      none('The process lived.', died),
      none('No answer of 5xx.', of(/^5\d\d /)),
      none('Every error is {code, message, retryable}.', of(/untyped|not HTTP/)),
      none('Nobody was let in who may not.', of(/^somebody/)),
      none('Every answer to the honest client was right.', wrong),
      none('Nothing that the honest client asked for failed.', failed),
      { isFine: searched > 0, line: `It was served when all was over (${searched} searches).` },
      {
        isFine: this.down.how === 'exit 0',
        line: `Told to end, the server ended (${this.down.how}) with ${this.down.lines} slow clients on its lines.`,
      },
    ];
  }

  #failure({ what, began, failed }: Done): string | undefined {
    const phase = this.phases.findLast((each) => each.began <= began);
    if (failed === undefined || phase?.kind === 'between') return undefined;
    return `${what} during ${phase && titleOf(phase)}: ${failed}`;
  }

  /** What depends on the machine. */
  #measured(allowed: Allowed): Verdict[] {
    const p95 = (...kinds: Phase['kind'][]) => quantile(this.#searchesIn(this.#of(...kinds)), 0.95);
    const [quiet, attacked, after] = [p95('quiet'), p95('alone', 'mixed'), p95('after')];
    const peak = this.#of('quiet', 'alone', 'mixed', 'after', 'down').reduce((most, phase) =>
      phase.peak > most.peak ? phase : most,
    );
    // Phases that started above the limit, and did not add to it, are not to blame.
    const over = this.#of('quiet', 'alone', 'mixed', 'after', 'down').filter(
      (phase) => phase.peak > allowed.bytes && phase.peak > phase.before + 16e6,
    );
    const slow = this.#of('alone', 'mixed')
      .map((phase) => ({ phase, ms: quantile(this.#searchesIn([phase]), 0.95) }))
      .filter(({ ms }) => ms >= MOST_SLOWER * quiet);
    const grace = allowed.graceSeconds;
    const { before, after: kept } = this.atRest;
    return [
      {
        isFine: peak.peak < allowed.bytes,
        line: `Memory stayed below ${mb(allowed.bytes)} MB: ${mb(peak.peak)} MB at most (${titleOf(peak)}).`,
        details: over.map((phase) => `${titleOf(phase)}: ${mb(phase.before)} → ${mb(phase.peak)} MB`),
      },
      {
        isFine: kept < before + KEPT_BYTES,
        line: `At rest it holds ${mb(kept)} MB, and ${mb(before)} MB before the attack; ${mb(KEPT_BYTES)} MB more are allowed.`,
      },
      {
        isFine: attacked < MOST_SLOWER * quiet,
        line: `The honest client's p95: ${attacked.toFixed(0)} ms attacked, ${quiet.toFixed(0)} ms quiet; ${MOST_SLOWER} times that are allowed.`,
        details: slow.map(({ phase, ms }) => `${titleOf(phase)}: ${ms.toFixed(0)} ms`),
      },
      {
        isFine: after < 3 * quiet,
        line: `Its p95 afterwards: ${after.toFixed(0)} ms; three times that of before are allowed.`,
      },
      {
        isFine: this.down.ms < 1000 * (grace + 3),
        line: `The server ended ${(this.down.ms / 1000).toFixed(1)} s after it was told to; its grace are ${grace} s.`,
      },
    ];
  }
}

interface Verdict {
  readonly isFine: boolean;
  readonly line: string;
  readonly details?: readonly string[];
}

export const titleOf = ({ kind, attacks }: Phase): string =>
  kind === 'alone' || kind === 'mixed' ? attacks.join(' + ') : TITLES[kind];

/** Fine if there is nothing to report. */
const none = (line: string, details: readonly string[]): Verdict => ({ isFine: details.length === 0, line, details });

export const mb = (bytes: number): string => (bytes / 1e6).toFixed(0);

function quantile(sorted: readonly number[], share: number): number {
  return sorted.length === 0
    ? Number.POSITIVE_INFINITY
    : sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

const times = (sorted: readonly number[]) =>
  sorted.length === 0 ? ['·', '·', '·'] : [0.5, 0.95, 1].map((share) => quantile(sorted, share).toFixed(0));
