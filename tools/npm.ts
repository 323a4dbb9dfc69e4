// npm as a program of its own, in a folder that is not the clone's root.

import { spawnSync } from 'node:child_process';
import { BuildError } from './target.ts';

/** The environment, without what an `npm run` around this one says about the clone. */
export function outside(): NodeJS.ProcessEnv {
  const clone = /^npm_(?:package|lifecycle|command|config_(?:local_prefix|workspaces?)$)/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !clone.test(name)));
}

/** Runs npm, and returns what it prints. Throws what it complains about. */
export function npm(args: readonly string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync('npm', [...args], { cwd, env: outside(), encoding: 'utf8' });
  if (status !== 0) throw new BuildError(`npm ${args[0]} failed: ${error?.message ?? stderr.trim()}`);
  return stdout;
}
