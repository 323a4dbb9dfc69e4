// The process that crash.ts kills: runs the steps of a script on a folder, and prints which are
// acknowledged.
//
//   node crash-child.ts <folder> <seed> <share> <first step> <steps> [shards]

import { writeSync } from 'node:fs';
import { openStore } from '../src/store.ts';
import { Script } from './crash-script.ts';

const [folder, seed, share, first, count, shards] = process.argv.slice(2);
const script = new Script(Number(seed), Number(share));
const store = await openStore(folder, { quietMs: 3, shards: shards === 'shards' });
writeSync(1, 'open\n');
for (let index = Number(first); index < Number(first) + Number(count); index++) {
  await script.step(index).run(store);
  writeSync(1, `done ${index}\n`);
}
await store.close();
writeSync(1, 'closed\n');
