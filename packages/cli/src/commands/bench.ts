// `hers bench`: the benchmarks of the lab, as they are.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { CommandError, EXIT } from '../exit.ts';

export function addBench(program: HersCommand, context: () => Context): void {
  program
    .command('bench')
    .summary('measure this machine')
    .description(
      'Runs a benchmark: scheme (encryption and decryption beside SEAL), scan (the kernels beside plain reading), embedded (a whole gallery in a folder). Without a name it lists them and their options.',
    )
    .argument('[name]', 'which')
    .argument('[options...]', 'options of the benchmark')
    .allowUnknownOption()
    .allowExcessArguments()
    .example('hers bench', 'What there is')
    .example('hers bench scheme --quick', 'A rough figure of the cryptography, in a few seconds')
    .action((_name: string | undefined, _options: string[], _flags: object, command: HersCommand) =>
      bench(context(), command.args),
    );
}

async function bench(context: Context, args: readonly string[]): Promise<void> {
  const { surroundings, out, signal } = context;
  const script = fileURLToPath(import.meta.resolve('@hers/lab/bench'));
  const listing = args.length === 0;
  // A benchmark makes keys of its own; it needs none of ours.
  const env = Object.fromEntries(Object.entries(surroundings.env).filter(([name]) => !/PASSPHRASE/.test(name)));
  const child = spawn(
    process.execPath,
    [script, ...(listing ? ['--help'] : args), ...(out.json && !listing ? ['--json'] : [])],
    {
      cwd: surroundings.cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      signal,
    },
  );
  const rename = (text: string) => text.replaceAll(/npm run (?:--silent )?bench --/g, 'hers bench');
  let complaint = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    surroundings.stdout.write(rename(text));
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-2000);
    if (surroundings.stderr.isTTY) surroundings.stderr.write(rename(text));
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', (error) => reject(signal.aborted ? signal.reason : error));
    child.once('close', resolve);
  });
  if (code === 0) return;
  const [last = 'the benchmark failed'] = rename(complaint)
    .trim()
    .split('\n')
    .slice(code === 2 ? 0 : -1);
  throw new CommandError(code === 2 ? EXIT.usage : EXIT.unexpected, last);
}
