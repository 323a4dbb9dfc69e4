// The command behind `npm run bench -- <name> [--json] [options]`. A benchmark is loaded only when it is run, so that
// `--help` is instant and one that needs something this machine lacks does not stop the others.

import { type ParseArgsOptionDescriptor, parseArgs } from 'node:util';
import { complain, print, type Report } from './report.ts';

type Option = ParseArgsOptionDescriptor & { help: string };
type Values = { [name: string]: string | boolean | (string | boolean)[] | undefined };
type Bench = { summary: string; options: Record<string, Option>; run(values: Values): Promise<Report> };

const benches: Record<string, Bench> = {
  scheme: {
    summary: "the client's cryptography: NTT, encryption, decryption, sizes, beside SEAL",
    options: { quick: { type: 'boolean', help: 'one run of each: rough figures in a few seconds' } },
    run: async (values) => (await import('./bench-scheme.ts')).run(values),
  },
  scan: {
    summary: 'the server: kernels beside plain reading and a plaintext search of the same shape',
    options: {
      count: { type: 'string', help: 'templates (1000000)' },
      dimension: { type: 'string', help: 'dimensions (128; then also 32 and 512)' },
      profile: { type: 'string', help: 'compact or exact (compact)' },
      runs: { type: 'string', help: 'runs of each measurement (9)' },
      folder: { type: 'string', help: 'where the gallery is written (the temporary folder)' },
      alone: { type: 'boolean', help: 'this dimension alone' },
    },
    run: async (values) => (await import('./bench-scan.ts')).run(values),
  },
  compress: {
    summary: 'compression: one vector, batches, and with --training the time of a training, extrapolated',
    options: {
      quick: { type: 'boolean', help: 'one run of each: rough figures in a few seconds' },
      training: { type: 'boolean', help: 'DeepMDS++ of 512 dimensions for some epochs' },
      count: { type: 'string', help: 'synthetic vectors to train on (100000)' },
      epochs: { type: 'string', help: 'epochs to time (5)' },
    },
    run: async (values) => (await import('./bench-compress.ts')).run(values),
  },
  embedded: {
    summary: 'the database in a folder: enrolment, opening, searches by phase, beside a search in the clear',
    options: {
      count: { type: 'string', help: 'records (1000000)' },
      dimension: { type: 'string', help: 'dimensions (128)' },
      searches: { type: 'string', help: 'timed searches (50)' },
      folder: { type: 'string', help: 'where the database is written (the temporary folder)' },
    },
    run: async (values) => (await import('./bench-embedded.ts')).run(values),
  },
  scrub: {
    summary: 'every byte of a folder verified, on one core and on all, beside plain reading of the same files',
    options: {
      count: { type: 'string', help: 'records (1000000)' },
      dimension: { type: 'string', help: 'dimensions (128)' },
      runs: { type: 'string', help: 'runs of each measurement (3)' },
      folder: { type: 'string', help: 'where the folder is written (the temporary folder)' },
    },
    run: async (values) => (await import('./bench-scrub.ts')).run(values),
  },
  service: {
    summary:
      'the same behind HTTP on this machine: searches by phase, throughput, beside the folder, the line and the scan',
    options: {
      count: { type: 'string', help: 'records (1000000)' },
      dimension: { type: 'string', help: 'dimensions (128)' },
      searches: { type: 'string', help: 'timed searches (50)' },
      seconds: { type: 'string', help: 'seconds for each throughput (10)' },
      folder: { type: 'string', help: 'where the database is written (the temporary folder)' },
    },
    run: async (values) => (await import('./bench-service.ts')).run(values),
  },
};

const common: Record<string, Option> = {
  json: { type: 'boolean', help: 'print one JSON object and nothing else' },
  help: { type: 'boolean', short: 'h', help: 'print this' },
};

/** A mistake in how the command was called: its message is all the user needs to see. */
class UsageError extends Error {}

function help(): string {
  const lines = ['Usage: npm run bench -- <name> [--json] [options]', '', 'Benchmarks:'];
  for (const [name, { summary, options }] of Object.entries(benches)) {
    lines.push(`  ${name.padEnd(12)} ${summary}`);
    for (const line of optionLines(options)) lines.push(`    ${line}`);
  }
  lines.push('', 'Options of all:', ...optionLines(common).map((line) => `  ${line}`));
  lines.push(
    '',
    'Examples:',
    '  npm run bench -- scheme',
    '  npm run bench -- scan --count 1000000 --dimension 128',
    '  npm run --silent bench -- scheme --json > scheme.json',
  );
  return `${lines.join('\n')}\n`;
}

function optionLines(options: Record<string, Option>): string[] {
  return Object.entries(options).map(([name, option]) => {
    const usage = option.type === 'string' ? `--${name} <value>` : `--${name}`;
    return `${usage.padEnd(12)} ${option.help}`;
  });
}

function parse(args: string[]): { bench: Bench | undefined; values: Values } {
  const position = args.findIndex((arg) => !arg.startsWith('-'));
  const name = args[position];
  const bench = name !== undefined && Object.hasOwn(benches, name) ? benches[name] : undefined;
  if (name !== undefined && !bench) throw new UsageError(`There is no benchmark '${name}'`);
  try {
    const options = { ...common, ...bench?.options };
    return { bench, values: parseArgs({ args: args.filter((_, i) => i !== position), options }).values };
  } catch (error) {
    // Node's messages go on to explain positional arguments; their first sentence is the one that matters.
    throw new UsageError((error as Error).message.split('. ')[0], { cause: error });
  }
}

async function main(args: string[]): Promise<void> {
  const { bench, values } = parse(args);
  if (values.help) process.stdout.write(help());
  else if (bench) print(await bench.run(values), { json: values.json === true });
  else throw new UsageError('Name the benchmark to run');
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  complain(`${error.message}; \`npm run bench -- --help\` lists what there is.`);
  process.exitCode = 2;
}
