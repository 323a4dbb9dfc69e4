// node server.js [PORT]: serves the folder ./gallery to whoever has a token. The first start makes
// two of them. The server has no key: it cannot read what it keeps.

import { startServer, TokenStore } from 'hers/server';
import { openStore } from 'hers/store';

const port = Number(process.argv[2] ?? 7443);
const tokens = new TokenStore('tokens.json');
if ((await tokens.list()).length === 0) {
  // A secret is shown once; the file keeps its hash.
  for (const scope of ['admin', 'search']) console.log(`${scope} ${(await tokens.create({ scope })).secret}`);
}

const store = await openStore('gallery');
// Other machines need TLS: { host: '0.0.0.0', tls: { cert: 'server.crt', key: 'server.key' } }.
const server = await startServer(store, { port, tokens: tokens.path, audit: 'audit.jsonl' });
console.log(`at ${server.url}`);

for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, async () => {
    await server.close();
    await store.close();
  });
