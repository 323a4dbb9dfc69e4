// The whole command: its options, its parts, and how a run of it ends.

import { type Command, CommanderError, Option } from 'commander';
import { HersCommand } from './command.ts';
import { addCluster } from './commands/cluster.ts';
import { addCollections } from './commands/collections.ts';
import { addCompress } from './commands/compress.ts';
import { addConfig } from './commands/config.ts';
import { addConsole } from './commands/console.ts';
import { addDevices } from './commands/devices.ts';
import { addDoctor } from './commands/doctor.ts';
import { addFields } from './commands/fields.ts';
import { addImport } from './commands/import.ts';
import { addInit } from './commands/init.ts';
import { addKeys } from './commands/keys.ts';
import { addRecords } from './commands/records.ts';
import { addReport } from './commands/report.ts';
import { addSearch } from './commands/search.ts';
import { addServe } from './commands/serve.ts';
import { addTokens } from './commands/tokens.ts';
import { addUpkeep } from './commands/upkeep.ts';
import { addCompletion } from './completion.ts';
import { Context, type Environment, type GlobalFlags } from './context.ts';
import { EXIT, type Exit, endingOf, Interrupted } from './exit.ts';
import { settings } from './settings.ts';
import { VERSION } from './version.ts';

/** The command, with actions that run in the context that `context` gives when they are run. */
export function makeProgram(context: () => Context): HersCommand {
  const program = new HersCommand('hers')
    .description('Encrypted 1:N similarity search: a gallery of embeddings that whoever keeps it cannot read.')
    .version(VERSION, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print what there is')
    .helpCommand('help [command...]', 'print how a command is used');
  for (const [, { flags, description, choices }] of settings) {
    const option = new Option(flags, description);
    program.addOption(choices ? option.choices(choices) : option);
  }
  program
    .option('--config <file>', 'another hers.config.json')
    .option('--json', 'print JSON, one object a line, and errors as JSON too')
    .option('--verbose', 'say more, above all about errors')
    .example('hers init', 'Make a key and an empty gallery')
    .example('hers collections create faces --dimension 128', 'Make a collection')
    .example('hers import vectors.npy --ids names.txt', 'Encrypt vectors into it')
    .example('hers search probes.npy --row 0', 'Search it');
  for (const add of [
    addInit,
    addKeys,
    addCollections,
    addFields,
    addImport,
    addSearch,
    addRecords,
    addUpkeep,
    addCompress,
    addReport,
    addServe,
    addCluster,
    addConsole,
    addTokens,
    addDevices,
    addDoctor,
    addConfig,
    addCompletion,
  ])
    add(program, context);
  return program;
}

/** Runs `hers` with these arguments, and returns its exit code. */
export async function run(args: readonly string[], environment: Environment): Promise<Exit> {
  let context: Context | undefined;
  const program = makeProgram(() => context!);
  const { stdout, stderr } = environment;
  // Subcommands copy this when they are made; these exist already.
  const configure = (command: HersCommand) => {
    command.exitOverride().configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      outputError: () => {},
      getOutHelpWidth: () => Math.min(stdout.columns ?? 100, 120),
    });
    for (const each of command.subcommands) configure(each);
  };
  configure(program);
  program.hook('preAction', () => {
    context = new Context(environment, program.opts<GlobalFlags>());
  });
  try {
    if (args.length === 0) {
      program.outputHelp();
      return EXIT.done;
    }
    // `hers help keys create` is `hers keys create --help`, at any depth.
    const asked = args[0] === 'help' ? helpFor(program, args.slice(1)) : [...args];
    await program.parseAsync(asked, { from: 'user' });
    // Output that could not be written, because the disk is full perhaps, is no output; a stream
    // says so a moment later.
    await new Promise(setImmediate);
    const { reason } = environment.signal;
    if (reason !== undefined && !(reason instanceof Interrupted)) throw reason;
    return context?.exit ?? EXIT.done;
  } catch (error) {
    // The arguments could not be understood.
    const flags = { json: args.includes('--json'), verbose: args.includes('--verbose') };
    return report(error, context ?? new Context(environment, flags));
  }
}

function report(error: unknown, { out, signal }: Context): Exit {
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done;
  // What breaks because of Ctrl-C, or because nobody reads any more, is not a failure of its own.
  const interrupted = signal.aborted && (error === signal.reason || (error as Error).name === 'AbortError');
  const cause = interrupted ? signal.reason : error;
  if ((cause as NodeJS.ErrnoException).code === 'EPIPE') return EXIT.done;
  const ending = endingOf(cause);
  out.failure(ending, cause);
  return ending.exit;
}

/** Asks for the help of a command; of one that does not exist, for the command, which says so. */
function helpFor(program: Command, names: readonly string[]): string[] {
  let command: Command | undefined = program;
  for (const name of names) {
    command = command.commands.find((each) => each.name() === name || each.aliases().includes(name));
    if (!command) return [...names];
  }
  return [...names, '--help'];
}
