// `hers bench`: the benchmarks of the lab, as they are.

import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { type LabScript, runScript } from '../lab-script.ts';

const SCRIPT: LabScript = {
  name: 'bench',
  what: 'the benchmark',
  resolve: () => import.meta.resolve('@hers/lab/bench'),
};

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
      runScript(context(), SCRIPT, command.args),
    );
}
