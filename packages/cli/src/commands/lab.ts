// `hers lab`: the experiments, which make the tables and figures of docs/results.

import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { runScript } from '../lab-script.ts';

export function addLab(program: HersCommand, context: () => Context): void {
  program
    .command('lab')
    .summary('run an experiment: every table and figure of docs/results')
    .description(
      "Runs an experiment, such as one of the paper's tables, and writes its data, page and plot. Without a name it lists the experiments and their options. `render` makes every page again from its data, or the one that is named, and measures nothing. --small runs an experiment in seconds to see that it works, and writes nothing; --out names the folder to write to. Some experiments need packages or data that a plain installation lacks, and say so.",
    )
    .argument('[name]', 'which')
    .argument('[options...]', 'options of the experiment')
    .allowUnknownOption()
    .allowExcessArguments()
    .example('hers lab', 'What there is')
    .example('hers lab table2 --small', 'Operations and memory of the published system, in a few seconds')
    .example('hers lab table2 --small --json', 'The data alone, for a program')
    .action((_name: string | undefined, _options: string[], _flags: object, command: HersCommand) =>
      runScript(context(), 'lab', command.args),
    );
}
