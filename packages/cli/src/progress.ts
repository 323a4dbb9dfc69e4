// How far something is, with rate and time left, on standard error. On a terminal that is a bar,
// once it has taken a second: what is over sooner needs none. Elsewhere, in a log perhaps, it is a
// line now and then.

import { clearLine, cursorTo } from 'node:readline';
import type { TerminalWritable } from './context.ts';
import { count, duration, size } from './output.ts';

const APPEARS_AFTER_MS = 1000;
const DRAW_MS = 125;
const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
/** Lines are at least so far apart, and so is the first from the beginning. */
const LINE_MS = 10_000;
/** A line comes for this share more, or when there was none for so long: a log must not fill. */
const LINE_SHARE = 0.1;
const SELDOM_MS = 600_000;
const BAR_WIDTH = 24;
const LEAST_BAR = 6;
/** What a terminal has that does not say. */
const DEFAULT_COLUMNS = 80;

const percentOf = (share: number) => `${Math.floor(100 * share)} %`;

/** A line with a bar in the rest of the width. Parts go until it has room, the least first. */
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

export class Progress {
  #timer: NodeJS.Timeout | undefined;
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
  constructor(stream: TerminalWritable, options: ProgressOptions, { lines = true }: { readonly lines?: boolean } = {}) {
    this.#options = options;
    this.#stream = stream;
    this.#total = options.total || undefined;
    if (stream.isTTY) this.#timer = setTimeout(() => this.#appear(), APPEARS_AFTER_MS).unref();
    else if (lines) this.#timer = setInterval(() => this.#tick(), LINE_MS).unref();
  }

  #appear(): void {
    this.#shown = true;
    this.#stream.write(HIDE_CURSOR);
    this.#draw();
    this.#timer = setInterval(() => this.#draw(), DRAW_MS).unref();
  }

  #draw(): void {
    cursorTo(this.#stream, 0);
    this.#stream.write(this.#line());
    clearLine(this.#stream, 1);
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

  #line(): string {
    const { label } = this.#options;
    const columns = this.#stream.columns || DEFAULT_COLUMNS;
    const { share, amounts, speed, left } = this.#figures();
    if (this.#total === undefined) return `${label}  ${amounts}  ${speed}`.slice(0, columns - 1);
    return lineOf(columns, share, label, amounts, speed, left);
  }

  /** Says each as far as it is known. */
  #figures() {
    const { unit } = this.#options;
    const total = this.#total;
    const amount = (value: number) => (unit === 'bytes' ? size(value) : count(Math.round(value)));
    const named = (value: number) => `${amount(value)}${unit === 'bytes' ? '' : ` ${unit}`}`;
    // Work is reported in lumps: between two of them the rate stays, and the time left runs down.
    const rate = this.#done / Math.max(1, this.#updated - this.#started);
    const speed = `${named(1000 * rate)}/s`;
    if (total === undefined) return { share: 0, percent: '', amounts: named(this.#done), speed, left: '' };
    const ms = (total - this.#done) / rate - (performance.now() - this.#updated);
    const left = this.#done > 0 ? `${duration(1000 * Math.max(1, Math.ceil(ms / 1000)))} left` : '';
    const share = Math.min(1, this.#done / total);
    return { share, percent: percentOf(share), amounts: `${amount(this.#done)} of ${amount(total)}`, speed, left };
  }

  update(done: number, total: number | undefined = this.#total): void {
    this.#done = done;
    // Of nothing there is no share: what is done of it is shown alone.
    this.#total = total || undefined;
    this.#updated = performance.now();
  }

  add(more: number): void {
    this.update(this.#done + more);
  }

  end(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#timer);
    if (!this.#shown) return;
    this.#shown = false;
    cursorTo(this.#stream, 0);
    clearLine(this.#stream, 1);
    this.#stream.write(SHOW_CURSOR);
  }

  [Symbol.dispose](): void {
    this.end();
  }
}
