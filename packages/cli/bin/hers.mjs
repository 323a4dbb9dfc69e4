#!/usr/bin/env node
// Starts the command `hers`. Plain JavaScript, because an old Node must be able to read it; in a
// clone it also sees to it that what has to be built is built.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import nodeModule from 'node:module';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NEEDED = 24;
const root = join(dirname(fileURLToPath(import.meta.url)), '../../..');
/** Written after every build, for its time. */
const marker = join(root, 'packages/cli/build/built');

/**
 * Passed on as they are. A Ctrl-C from the keyboard reaches both processes; main.ts counts two in
 * quick succession as one.
 */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
/**
 * Names the descriptor of a pipe from `become`. The pipe closes when the parent process ends, and
 * this process then ends, too.
 */
const LIFELINE = 'HERS_LIFELINE';

/**
 * Runs another program in place of this process. Signals are passed on to it, and when either of
 * the two ends, however that happens, so does the other.
 */
async function become(command, args) {
  const env = { ...process.env, [LIFELINE]: '3' };
  const child = spawn(command, args, { stdio: ['inherit', 'inherit', 'inherit', 'pipe'], env });
  for (const name of SIGNALS) process.on(name, () => child.kill(name));
  const [status, signal] = await once(child, 'exit');
  if (signal) {
    // Whoever waits for this process should see what became of the other.
    for (const name of SIGNALS) process.removeAllListeners(name);
    process.kill(process.pid, signal);
  }
  process.exit(status ?? 128 + constants.signals[signal]);
}

/**
 * The other side of `become`: the pipe carries nothing but its end. It does not keep the process
 * alive, and neither main.ts nor the processes that main.ts starts inherit it.
 */
function holdLifeline() {
  const fd = Number(process.env[LIFELINE]);
  delete process.env[LIFELINE];
  if (!(fd > 2)) return;
  try {
    const lifeline = new Socket({ fd, readable: true, writable: false });
    lifeline.on('error', () => {}).on('close', () => process.kill(process.pid, 'SIGTERM'));
    lifeline.resume().unref();
  } catch {} // no such descriptor: somebody else has set the variable
}

/**
 * The newest change in a folder of sources; what it means is up to the build, which compares
 * contents.
 */
function newest(folder) {
  if (!existsSync(folder)) return 0;
  return Math.max(
    0,
    ...readdirSync(folder, { withFileTypes: true }).map((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? newest(path) : statSync(path).mtimeMs;
    }),
  );
}

/**
 * Whether the build was run since a source changed. It looks at contents, this only at times: that
 * costs nothing.
 */
function isBuilt() {
  if (!existsSync(marker) || !existsSync(join(root, 'packages/ring/build/kernel.ts'))) return false;
  const sources = ['ring/assembly', 'scan/assembly', 'scan/native'];
  return statSync(marker).mtimeMs >= Math.max(...sources.map((folder) => newest(join(root, 'packages', folder))));
}

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  const brought = join(root, 'node_modules/.bin/node');
  if (existsSync(brought)) await become(brought, process.argv.slice(1));
  console.error(
    `hers: this is Node ${process.versions.node}, and Node ${NEEDED} is needed; install Node ${NEEDED} or newer.`,
  );
  process.exit(1);
}

holdLifeline();
const build = join(root, 'tools/run.mjs');
if (existsSync(build) && !isBuilt()) {
  const { status } = spawnSync(process.execPath, [build], { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) process.exit(status ?? 1);
  try {
    mkdirSync(dirname(marker), { recursive: true });
    writeFileSync(marker, '');
  } catch {} // somebody else's clone: it is looked at again next time
}
// Compiled code is cached beside the sources, where it is as safe as they are. That halves the time
// a command takes to start.
nodeModule.enableCompileCache?.(fileURLToPath(new URL('../build/compile-cache', import.meta.url)));
await import('../src/main.ts');
