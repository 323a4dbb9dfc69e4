// Commands with examples: `--help` shows, docs/cli.md repeats and the tests run one text.

import { Command, CommanderError, Help, Option } from 'commander';
import { usageError } from './exit.ts';

export interface Example {
  /** A line for the shell. */
  readonly line: string;
  readonly description: string;
}

/** What Commander says, in our words. */
const IN_OUR_WORDS: readonly (readonly [RegExp, string])[] = [
  [/^missing required argument '(.+)'$/, 'the argument <$1> is missing'],
  [/^required option '(.+)' not specified$/, 'the option $1 is required'],
  [/^option '(.+)' argument missing$/, 'the option $1 lacks its value'],
  [/^option '(.+)' argument '(.*)' is invalid\. Allowed choices are (.+)\.$/, '$1 takes one of $3, not "$2"'],
  [
    /^command-argument value '(.*)' is invalid for argument '(.+)'\. Allowed choices are (.+)\.$/,
    '<$2> is one of $3, not "$1"',
  ],
  [
    /^too many arguments(?: for '.+')?\. Expected (\d+) arguments? but got (\d+)\.$/,
    'there are $2 arguments, and it takes $1',
  ],
];

export class HersCommand extends Command {
  readonly examples: Example[] = [];

  override createCommand(name?: string): HersCommand {
    return new HersCommand(name).helpCommand(false);
  }

  example(line: string, description: string): this {
    this.examples.push({ line, description });
    return this;
  }

  /** An option that takes one of these words. */
  choice(flags: string, description: string, choices: readonly string[], byDefault?: string): this {
    return this.addOption(new Option(flags, description).choices(choices).default(byDefault));
  }

  /** An option that takes a number of this kind. */
  number(flags: string, description: string, kind?: NumberKind, byDefault?: number): this {
    return this.addOption(numberOption(flags, description, kind).default(byDefault));
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
    const said = message.replace(/^error: /, '').replace(/\n\(?/g, ' (');
    const text = IN_OUR_WORDS.reduce((text, [theirs, ours]) => text.replace(theirs, ours), said);
    throw usageError(text, `\`${this.path} --help\` lists what there is`);
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
}

type NumberKind = 'any' | 'whole' | 'row' | 'port';

/** Kinds of numbers, in words, and whether a text is one. */
const NUMBERS: Readonly<Record<NumberKind, readonly [words: string, isOne: (text: string) => boolean]>> = {
  any: ['a number', (text) => text.trim() !== '' && Number.isFinite(Number(text))],
  whole: ['a whole number from 1 up', (text) => Number.isSafeInteger(Number(text)) && Number(text) >= 1],
  row: ['a whole number from 0 up', (text) => /^\d{1,15}$/.test(text)],
  port: ['a number from 0 to 65535', (text) => /^\d{1,5}$/.test(text) && Number(text) <= 65535],
};

export function numberOption(flags: string, description: string, kind: NumberKind = 'any'): Option {
  const [words, isOne] = NUMBERS[kind];
  const option = new Option(flags, description);
  return option.argParser((text) => {
    if (isOne(text)) return Number(text);
    throw usageError(`${option.long} takes ${words}, not ${JSON.stringify(text)}`);
  });
}

/** Leaves out what is undefined: options that were not given take their defaults. */
export function given<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
