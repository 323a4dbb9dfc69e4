#!/usr/bin/env node
// Starts the command `hers`. Plain JavaScript, because an old Node must be able to read it; in a clone it also sees to it that what has to be built is built.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import nodeModule from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NEEDED = 24;
const root = join(dirname(fileURLToPath(import.meta.url)), '../../..');
/** Written after every build, for its time. */
const marker = join(root, 'packages/cli/build/built');

/** Runs something else instead of this process. Ctrl-C reaches both from the keyboard, so it is not passed on; a request to end is. */
async function become(command, args) {
  const child = spawn(command, args, { stdio: 'inherit' });
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  const [status, signal] = await once(child, 'close');
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

/** Whether the build was run since a source changed. It looks at contents, this only at times: that costs nothing. */
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

const build = join(root, 'tools/run.mjs');
if (existsSync(build) && !isBuilt()) {
  const { status } = spawnSync(process.execPath, [build], { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) process.exit(status ?? 1);
  try {
    mkdirSync(dirname(marker), { recursive: true });
    writeFileSync(marker, '');
  } catch {} // somebody else's clone: it is looked at again next time
}
// What was stripped and compiled once is kept beside the code, which is as trustworthy as that: it halves the time a command takes to start.
nodeModule.enableCompileCache?.(fileURLToPath(new URL('../build/compile-cache', import.meta.url)));
await import('../src/main.ts');
