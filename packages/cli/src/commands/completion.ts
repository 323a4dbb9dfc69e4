// `hers completion`: a script for the shell, made from the commands themselves.

import { Argument } from 'commander';
import type { HersCommand } from '../command.ts';
import { completionFor, SHELLS, type Shell } from '../completion.ts';
import type { Context } from '../context.ts';

export function addCompletion(program: HersCommand, context: () => Context): void {
  const command = program
    .command('completion')
    .summary('a completion script for a shell')
    .description('Prints a script that completes commands, options and their values.')
    .addArgument(new Argument('<shell>', 'which').choices([...SHELLS]));
  command
    .example('source <(hers completion bash)', 'For this session; for all, put the line into ~/.bashrc')
    .example('hers completion zsh > _hers', 'Into a folder of zsh’s $fpath')
    .example('hers completion fish > hers.fish', 'Into ~/.config/fish/completions')
    .action((shell: Shell) => {
      const { out } = context();
      const script = completionFor(shell, program);
      if (out.json) out.object({ shell, script });
      else out.text(script);
    });
}
