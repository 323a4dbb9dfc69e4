// node client.js ADDRESS ADMIN_TOKEN SEARCH_TOKEN: enrols with one token, searches with the other,
// and shows that the second one may not do more.

import { connect, MasterSeed } from 'hers/client';

const [address, admin, search] = process.argv.slice(2);
if (search === undefined) {
  console.error('Usage: node client.js ADDRESS ADMIN_TOKEN SEARCH_TOKEN');
  process.exit(2);
}
// Both clients belong to one owner here, who has the key. The server never sees it.
const key = MasterSeed.generate();

const owner = await connect(address, { key, token: admin });
const faces = await owner.createCollection('faces', { dimension: 3 });
await faces.upsert([
  { id: 'ada', vector: [1, 0, 0] },
  { id: 'grace', vector: [0, 1, 0] },
]);

const guest = await connect(address, { key, token: search, mode: 'read' });
const found = await guest.collection('faces');
console.log((await found.search([0.1, 0.9, 0], { limit: 1 })).matches[0].id);
await guest.deleteCollection('faces').catch(({ code }) => console.log(code));

await owner.deleteCollection('faces');
await guest.close();
await owner.close();
