// The process around a run: its streams, its signals, its exit code.

import { existsSync } from 'node:fs';
import { Interrupted } from './exit.ts';
import { run } from './program.ts';

/** npm passes on a Ctrl-C that the terminal has sent already: two so close together are one. */
const SAME_MS = 500;
/** What a run has left behind (a handle, a thread) has so long to end by itself. */
const LEFT_MS = 1000;
const SHELL = '/bin/sh';

const stop = new AbortController();
let stoppedAt = 0;
// A terminal that closes (SIGHUP) wants what SIGTERM wants.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  const signal = name === 'SIGINT' ? name : 'SIGTERM';
  process.on(name, () => {
    // The first asks for an orderly end, the second gets any end: a folder survives that as it
    // survives a crash.
    if (stop.signal.aborted) {
      if (performance.now() - stoppedAt >= SAME_MS) endNow(signal);
      return;
    }
    stoppedAt = performance.now();
    stop.abort(new Interrupted(signal));
    // A run that prints waits for its reader, and would wait for ever for one that has stopped
    // reading.
    setTimeout(() => {
      if (process.stdout.writableLength > 0) endNow(signal);
    }, SAME_MS).unref();
  });
}

function endNow(signal: 'SIGINT' | 'SIGTERM'): never {
  // A progress bar may have hidden the cursor.
  if (process.stderr.isTTY) process.stderr.write('\x1b[?25h');
  exitNow(new Interrupted(signal).exit);
}

/**
 * Ends the process whatever it waits for. Node itself would wait for threads that are in a call of
 * the system, or of SQLite: for a disk that does not answer, say. Another program in the place of
 * this one waits for nobody; all it does is to end with the exit code (docs/tuning.md).
 */
function exitNow(code: number): never {
  const { stdin } = process;
  if (process.execve && existsSync(SHELL))
    process.once('exit', () => {
      if (stdin.isRaw && !stdin.destroyed) stdin.setRawMode(false);
      process.execve!(SHELL, ['sh', '-c', `exit ${code}`], {});
    });
  process.exit(code);
}

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Whoever reads our output has had enough: `hers list | head`.
  const closed = error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED';
  stop.abort(closed ? Object.assign(error, { code: 'EPIPE' }) : error);
});

// A run may wait for a thread that does not keep the process alive by itself.
const running = setInterval(() => {}, 2 ** 30);
const { env } = process;
const exit = await run(process.argv.slice(2), {
  // `npm run hers` starts in the root of the workspace; paths are meant from where the person is.
  cwd: env.npm_lifecycle_event === 'hers' && env.INIT_CWD ? env.INIT_CWD : process.cwd(),
  env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
});
process.exitCode = exit;
clearInterval(running);
// A pipe on standard input that was not read to its end would keep the process alive.
process.stdin.destroy();
setTimeout(async () => {
  // What is printed is read to its end, however slowly.
  for (const stream of [process.stdout, process.stderr])
    await new Promise<void>((resolve) => stream.write('', () => resolve()));
  exitNow(exit);
}, LEFT_MS).unref();
