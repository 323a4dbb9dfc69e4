// The outcomes of all cases, as tables.

import { columns } from '@hers/paper/lab/report';
import { GALLERIES } from './galleries.ts';
import { HARMS } from './harm.ts';
import { KINDS } from './inventory.ts';
import { MENDED, MET, type Outcome } from './trial.ts';

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
