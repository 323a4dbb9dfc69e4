// A node in its own process, for tests and benchmarks: prints its addresses, and shuts down in
// order when told to.
//
//   node node-child.ts <folder> <options of the node> <options of the server>

import { ReferenceKernel } from '@hers/scan';
import { serveNode } from '../src/start.ts';

const [folder, node, server] = process.argv.slice(2);
const { reference, ...options } = JSON.parse(node);
const store = reference ? { kernel: async () => new ReferenceKernel(), quietMs: 5 } : {};
const running = await serveNode(
  folder,
  { ...options, store, onBackgroundError: (error) => console.error(options.node, error) },
  JSON.parse(server),
);
console.log(JSON.stringify({ url: running.url, nodeUrl: running.nodeUrl }));

process.on('SIGTERM', async () => {
  await running.close();
  process.exit(0);
});
