// How far something is, with rate and time left, on standard error. On a terminal that is a bar, once it has taken a second: what is over sooner needs none.
// Elsewhere, in a log perhaps, it is a line now and then.

import { type Options, type Params, SingleBar } from 'cli-progress';
import { count, duration, size } from './quantities.ts';
import type { TerminalWritable } from './surroundings.ts';

const APPEARS_AFTER_MS = 1000;
/** Lines are at least so far apart, and so is the first from the beginning. */
const LINE_MS = 10_000;
/** A line comes when this share more is done, or when there was none for so long: a log must not fill. */
const LINE_SHARE = 0.1;
const SELDOM_MS = 600_000;
const BAR_WIDTH = 24;
const LEAST_BAR = 6;
/** What a terminal has that does not say. */
const USUAL_COLUMNS = 80;

const percentOf = (share: number) => `${Math.floor(100 * share)} %`;

/** A line with a bar of what is left of the width; parts of it go, the less important first, until there is room for one. */
export function lineOf(
  columns: number,
  share: number,
  label: string,
  amounts: string,
  rate: string,
  left: string,
): string {
  const percent = percentOf(share);
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

/** What is said of it, each as far as it is known. */
interface Figures {
  readonly percent: string;
  readonly amounts: string;
  readonly speed: string;
  readonly left: string;
}

export class Progress {
  readonly #bar: SingleBar | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #lines: NodeJS.Timeout | undefined;
  readonly #started = performance.now();
  readonly #options: ProgressOptions;
  readonly #stream: TerminalWritable;
  #total: number | undefined;
  #done = 0;
  #updated = this.#started;
  #shown = false;
  #lineAt = { ms: 0, share: Number.NEGATIVE_INFINITY };
  #ms = 0;

  /** Where there is no terminal, nothing is shown without `lines`. */
  constructor(stream: TerminalWritable, options: ProgressOptions, { lines = true } = {}) {
    this.#options = options;
    this.#stream = stream;
    this.#total = options.total;
    if (!stream.isTTY) {
      if (lines) this.#lines = setInterval(() => this.#tick(), LINE_MS).unref();
      return;
    }
    this.#bar = new SingleBar({
      stream: stream as NodeJS.WritableStream,
      format: (bar, params) => this.#bars(bar, params),
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

  /** Writes a line where one is due. */
  #tick(): void {
    this.#ms += LINE_MS;
    const share = this.#total ? this.#done / this.#total : 0;
    const isDue = share >= this.#lineAt.share + LINE_SHARE || this.#ms >= this.#lineAt.ms + SELDOM_MS;
    if (!isDue) return;
    this.#lineAt = { ms: this.#ms, share };
    const { percent, amounts, speed, left } = this.#figures();
    const parts = [percent, amounts, speed, left].filter((part) => part !== '');
    this.#stream.write(`${this.#options.label}: ${parts.join(', ')}\n`);
  }

  #bars(_: Options, { progress }: Params): string {
    const { label } = this.#options;
    const { amounts, speed, left } = this.#figures();
    if (this.#total === undefined) return `${label}  ${amounts}  ${speed}`;
    return lineOf(this.#stream.columns || USUAL_COLUMNS, progress, label, amounts, speed, left);
  }

  #figures(): Figures {
    const { unit } = this.#options;
    const total = this.#total;
    const amount = (value: number) => (unit === 'bytes' ? size(value) : count(Math.round(value)));
    const named = (value: number) => `${amount(value)}${unit === 'bytes' ? '' : ` ${unit}`}`;
    // Work is reported in lumps: between two of them the rate stays, and the time left runs down.
    const rate = this.#done / Math.max(1, this.#updated - this.#started);
    const speed = `${named(1000 * rate)}/s`;
    if (total === undefined) return { percent: '', amounts: named(this.#done), speed, left: '' };
    const ms = (total - this.#done) / rate - (performance.now() - this.#updated);
    const left = this.#done > 0 ? `${duration(1000 * Math.max(1, Math.ceil(ms / 1000)))} left` : '';
    const share = Math.min(1, this.#done / Math.max(1, total));
    return { percent: percentOf(share), amounts: `${amount(this.#done)} of ${amount(total)}`, speed, left };
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
    clearInterval(this.#lines);
    if (this.#shown) this.#bar!.stop();
    this.#shown = false;
  }

  [Symbol.dispose](): void {
    this.end();
  }
}
