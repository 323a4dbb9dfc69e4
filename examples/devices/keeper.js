// node keeper.js ADDRESS KEEPER_TOKEN DEVICE_TOKEN: holds the key. The first start makes the key, a
// gallery of three people, and the bundle of a door. Then it answers what the door asks, each
// question once, also when it was ended meanwhile.

import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { connect, MasterSeed } from 'hers/client';
import { NonceFile } from 'hers/keeper';
import { VersionFile } from 'hers/versions';

const [address, token, deviceToken] = process.argv.slice(2);
if (deviceToken === undefined) {
  console.error('Usage: node keeper.js ADDRESS KEEPER_TOKEN DEVICE_TOKEN');
  process.exit(2);
}

const isFirst = !existsSync('keeper.key');
// Keep it better than in this example: whoever has it can decrypt everything.
if (isFirst) await writeFile('keeper.key', MasterSeed.generate().reveal(), { mode: 0o600 });
const key = MasterSeed.from(await readFile('keeper.key'));
const db = await connect(address, { key, token, versions: new VersionFile('keeper.seen.json') });

if (isFirst) {
  const made = await db.createCollection('faces', { dimension: 4, profile: 'open' });
  await made.upsert(
    [
      { id: 'ada', vector: [1, 0, 0, 0] },
      { id: 'grace', vector: [0, 1, 0, 0] },
      { id: 'mary', vector: [0, 0, 1, 0] },
    ],
    { optimize: 'always' },
  );
  // All that the door needs, and nothing that opens the gallery.
  const bundle = await made.addDevice('door', { address, token: async () => deviceToken });
  await writeFile('door.device', bundle, { mode: 0o600 });
}

const faces = await db.collection('faces');
console.log('ready');
const options = { threshold: 0.7, limit: 1, pollMs: 50, memory: new NonceFile('keeper.nonces') };
for await (const { device, matches } of faces.questions(options)) console.log(device, matches[0]?.id ?? 'nobody');
