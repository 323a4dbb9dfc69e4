// How matches are printed. In a pipe, each as it comes; on a terminal, as one table, whose columns
// need to know all of them.

import type { Match, SearchResult } from '@hers/client';
import type { Context } from './context.ts';
import { cellOf } from './fields.ts';
import type { Probe } from './input/probes.ts';
import type { Column, Output } from './output.ts';
import { count, duration, score } from './quantities.ts';

interface MatchColumns {
  readonly batch: boolean;
  readonly payload: boolean;
  /** The fields that are shown. */
  readonly select: readonly string[];
}

export class MatchPrinter {
  readonly #out: Output;
  readonly #batch: boolean;
  readonly #payload: boolean;
  readonly #select: readonly string[];
  readonly #columns: readonly Column[];
  #started = performance.now();
  #rows: string[][] = [];
  #coverage: SearchResult['coverage'] | undefined;

  constructor({ out }: Context, { batch, payload, select }: MatchColumns) {
    this.#out = out;
    this.#batch = batch;
    this.#payload = payload;
    this.#select = select;
    this.#columns = [
      ...(batch ? [{ title: 'probe' }] : []),
      { title: 'id' },
      { title: 'score', right: true },
      ...select.map((title) => ({ title })),
      ...(payload ? [{ title: 'payload' }] : []),
    ];
  }

  /**
   * The search begins: what came before it, somebody typing a passphrase perhaps, is not a part of
   * its time.
   */
  begin(): void {
    this.#started = performance.now();
  }

  add({ label }: Probe, { matches, coverage, fetched }: SearchResult): void {
    this.#coverage = coverage;
    if (this.#out.json) {
      this.#out.object({ probe: label, matches, coverage, fetched });
      return;
    }
    if (coverage.searched < coverage.total)
      this.#out.note(`Only ${count(coverage.searched)} of ${count(coverage.total)} records were searched.`);
    const rows = matches.map((match) => this.#row(label, match));
    if (this.#out.terminal) this.#rows.push(...rows);
    else this.#out.table(this.#columns, rows);
  }

  #row(label: Probe['label'], { id, score: value, scoreOrigin, payload, fields = {} }: Match): string[] {
    return [
      ...(this.#batch ? [String(label)] : []),
      id,
      score(value, { noisy: scoreOrigin === 'noisy' }),
      ...this.#select.map((name) => cellOf(Object.hasOwn(fields, name) ? fields[name] : undefined)),
      ...(this.#payload ? [JSON.stringify(payload ?? null)] : []),
    ];
  }

  end(): void {
    if (this.#rows.length > 0) this.#out.table(this.#columns, this.#rows);
    else if (this.#out.terminal) this.#out.hint('No match.');
    if (!this.#coverage) return;
    const { searched, total } = this.#coverage;
    this.#out.hint(
      `${count(searched)} of ${count(total)} records searched in ${duration(performance.now() - this.#started)}.`,
    );
  }
}
