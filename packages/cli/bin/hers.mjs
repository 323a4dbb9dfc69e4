#!/usr/bin/env node
// Starts the command `hers`. Plain JavaScript, because an old Node must be able to read it; in a clone it also sees to it that what has to be built is built.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import nodeModule from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NEEDED = 24;
const root = join(dirname(fileURLToPath(import.meta.url)), '../../..');

/** Runs something else instead of this process. Signals from the keyboard reach both; this one waits for the other. */
function become(command, args) {
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {});
  const { status, signal, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (error) throw error;
  process.exit(status ?? (signal === 'SIGINT' ? 130 : 143));
}

/** The newest change in a folder of sources; what it means is up to the build, which compares contents. */
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

function isBuilt() {
  return ['ring', 'scan'].every((name) => {
    const built = join(root, 'packages', name, 'build/kernel.ts');
    const sources = ['assembly', 'native'].map((folder) => newest(join(root, 'packages', name, folder)));
    return existsSync(built) && statSync(built).mtimeMs >= Math.max(...sources);
  });
}

if (Number.parseInt(process.versions.node, 10) < NEEDED) {
  const brought = join(root, 'node_modules/.bin/node');
  if (existsSync(brought)) become(brought, process.argv.slice(1));
  console.error(
    `hers: this is Node ${process.versions.node}, and Node ${NEEDED} is needed; install Node ${NEEDED} or newer.`,
  );
  process.exit(1);
}

const build = join(root, 'tools/run.mjs');
if (existsSync(build) && !isBuilt()) {
  const { status } = spawnSync(process.execPath, [build], { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) process.exit(status ?? 1);
}
// What was stripped and compiled once is kept beside the code, which is as trustworthy as that: it halves the time a command takes to start.
nodeModule.enableCompileCache?.(fileURLToPath(new URL('../build/compile-cache', import.meta.url)));
await import('../src/main.ts');
