// How matches are printed. In a pipe, each as it comes; on a terminal, as one table, whose columns
// need to know all of them.

import type { Match, SearchResult } from '@hers/client';
import type { Context } from './context.ts';
import { cellOf } from './fields.ts';
import type { Probe } from './input/probes.ts';
import { type Column, columns, count, counted, duration, type Output, score } from './output.ts';

interface MatchColumns {
  readonly batch: boolean;
  readonly payload: boolean;
  /** The fields that are shown. */
  readonly select: readonly string[];
}

/** How many records are pending, and what that means, in one sentence. */
export function pendingText(pending: number, records: number): string {
  const [are, them, blocks] = pending === 1 ? ['is', 'it', 'a block'] : ['are', 'them', 'blocks'];
  return `${count(pending)} of ${counted(records, 'record')} ${are} pending: searches compare ${them} here, in the clear, until hers optimize puts ${them} into ${blocks}.`;
}

/** A few always are. A program hears of it only where nothing at all is searched encrypted. */
export function tellPending(out: Output, pending: number, records: number): void {
  if (pending === 0) return;
  const text = pendingText(pending, records);
  if (pending === records && !out.json) out.note(text);
  else out.hint(text);
}

export class MatchPrinter {
  readonly #out: Output;
  readonly #shown: MatchColumns;
  readonly #columns: readonly Column[];
  #started = performance.now();
  #rows: string[][] = [];
  #last: SearchResult | undefined;

  constructor({ out }: Context, shown: MatchColumns) {
    this.#out = out;
    this.#shown = shown;
    this.#columns = columns(
      ...(shown.batch ? ['probe'] : []),
      ...['id', '>score', ...shown.select],
      ...(shown.payload ? ['payload'] : []),
    );
  }

  /** What came before the search, somebody typing a passphrase perhaps, is not its time. */
  begin(): void {
    this.#started = performance.now();
  }

  add({ label }: Probe, result: SearchResult): void {
    const { matches, coverage, pending, fetched } = (this.#last = result);
    if (this.#out.json) {
      this.#out.object({ probe: label, matches, coverage, pending, fetched });
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
      ...(this.#shown.batch ? [String(label)] : []),
      id,
      score(value, { noisy: scoreOrigin === 'noisy' }),
      ...this.#shown.select.map((name) => cellOf(Object.hasOwn(fields, name) ? fields[name] : undefined)),
      ...(this.#shown.payload ? [JSON.stringify(payload ?? null)] : []),
    ];
  }

  end(): void {
    if (this.#rows.length > 0) this.#out.table(this.#columns, this.#rows);
    else if (this.#out.terminal) this.#out.hint('No match.');
    if (!this.#last) return;
    const { searched, total } = this.#last.coverage;
    this.#out.hint(
      `${count(searched)} of ${count(total)} records searched in ${duration(performance.now() - this.#started)}.`,
    );
    tellPending(this.#out, this.#last.pending, searched);
  }
}
