// Progress bars, with rate and time left. They appear on standard error, on a terminal, and only when something has taken a second: what is over sooner needs none.

import { type Options, type Params, SingleBar } from 'cli-progress';
import { count, duration, size } from './quantities.ts';
import type { TerminalWritable } from './surroundings.ts';

const APPEARS_AFTER_MS = 1000;
const BAR_WIDTH = 24;

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
  #total: number | undefined;
  #done = 0;
  #shown = false;

  constructor(stream: TerminalWritable, options: ProgressOptions) {
    this.#options = options;
    this.#total = options.total;
    if (!stream.isTTY) return;
    this.#bar = new SingleBar({
      stream: stream as NodeJS.WritableStream,
      format: (bar, params) => this.#line(bar, params),
      hideCursor: true,
      clearOnComplete: true,
      etaBuffer: 20,
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

  #line(_: Options, { progress, eta }: Params): string {
    const { label, unit } = this.#options;
    const total = this.#total;
    const amount = (value: number) => (unit === 'bytes' ? size(value) : count(Math.round(value)));
    const elapsed = performance.now() - this.#started;
    const rate = `${amount((1000 * this.#done) / elapsed)}${unit === 'bytes' ? '' : ` ${unit}`}/s`;
    if (total === undefined) return `${label}  ${amount(this.#done)}${unit === 'bytes' ? '' : ` ${unit}`}  ${rate}`;
    const filled = Math.round(progress * BAR_WIDTH);
    const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
    // The first estimates are wild guesses.
    const left = Number.isFinite(eta) && this.#done > 0 ? `${duration(1000 * eta)} left` : '';
    return `${label}  ${bar}  ${Math.floor(100 * progress)} %  ${amount(this.#done)} of ${amount(total)}  ${rate}  ${left}`;
  }

  update(done: number, total = this.#total): void {
    this.#done = done;
    this.#total = total;
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
