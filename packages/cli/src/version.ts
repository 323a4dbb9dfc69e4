// The version, and which sources this is made of.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import about from '../package.json' with { type: 'json' };

export const VERSION: string = about.version;

/** The commit of the sources: packages carry theirs, and a checkout is asked. */
export function commit(): string | undefined {
  const { gitHead } = about as { readonly gitHead?: string };
  if (gitHead !== undefined) return gitHead;
  // Somebody else's repository may hold an installed package.
  if (about.name !== '@hers/cli') return undefined;
  const { status, stdout } = spawnSync('git', ['describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'], {
    cwd: fileURLToPath(new URL('.', import.meta.url)),
    encoding: 'utf8',
  });
  return status === 0 ? stdout.trim() : undefined;
}
