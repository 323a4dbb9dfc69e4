// Commands with examples: what `--help` shows, docs/cli.md repeats and the tests run is one and the
// same text.

import { Command, CommanderError, Help } from 'commander';
import { CommandError, EXIT } from './exit.ts';

export interface Example {
  /** A line for the shell. */
  readonly line: string;
  readonly description: string;
}

export class HersCommand extends Command {
  readonly examples: Example[] = [];

  override createCommand(name?: string): HersCommand {
    return new HersCommand(name).helpCommand(false);
  }

  example(line: string, description: string): this {
    this.examples.push({ line, description });
    return this;
  }

  get subcommands(): readonly HersCommand[] {
    return this.commands as unknown as readonly HersCommand[];
  }

  /** `hers keys create` */
  get path(): string {
    const parent = this.parent as HersCommand | null;
    return parent ? `${parent.path} ${this.name()}` : this.name();
  }

  override createHelp(): Help {
    return Object.assign(new HelpWithExamples(), this.configureHelp());
  }

  /** A group of commands alone shows what is in it, as `hers` alone does. */
  override help(): never {
    this.outputHelp();
    throw new CommanderError(0, 'commander.help', '(outputHelp)');
  }

  /** Every error in how the command was called ends here, with its own help as the next step. */
  override error(message: string, options?: { exitCode?: number; code?: string }): never {
    if (options?.code === 'commander.help' || options?.code === 'commander.version')
      throw new CommanderError(0, options.code, message);
    const text = message.replace(/^error: /, '').replace(/\n\(?/g, ' (');
    throw new CommandError(EXIT.usage, text, `\`${this.path} --help\` lists what there is`);
  }
}

class HelpWithExamples extends Help {
  override showGlobalOptions = true;

  override formatHelp(command: Command, help: Help): string {
    const text = super.formatHelp(command, help).trimEnd();
    const { examples } = command as HersCommand;
    if (examples.length === 0) return `${text}\n`;
    const lines = examples.flatMap(({ line, description }) => [`  # ${description}`, `  ${line}`]);
    return `${text}\n\nExamples:\n${lines.join('\n')}\n`;
  }

  // Every command has --help; saying so once is enough.
  override visibleOptions(command: Command) {
    const options = super.visibleOptions(command);
    return command.parent ? options.filter((option) => option.long !== '--help') : options;
  }
}

/** A number in an option; `whole` ones from 1 up. */
export function numberOption(name: string, { whole = false }: { readonly whole?: boolean } = {}) {
  return (text: string): number => {
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (whole ? Number.isSafeInteger(value) && value >= 1 : Number.isFinite(value)) return value;
    throw new CommandError(
      EXIT.usage,
      `${name} takes a ${whole ? 'whole number from 1 up' : 'number'}, not ${JSON.stringify(text)}`,
    );
  };
}
