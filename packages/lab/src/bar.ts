// A progress bar for people who watch: on standard error, on a terminal, and nowhere else.

import { Presets, SingleBar } from 'cli-progress';

export interface Bar {
  update(done: number): void;
  end(): void;
}

export function bar(label: string, total: number, unit: string): Bar {
  if (!process.stderr.isTTY) return { update() {}, end() {} };
  const started = performance.now();
  const rate = (done: number) => Math.round((1000 * done) / (performance.now() - started)).toLocaleString('en-GB');
  const shown = new SingleBar(
    {
      format: `${label}  {bar}  {percentage} %  {value} of {total}  {rate} ${unit}/s  {eta_formatted} left`,
      barsize: 12, // so that the time left is still on a line of 80 columns
      clearOnComplete: true,
      hideCursor: true,
      stream: process.stderr,
    },
    Presets.shades_classic,
  );
  shown.start(total, 0, { rate: rate(0) });
  return { update: (done) => shown.update(done, { rate: rate(done) }), end: () => shown.stop() };
}
