// Progress bars, with rate and time left. They appear on standard error, on a terminal, and only when something has taken a second: what is over sooner needs none.

import { type Options, type Params, SingleBar } from 'cli-progress';
import { count, duration, size } from './quantities.ts';
import type { TerminalWritable } from './surroundings.ts';

const APPEARS_AFTER_MS = 1000;
const BAR_WIDTH = 24;
const LEAST_BAR = 6;
/** What a terminal has that does not say. */
const USUAL_COLUMNS = 80;

/** A line with a bar of what is left of the width; parts of it go, the less important first, until there is room for one. */
export function lineOf(
  columns: number,
  share: number,
  label: string,
  amounts: string,
  rate: string,
  left: string,
): string {
  const percent = `${Math.floor(100 * share)} %`;
  for (const parts of [[percent, amounts, rate, left], [percent, rate, left], [percent, left], [percent]]) {
    const rest = parts.filter((part) => part !== '').join('  ');
    const room = columns - 1 - label.length - 2 - 2 - rest.length;
    if (room < LEAST_BAR) continue;
    const width = Math.min(BAR_WIDTH, room);
    const filled = Math.round(share * width);
    return `${label}  ${'█'.repeat(filled)}${'░'.repeat(width - filled)}  ${rest}`;
  }
  return percent;
}

export interface ProgressOptions {
  readonly label: string;
  /** How much there is to do; without it, only what is done and its rate are shown. */
  readonly total?: number;
  /** What is counted: a word, or `bytes`. */
  readonly unit: string;
}

export class Progress {
  readonly #bar: SingleBar | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #started = performance.now();
  readonly #options: ProgressOptions;
  readonly #stream: TerminalWritable;
  #total: number | undefined;
  #done = 0;
  #updated = this.#started;
  #shown = false;

  constructor(stream: TerminalWritable, options: ProgressOptions) {
    this.#options = options;
    this.#stream = stream;
    this.#total = options.total;
    if (!stream.isTTY) return;
    this.#bar = new SingleBar({
      stream: stream as NodeJS.WritableStream,
      format: (bar, params) => this.#line(bar, params),
      hideCursor: true,
      clearOnComplete: true,
      fps: 8,
      // What a bar is drawn over must stay as it was when the run is stopped; ending is up to us.
      gracefulExit: false,
    });
    this.#timer = setTimeout(() => {
      this.#shown = true;
      this.#bar!.start(this.#total ?? 0, this.#done);
    }, APPEARS_AFTER_MS);
    this.#timer.unref();
  }

  #line(_: Options, { progress }: Params): string {
    const { label, unit } = this.#options;
    const total = this.#total;
    const amount = (value: number) => (unit === 'bytes' ? size(value) : count(Math.round(value)));
    const named = (value: number) => `${amount(value)}${unit === 'bytes' ? '' : ` ${unit}`}`;
    // Work is reported in lumps: between two of them the rate stays, and the time left runs down.
    const rate = this.#done / Math.max(1, this.#updated - this.#started);
    const speed = `${named(1000 * rate)}/s`;
    if (total === undefined) return `${label}  ${named(this.#done)}  ${speed}`;
    const ms = (total - this.#done) / rate - (performance.now() - this.#updated);
    const left = this.#done > 0 ? `${duration(1000 * Math.max(1, Math.ceil(ms / 1000)))} left` : '';
    const columns = this.#stream.columns || USUAL_COLUMNS;
    return lineOf(columns, progress, label, `${amount(this.#done)} of ${amount(total)}`, speed, left);
  }

  update(done: number, total = this.#total): void {
    this.#done = done;
    this.#total = total;
    this.#updated = performance.now();
    if (!this.#shown) return;
    this.#bar!.setTotal(total ?? 0);
    this.#bar!.update(Math.min(done, total ?? done));
  }

  add(more: number): void {
    this.update(this.#done + more);
  }

  end(): void {
    clearTimeout(this.#timer);
    if (this.#shown) this.#bar!.stop();
    this.#shown = false;
  }

  [Symbol.dispose](): void {
    this.end();
  }
}
