// Runs a script of the lab in a process of its own: it computes for minutes, has a heap of its own,
// and needs packages that not everybody has.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Context } from './context.ts';
import { CommandError, EXIT } from './exit.ts';

/** A plain sentence where the lab is not installed. */
function locate(name: 'bench' | 'lab'): string {
  try {
    return fileURLToPath(
      name === 'bench' ? import.meta.resolve('@hers/lab/bench') : import.meta.resolve('@hers/lab/lab'),
    );
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new CommandError(
      EXIT.absent,
      `hers ${name} needs the package @hers/lab, which is not part of this installation`,
      'run it in a clone of the repository',
    );
  }
}

/**
 * Without arguments it lists what there is. Its output is ours; what it says on the way goes to
 * standard error, unless a program reads along.
 */
export async function runScript(context: Context, name: 'bench' | 'lab', args: readonly string[]): Promise<void> {
  const { environment, out, signal } = context;
  const listing = args.length === 0;
  // It makes keys of its own; it needs none of ours.
  const env = Object.fromEntries(Object.entries(environment.env).filter(([name]) => !/PASSPHRASE/.test(name)));
  const child = spawn(
    process.execPath,
    [locate(name), ...(listing ? ['--help'] : args), ...(out.json && !listing ? ['--json'] : [])],
    { cwd: environment.cwd, env, stdio: ['ignore', 'pipe', 'pipe', 'ipc'], signal },
  );
  const rename = (text: string) => text.replaceAll(/npm run (?:--silent )?bench --/g, 'hers bench');
  let said = '';
  let complaint: string | undefined;
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    environment.stdout.write(rename(text));
  });
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-2000);
    if (!out.json) environment.stderr.write(rename(text));
  });
  child.once('message', (message) => {
    complaint = String(message);
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', (error) => reject(signal.aborted ? signal.reason : error));
    child.once('close', resolve);
  });
  if (code === 0) return;
  const last = rename(complaint ?? said.trim().split('\n').at(-1)!).replace(/^There/, 'there');
  const message = last || `hers ${name} failed`;
  throw new CommandError(code === EXIT.usage || code === EXIT.absent ? code : EXIT.unexpected, message);
}
