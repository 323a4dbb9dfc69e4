import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { lineOf, Progress } from './progress.ts';

function screen(isTTY: boolean) {
  let text = '';
  const stream = new Writable({
    write(chunk, _, done) {
      text += chunk;
      done();
    },
  });
  return { stream: Object.assign(stream, { isTTY, columns: 120 }), shown: () => stripVTControlCharacters(text) };
}

test('a bar appears after a second, with how much is done, the rate and the time left', async () => {
  const { stream, shown } = screen(true);
  const progress = new Progress(stream, { label: 'Encrypting', total: 4000, unit: 'records' });
  progress.update(500);
  await pause(500);
  assert.equal(shown(), '');
  progress.update(1000);
  await pause(700);
  progress.update(2000);
  await pause(300);
  progress.end();
  assert.match(
    shown(),
    /Encrypting {2}█{12}░{12} {2}50 % {2}2,000 of 4,000 {2}[\d,]+ records\/s {2}[\d.]+ (ms|s) left/,
  );
});

test('a line fits its terminal: the bar shrinks, then parts go, and the time left stays longest', () => {
  const line = (columns: number) =>
    lineOf(columns, 0.5, 'Encrypting', '30,000 of 60,000', '3,823 records/s', '12 s left');
  for (let columns = 8; columns < 130; columns++) assert.ok(line(columns).length < columns, String(columns));
  assert.equal(
    line(120),
    `Encrypting  ${'█'.repeat(12)}${'░'.repeat(12)}  50 %  30,000 of 60,000  3,823 records/s  12 s left`,
  );
  assert.match(line(80), /^Encrypting {2}█{8}░{7} {2}50 % {2}30,000 of 60,000 {2}3,823 records\/s {2}12 s left$/);
  assert.match(line(60), /^Encrypting {2}█+░+ {2}50 % {2}3,823 records\/s {2}12 s left$/);
  assert.match(line(36), /^Encrypting {2}█+░+ {2}50 % {2}12 s left$/);
  assert.equal(line(10), '50 %');
});

test('bytes are shown as such, and without a total there is no bar', async () => {
  const { stream, shown } = screen(true);
  using progress = new Progress(stream, { label: 'Copying', unit: 'bytes' });
  await pause(1100);
  progress.update(2_500_000);
  await pause(300);
  assert.match(shown(), /Copying {2}2\.50 MB {2}[\d.]+ MB\/s/);
});

test('what is quick shows nothing, and neither does what is not to be shown', async (context) => {
  const quick = screen(true);
  const progress = new Progress(quick.stream, { label: 'Searching', total: 3, unit: 'blocks' });
  progress.update(3);
  progress.end();
  context.mock.timers.enable({ apis: ['setInterval'] });
  const [piped, programs] = [screen(false), screen(false)];
  using first = new Progress(piped.stream, { label: 'Searching', total: 3, unit: 'blocks' });
  using second = new Progress(programs.stream, { label: 'Searching', total: 3, unit: 'blocks' }, { lines: false });
  for (const each of [first, second]) each.update(1);
  context.mock.timers.tick(9999);
  first.end();
  context.mock.timers.tick(1e7);
  assert.deepEqual([quick.shown(), piped.shown(), programs.shown()], ['', '', '']);
});

test('where there is no terminal, a line comes after ten seconds, and then with every tenth', (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  const { stream, shown } = screen(false);
  using progress = new Progress(stream, { label: 'Scrubbing', total: 3.5e9, unit: 'bytes' });
  const lines = () => shown().split('\n').slice(0, -1);
  progress.update(1.2e9);
  context.mock.timers.tick(10_000);
  assert.match(lines()[0], /^Scrubbing: 34 %, 1\.20 GB of 3\.50 GB, [\d.]+ [GT]B\/s, [\d.]+ m?s left$/);
  progress.update(1.5e9); // not a tenth more
  context.mock.timers.tick(10_000);
  assert.equal(lines().length, 1);
  for (let done = 1.5e9; done <= 3.5e9; done += 1e8) progress.update(done); // all of it at once
  assert.equal(lines().length, 1);
  context.mock.timers.tick(10_000);
  assert.match(lines()[1], /^Scrubbing: 100 %, /);
  assert.equal(lines().length, 2);
});

test('what hardly moves, or has no end that is known, says so every ten minutes', (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  const { stream, shown } = screen(false);
  using progress = new Progress(stream, { label: 'Optimizing', unit: 'blocks' });
  progress.update(7);
  context.mock.timers.tick(3_600_000);
  const lines = shown().split('\n').slice(0, -1);
  assert.equal(lines.length, 6);
  for (const line of lines) assert.match(line, /^Optimizing: 7 blocks, [\d,]+ blocks\/s$/);
});

test('of nothing there is no share', async () => {
  const { stream, shown } = screen(true);
  const progress = new Progress(stream, { label: 'Searching', total: 0, unit: 'blocks' });
  await pause(1200);
  progress.update(0, 0);
  progress.end();
  assert.match(shown(), /Searching {2}0 blocks {2}0 blocks\/s/);
  assert.doesNotMatch(shown(), /%|0 of 0/);
});

test('a bar leaves the line empty and the cursor visible', async () => {
  let text = '';
  const stream = new Writable({
    write(chunk, _, done) {
      text += chunk;
      done();
    },
  });
  const progress = new Progress(Object.assign(stream, { isTTY: true, columns: 80 }), {
    label: 'Copying',
    unit: 'bytes',
  });
  await pause(1200);
  progress.end();
  progress.end();
  assert.ok(text.startsWith('\x1b[?25l\x1b[1GCopying  0 bytes'));
  assert.ok(text.endsWith('\x1b[1G\x1b[0K\x1b[?25h'));
});
