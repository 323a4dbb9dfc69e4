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
  #updated = this.#started;
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
    const filled = Math.round(progress * BAR_WIDTH);
    const bar = '█'.repeat(filled) + '░'.repeat(BAR_WIDTH - filled);
    const ms = (total - this.#done) / rate - (performance.now() - this.#updated);
    const left = this.#done > 0 ? `${duration(1000 * Math.max(1, Math.ceil(ms / 1000)))} left` : '';
    return `${label}  ${bar}  ${Math.floor(100 * progress)} %  ${amount(this.#done)} of ${amount(total)}  ${speed}  ${left}`;
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
