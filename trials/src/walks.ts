// node trials/src/walks.ts [walk…] [--json] [--functions]: prints the source files that a call
// enters, in the order of first visit. A reader walks through as many to understand the call.

import { parseArgs } from 'node:util';
import { type Trace, traceModules } from '@hers/client/testing/trace';
import type { Walk } from '@hers/client/testing/walks';

traceModules();
// Behind the line above, so that they are traced.
const { searching, THREADS, traceWalk, WALKS } = await import('@hers/client/testing/walks');

const USAGE = `Usage: node trials/src/walks.ts [walk…] [--json] [--functions]

Prints the source files that one call enters on the main thread, in the order of first visit, when
caches are full. A file counts as entered if a function ran that has a name and a block body. It is
only touched if these functions were of one expression.

Walks (all unless given):
  upsert    upsert of one record in a folder
  folder    search of a compact collection in a folder
  http      the same over HTTP, client and server in one process
  cluster   the same in a cluster of three nodes, which share the process and a ledger in memory
  device    a device posts a question, and the keeper answers: two traces

  --functions  names the functions as well
  --json       prints {trace: {entered: {file: [function, …]}, touched: [file, …]}}
`;

async function cluster(): Promise<Walk> {
  const { Database, HttpService, MasterSeed } = await import('@hers/client');
  const { LocalCluster } = await import('@hers/cluster/testing/local');
  const { startServer } = await import('@hers/server');
  const { withMethods } = await import('@hers/service');
  // Upkeep in the background would be traced by chance.
  const nodes = await LocalCluster.make({ tendMs: 600_000 });
  await nodes.start('n1', 'n2', 'n3');
  const server = await startServer(withMethods(nodes.coordinator('n1'), { close: async () => {} }), { port: 0 });
  const db = new Database(new HttpService(server.url), { key: MasterSeed.generate(), threads: THREADS });
  const steps = { cluster: await searching(db) };
  return {
    steps,
    async close() {
      await db.close();
      await server.close();
      await nodes.close();
    },
  };
}

const walks: Readonly<Record<string, () => Promise<Walk>>> = {
  upsert: WALKS.upsert,
  folder: WALKS.folder,
  http: WALKS.http,
  cluster,
  device: WALKS.device,
};

const short = (file: string) => file.replace('packages/', '').replace('/src/', '/');

/** Prints the files of a trace, and how many there are of each package. */
function print(name: string, { entered, touched }: Trace, withFunctions: boolean): void {
  const packages = Map.groupBy(entered.keys(), (file) => short(file).split('/')[0]!);
  const counts = [...packages]
    .sort(([, a], [, b]) => b.length - a.length)
    .map(([key, files]) => `${key} ${files.length}`);
  console.log(`${name}: ${entered.size} files (${counts.join(', ')})`);
  for (const [file, functions] of entered) {
    console.log(`  ${short(file)}`);
    if (withFunctions) console.log(`    ${[...functions].join(', ')}`);
  }
  if (touched.length > 0) console.log(`  touched: ${touched.map(short).join(', ')}`);
  console.log('');
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { json: { type: 'boolean' }, functions: { type: 'boolean' }, help: { type: 'boolean' } },
    });
    const unknown = positionals.find((name) => !Object.hasOwn(walks, name));
    if (unknown !== undefined) throw new TypeError(`there is no walk ${unknown}: ${Object.keys(walks).join(', ')}`);
    return { ...values, names: positionals.length > 0 ? positionals : Object.keys(walks) };
  } catch (error) {
    console.error((error as Error).message);
    process.exit(2);
  }
}

const { names, json, functions, help } = readArguments();
if (help) {
  process.stdout.write(USAGE);
  process.exit();
}
const traces: Record<string, object> = {};
for (const name of names)
  for (const [step, trace] of await traceWalk(walks[name]!)) {
    const entered = Object.fromEntries([...trace.entered].map(([file, functions]) => [file, [...functions]]));
    traces[step] = { entered, touched: trace.touched };
    if (!json) print(step, trace, functions ?? false);
  }
if (json) console.log(JSON.stringify(traces));
