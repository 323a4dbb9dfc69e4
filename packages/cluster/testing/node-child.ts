// A node in its own process, for tests and benchmarks: prints its addresses, and shuts down in
// order when told to.
//
//   node node-child.ts <folder> <options of the node> <options of the server>

import { type Kernel, openKernel, ReferenceKernel } from '@hers/scan';
import { keepProcessSmall } from '@hers/server';
import { serveNode } from '../src/start.ts';

keepProcessSmall();
const [folder, node, server] = process.argv.slice(2);
const { reference, via, ...options } = JSON.parse(node);
const fastest = async () => (await openKernel()).kernel;
const store = reference ? { kernel: async () => new ReferenceKernel(), quietMs: 5 } : { kernel: counted(fastest) };

// Bytes of segments that were compared with queries. Whoever started this process may ask for it.
let scanned = 0;
function counted(open: () => Promise<Kernel>): () => Promise<Kernel> {
  return async () => {
    const kernel = await open();
    const count = <A extends Parameters<Kernel['scan']>, R>(scan: (...args: A) => R) =>
      function counting(...args: A): R {
        for (const { header } of args[0]) scanned += args[1].length * (header.fileBytes - header.dataAt);
        return scan(...args);
      };
    const { batches } = kernel;
    return Object.assign(kernel, {
      scan: count(kernel.scan.bind(kernel)),
      ...(batches ? { batches: count(batches.bind(kernel)) } : {}),
    });
  };
}
process.on('message', () => process.send?.({ scanned }));
process.channel?.unref();
const quiet = process.env.HERS_QUIET === '1';

// The clock of the machine jumps: back and forth, by up to two days.
const clock = Date.now;
process.on('SIGUSR2', () => {
  const offset = (Math.random() - 0.5) * 4 * 24 * 3600 * 1000;
  Date.now = () => Math.round(clock() + offset);
});

const running = await serveNode(
  folder,
  {
    ...options,
    store,
    ...(via ? { reach: (url: string) => via[url] ?? url } : {}),
    onBackgroundError: (error) => {
      if (!quiet) console.error(options.node, error);
    },
  },
  JSON.parse(server),
);
console.log(JSON.stringify({ url: running.url, nodeUrl: running.nodeUrl }));

process.on('SIGTERM', async () => {
  await running.close();
  process.exit(0);
});
