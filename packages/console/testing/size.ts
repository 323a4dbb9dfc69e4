// npm run build -w packages/console: what the page weighs.

import { readPage } from '../src/node/index.node.ts';

const files = await readPage();
for (const { path, body, compressed } of files)
  console.log(`${(path || 'index.html').padEnd(16)} ${body.length} bytes, ${compressed.length} compressed`);
console.log(`${files.reduce((sum, { compressed }) => sum + compressed.length, 0)} bytes compressed in all`);
