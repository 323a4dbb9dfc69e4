// `hers bench`: the benchmarks of the lab, as they are.

import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { runScript } from '../lab-script.ts';

export function addBench(program: HersCommand, context: () => Context): void {
  program
    .command('bench')
    .summary('measure this machine')
    .description(
      'Runs a benchmark of the laboratory and prints its figures: `scheme` (encryption and decryption beside SEAL), `open` (open queries), `scan` (the kernels beside plain reading), `compress` (compressors), `embedded` (the database in a folder), `filters` (fields, filters and opening a collection), `canaries` (what checking every response costs), `scrub` (verifying every byte of it), `service` (the database behind HTTP) or `cluster` (on several nodes). Without a name it lists their options.',
    )
    .argument('[name]', 'which')
    .argument('[options...]', 'options of the benchmark')
    .allowUnknownOption()
    .allowExcessArguments()
    .example('hers bench', 'What there is')
    .example('hers bench scheme --quick', 'A rough figure of the cryptography, in a few seconds')
    .action((_name: string | undefined, _options: string[], _flags: object, command: HersCommand) =>
      runScript(context(), 'bench', command.args),
    );
}
