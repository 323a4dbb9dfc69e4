// `hers completion`: a script for the shell, made from the commands themselves. It lists the words
// of every command, because asking the program at every key would be too slow.

import { Argument } from 'commander';
import type { HersCommand } from './command.ts';
import type { Context } from './context.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

interface Word {
  readonly word: string;
  readonly description: string;
}

interface Level {
  /** `hers keys`, without the first word: `keys`. */
  readonly path: string;
  readonly commands: readonly Word[];
  readonly options: readonly (Word & { readonly values?: readonly string[]; readonly takesValue: boolean })[];
  /** Values of its arguments, where only some are possible; files otherwise. */
  readonly values: readonly string[];
}

type Levels = readonly [Level, ...Level[]];

/** The program first. */
function levelsOf(program: HersCommand): Levels {
  const global = optionsOf(program);
  const visit = (command: HersCommand): Levels => {
    const path = command.path.split(' ').slice(1).join(' ');
    const commands = command.subcommands.map((each) => ({ word: each.name(), description: each.summary() }));
    const options = command === program ? global : [...optionsOf(command), ...global];
    const values = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
    return [{ path, commands, options, values }, ...command.subcommands.flatMap(visit)];
  };
  return visit(program);
}

function optionsOf(command: HersCommand): Level['options'] {
  const options = command.options.map((option) => ({
    word: option.long ?? option.short!,
    description: option.description,
    takesValue: option.required,
    ...(option.argChoices ? { values: option.argChoices } : {}),
  }));
  return [...options, { word: '--help', description: 'what there is', takesValue: false }];
}

export function completionFor(shell: Shell, program: HersCommand): string {
  const levels = levelsOf(program);
  if (shell === 'bash') return bash(levels);
  return shell === 'zsh' ? zsh(levels) : fish(levels);
}

const wordList = (words: readonly string[]) => words.join(' ');

function valueCases(levels: readonly Level[]): Map<string, readonly string[]> {
  return new Map(
    levels.flatMap(({ options }) => options.flatMap(({ word, values }) => (values ? [[word, values] as const] : []))),
  );
}

/** All options that take a value. */
const valueOptions = (levels: readonly Level[]): string[] => [
  ...new Set(levels.flatMap(({ options }) => options.filter((o) => o.takesValue).map((o) => o.word))),
];

function bash(levels: readonly Level[]): string {
  const paths = levels.filter(({ path }) => path !== '');
  const takingValue = valueOptions(levels).join('|');
  return `# hers completion for bash: source <(hers completion bash)
_hers() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" path='' i word
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    case "$word" in
      ${takingValue}) ((i++)); continue ;;
      -*) continue ;;
    esac
    case "$path $word" in
${paths.map(({ path }) => `      ${stepTo(path)}) path=${JSON.stringify(path)} ;;`).join('\n')}
    esac
  done
  case "$previous" in
${[...valueCases(levels)].map(([option, values]) => `    ${option}) COMPREPLY=($(compgen -W ${JSON.stringify(wordList(values))} -- "$current")); return ;;`).join('\n')}
    ${takingValue}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  local words='' options=''
  case "$path" in
${levels
  .map(
    ({ path, commands, values, options }) =>
      `    ${JSON.stringify(path)}) words=${JSON.stringify(wordList([...commands.map((c) => c.word), ...values]))}; options=${JSON.stringify(wordList(options.map((o) => o.word)))} ;;`,
  )
  .join('\n')}
  esac
  if [[ "$current" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -n "$words" ]]; then COMPREPLY=($(compgen -W "$words" -- "$current"))
  else COMPREPLY=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _hers hers
`;
}

/** The command before it, a space, and its own word. */
const stepTo = (path: string) => JSON.stringify(path.includes(' ') ? path : ` ${path}`);

/** In single quotes; colons part a word from its description. */
const zshWord = ({ word, description }: Word) =>
  `'${`${word.replaceAll(':', '\\:')}:${description}`.replaceAll("'", "'\\''")}'`;

function zsh(levels: readonly Level[]): string {
  const paths = levels.filter(({ path }) => path !== '');
  const takingValue = valueOptions(levels).join('|');
  return `#compdef hers
# hers completion for zsh: put this file into a folder of $fpath under the name _hers
_hers() {
  local current="\${words[CURRENT]}" previous="\${words[CURRENT-1]}" path_so_far='' word
  integer i
  for ((i = 2; i < CURRENT; i++)); do
    word="\${words[i]}"
    case "$word" in
      (${takingValue}) ((i++)); continue ;;
      (-*) continue ;;
    esac
    case "$path_so_far $word" in
${paths.map(({ path }) => `      (${stepTo(path)}) path_so_far=${JSON.stringify(path)} ;;`).join('\n')}
    esac
  done
  case "$previous" in
${[...valueCases(levels)].map(([option, values]) => `    (${option}) compadd -- ${wordList(values)}; return ;;`).join('\n')}
    (${takingValue}) _files; return ;;
  esac
  local -a commands options
  case "$path_so_far" in
${levels
  .map(
    ({ path, commands, values, options }) =>
      `    (${JSON.stringify(path)}) commands=(${[...commands, ...values.map((word) => ({ word, description: '' }))].map(zshWord).join(' ')}); options=(${options.map(zshWord).join(' ')}) ;;`,
  )
  .join('\n')}
  esac
  if [[ "$current" == -* ]]; then _describe option options
  elif (( \${#commands} )); then _describe command commands
  else _files; fi
}
if [[ "$funcstack[1]" == _hers ]]; then _hers "$@"; else compdef _hers hers; fi
`;
}

const fishQuoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

function fish(levels: Levels): string {
  const lines = ['# hers completion for fish: put this file into ~/.config/fish/completions'];
  const [top, ...rest] = levels;
  const names = top.commands.map(({ word }) => word);
  const option = (when: string, { word, description, takesValue, values }: Level['options'][number]) => {
    const value = takesValue ? ` -r${values ? ` -f -a ${fishQuoted(wordList(values))}` : ''}` : '';
    lines.push(`complete -c hers${when} -l ${word.replace(/^--/, '')} -d ${fishQuoted(description)}${value}`);
  };
  for (const each of top.options) option('', each);
  for (const { word, description } of top.commands)
    lines.push(
      `complete -c hers -f -n ${fishQuoted(`not __fish_seen_subcommand_from ${wordList(names)}`)} -a ${word} -d ${fishQuoted(description)}`,
    );
  const global = new Set(top.options.map(({ word }) => word));
  for (const { path, commands, options, values } of rest) {
    const seen = path
      .split(' ')
      .map((word) => `__fish_seen_subcommand_from ${word}`)
      .join('; and ');
    const inner = commands.map(({ word }) => word);
    for (const { word, description } of commands)
      lines.push(
        `complete -c hers -f -n ${fishQuoted(`${seen}; and not __fish_seen_subcommand_from ${wordList(inner)}`)} -a ${word} -d ${fishQuoted(description)}`,
      );
    for (const value of values) lines.push(`complete -c hers -f -n ${fishQuoted(seen)} -a ${value}`);
    for (const each of options.filter(({ word }) => !global.has(word))) option(` -n ${fishQuoted(seen)}`, each);
  }
  return `${lines.join('\n')}\n`;
}

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
