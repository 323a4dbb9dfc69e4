// A progress bar on standard error, shown only on a terminal.

import { clearLine, cursorTo } from 'node:readline';

export interface Bar {
  update(done: number): void;
  end(): void;
}

const DRAW_MS = 100;
const WIDTH = 12; // so that the time left still fits a line of 80 columns

export function bar(label: string, total: number, unit: string): Bar {
  const { stderr } = process;
  if (!stderr.isTTY) return { update() {}, end() {} };
  const started = performance.now();
  const whole = (value: number) => Math.round(value).toLocaleString('en-GB');
  let drawn = Number.NEGATIVE_INFINITY;
  const update = (done: number) => {
    const now = performance.now();
    if (now < drawn + DRAW_MS) return;
    drawn = now;
    const rate = (1000 * done) / (now - started);
    const filled = Math.round((WIDTH * done) / total);
    const left = done > 0 ? `  ${whole((total - done) / rate)} s left` : '';
    cursorTo(stderr, 0);
    stderr.write(
      `${label}  ${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)}  ${Math.floor((100 * done) / total)} %  ${whole(done)} of ${whole(total)}  ${whole(rate)} ${unit}/s${left}`,
    );
    clearLine(stderr, 1);
  };
  const end = () => {
    cursorTo(stderr, 0);
    clearLine(stderr, 1);
  };
  return { update, end };
}
