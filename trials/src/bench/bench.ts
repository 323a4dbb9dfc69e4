// The command behind `npm run bench -- <name> [--json] [options]`. A benchmark is loaded only when
// it runs. So `--help` is instant, and a benchmark that this machine cannot run does not stop the
// others.

import { registerCuda } from '@hers/cuda';
import { print, type Report } from '@hers/paper/lab/report';
import { type Listed, parse, type Runner, refuse, UsageError, type Values } from '@hers/paper/lab/runner';

interface Bench extends Listed {
  run(values: Values): Promise<Report>;
}

const BENCHES: Readonly<Record<string, Bench>> = {
  scheme: {
    summary: "the client's cryptography: NTT, encryption, decryption, sizes, beside SEAL",
    options: {
      quick: { type: 'boolean', help: 'one run of each: rough figures in a few seconds' },
      profile: { type: 'string', help: 'one profile alone: compact, small or exact' },
    },
    run: async (values) => (await import('./scheme.ts')).run(values),
  },
  canaries: {
    summary: 'what checking responses by canaries adds to a search, with integrity standard and strong',
    options: {
      dimension: { type: 'string', help: 'dimensions (128)' },
      quick: { type: 'boolean', help: 'one run of each: rough figures in a few seconds' },
    },
    run: async (values) => (await import('./canaries.ts')).run(values),
  },
  open: {
    summary: 'open queries: expansion, packing, bytes and errors, and searches over HTTP beside compact',
    options: {
      count: { type: 'string', help: 'records (1000000)' },
      searches: { type: 'string', help: 'searches of each profile (40)' },
      folder: {
        type: 'string',
        help: 'where the gallery goes while it is measured; the folder for temporary files by default',
      },
      dimension: { type: 'string', help: 'dimensions (128)' },
      quick: { type: 'boolean', help: 'one run of each: rough figures in a few seconds' },
    },
    run: async (values) => (await import('./open.ts')).run(values),
  },
  scan: {
    summary: 'the server: kernels beside plain reading and a plaintext search of the same shape',
    options: {
      count: { type: 'string', help: 'templates (1000000)' },
      dimension: { type: 'string', help: 'dimensions (128; then also 32 and 512)' },
      profile: { type: 'string', help: 'compact, small or exact (compact)' },
      runs: { type: 'string', help: 'runs of each measurement (21)' },
      folder: { type: 'string', help: 'where the gallery is written (the temporary folder)' },
      isa: { type: 'string', help: 'instructions of the native code, such as avx2 (the best of this machine)' },
      alone: { type: 'boolean', help: 'this dimension alone' },
      kernel: { type: 'string', help: 'cuda: on a GPU, with a gallery made there, of up to 100 million' },
    },
    run: async ({ kernel, ...values }) =>
      kernel === undefined
        ? (await import('./scan.ts')).run(values)
        : (await import('./scan-cuda.ts')).run({ ...values, kernel: String(kernel) }),
  },
  compress: {
    summary: 'compression: one vector, batches, and with --training the time of a training, extrapolated',
    options: {
      quick: { type: 'boolean', help: 'one run of each: rough figures in a few seconds' },
      training: { type: 'boolean', help: 'the networks of the paper, of 512 dimensions, for some steps' },
      count: { type: 'string', help: 'synthetic vectors to train on (100000)' },
      steps: { type: 'string', help: 'steps to time (100)' },
    },
    run: async (values) => (await import('./compress.ts')).run(values),
  },
  embedded: {
    summary: 'the database in a folder: enrolment, opening, searches by phase, beside a search in the clear',
    options: {
      count: { type: 'string', help: 'records (1000000)' },
      dimension: { type: 'string', help: 'dimensions (128)' },
      searches: { type: 'string', help: 'timed searches (50)' },
      folder: { type: 'string', help: 'where the database is written (the temporary folder)' },
      kernel: { type: 'string', help: 'cuda: a gallery in the memory of a GPU, made in bulk, of up to 100 million' },
      profile: { type: 'string', help: 'with --kernel: compact, small or exact (compact)' },
      integrity: { type: 'string', help: 'with --kernel: standard or strong (standard)' },
    },
    run: async ({ kernel, ...values }) =>
      kernel === undefined
        ? (await import('./embedded.ts')).run(values)
        : (await import('./bulk.ts')).run({ ...values, kernel: String(kernel) }),
  },
  scrub: {
    summary: 'every byte of a folder verified, on one core and on all, beside plain reading of the same files',
    options: {
      count: { type: 'string', help: 'records (1000000)' },
      dimension: { type: 'string', help: 'dimensions (128)' },
      runs: { type: 'string', help: 'runs of each measurement (3)' },
      folder: { type: 'string', help: 'where the folder is written (the temporary folder)' },
    },
    run: async (values) => (await import('./scrub.ts')).run(values),
  },
  service: {
    summary:
      'the same behind HTTP on this machine: searches by phase, throughput, beside the folder, the connection and the scan',
    options: {
      count: { type: 'string', help: 'records (1000000)' },
      dimension: { type: 'string', help: 'dimensions (128)' },
      searches: { type: 'string', help: 'timed searches (50)' },
      seconds: { type: 'string', help: 'seconds for each throughput (10)' },
      folder: { type: 'string', help: 'where the database is written (the temporary folder)' },
    },
    run: async (values) => (await import('./service.ts')).run(values),
  },
  cluster: {
    summary:
      'the same gallery on clusters of several nodes beside one plain server: enrolment, searches, work per node',
    options: {
      nodes: { type: 'string', help: 'how many nodes, one cluster after the other (1,2,3)' },
      count: { type: 'string', help: 'records (100000)' },
      dimension: { type: 'string', help: 'dimensions (128)' },
      searches: { type: 'string', help: 'timed searches (100)' },
      shards: { type: 'string', help: 'shards of the collection (12)' },
    },
    run: async (values) => (await import('./cluster.ts')).run(values),
  },
  filters: {
    summary: 'fields and filters: searches with a filter beside those without, memory, opening, bytes on disk',
    options: {
      count: { type: 'string', help: 'records (100000)' },
      dimension: { type: 'string', help: 'dimensions (16)' },
      searches: { type: 'string', help: 'timed searches of each kind (40)' },
      opens: { type: 'string', help: 'processes that open the collection, of each kind (3)' },
      folder: { type: 'string', help: 'where the database is written (the temporary folder)' },
      'lists-only': { type: 'boolean', help: 'what a client keeps in memory alone, of up to 100 million records' },
    },
    run: async (values) => (await import('./filters.ts')).run(values),
  },
};

const RUNNER: Runner<Bench> = {
  command: 'npm run bench --',
  noun: 'benchmark',
  items: Object.fromEntries(Object.entries(BENCHES).map(([name, bench]) => [name, () => bench])),
  common: { json: { type: 'boolean', help: 'print one JSON object and nothing else' } },
  examples: [
    'npm run bench -- scheme',
    'npm run bench -- scan --count 1000000 --dimension 128',
    'npm run --silent bench -- scheme --json > scheme.json',
  ],
  remedy: '`npm run bench -- --help` lists what there is',
};

try {
  const call = await parse(RUNNER, process.argv.slice(2));
  await registerCuda();
  if (call) print(await call.item.run(call.values), { json: call.values.json === true });
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.exitCode = refuse(RUNNER, error);
}
