// The options of every command that reads vectors.

import { Option } from 'commander';
import type { HersCommand } from '../command.ts';
import { CommandError, EXIT } from '../exit.ts';
import type { RowOptions } from './rows.ts';
import { FORMATS } from './rows.ts';

function delimiter(text: string): string {
  const character = text === '\\t' || text === 'tab' ? '\t' : text;
  if (character.length === 1) return character;
  throw new CommandError(EXIT.usage, `--delimiter takes one character, not ${JSON.stringify(text)}`);
}

/** How .csv and .jsonl are read. */
export function addRowOptions<T extends HersCommand>(command: T): T {
  return command
    .addOption(
      new Option('--format <format>', 'what the file is; told from its name or its first bytes by default').choices([
        ...FORMATS,
      ]),
    )
    .option('--id <column>', 'column (.csv) or field (.jsonl) with the id; `id` by default')
    .option(
      '--vector <column>',
      'column or field with the whole vector; `vector`, or all columns that are nothing else, by default',
    )
    .option('--delimiter <character>', 'between the cells of .csv; a comma by default', delimiter)
    .option('--no-header', 'the first line of .csv is data; told from its cells by default');
}

/** The flag is there even when nobody gave it. */
export function rowOptionsOf<T extends RowOptions>({ header, ...rest }: T): Omit<T, 'header'> & { header?: boolean } {
  return { ...rest, ...(header === false ? { header } : {}) };
}
