// node store.js [PORT]: keeps the encrypted gallery and the inbox of its devices. It has no key: it
// cannot read what it keeps, what is asked, or who was found. The first start makes two tokens: one
// for the keeper, and one with which device 1 posts and does nothing else.

import { startServer, TokenStore } from 'hers/server';
import { openStore } from 'hers/store';

const port = Number(process.argv[2] ?? 7443);
const tokens = new TokenStore('tokens.json');
if ((await tokens.list()).length === 0) {
  console.log(`keeper ${(await tokens.create({ scope: 'admin' })).secret}`);
  const door = { scope: 'device', collection: 'faces', device: 1 };
  console.log(`device ${(await tokens.create(door)).secret}`);
}

const store = await openStore('gallery', { inbox: { items: 100 } });
const server = await startServer(store, { port, tokens: tokens.path });
console.log(`at ${server.url}`);

for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, async () => {
    await server.close();
    await store.close();
  });
