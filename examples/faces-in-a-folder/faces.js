// node faces.js faces probe.npy: encrypts the embeddings of a folder, once, and says who is in the
// probe. A face network makes the embeddings (`numpy.save('ada.npy', embedding)`); the name of a file
// is the name of the person.

import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { connect, MasterSeed, openKey, unsealedKey } from 'hers';

const [folder, probe] = process.argv.slice(2);
if (folder === undefined || probe === undefined) {
  console.error('Usage: node faces.js FOLDER PROBE.npy');
  process.exit(2);
}

/** One vector, as numpy.save writes it: a text header, then floats. */
async function readVector(path) {
  const bytes = await readFile(path);
  const start = 10 + bytes.readUInt16LE(8);
  if (!/'descr': '<f4'/.test(bytes.toString('latin1', 10, start))) throw new Error(`${path} does not hold float32`);
  return Array.from({ length: (bytes.length - start) / 4 }, (_, i) => bytes.readFloatLE(start + 4 * i));
}

/** The one secret. A real application seals it by a passphrase (`sealKey`). */
async function readKey(path) {
  if (existsSync(path)) return openKey(await readFile(path, 'utf8'));
  const key = MasterSeed.generate();
  await writeFile(path, unsealedKey(key), { mode: 0o600, flag: 'wx' });
  return key;
}

const vector = await readVector(probe);
const db = await connect('file:./gallery', { key: await readKey('gallery.key') });
const known = (await db.listCollections()).some(({ name }) => name === 'faces');
const faces = known ? await db.collection('faces') : await db.createCollection('faces', { dimension: vector.length });

async function* records() {
  for (const file of (await readdir(folder)).filter((name) => name.endsWith('.npy')))
    yield { id: basename(file, '.npy'), vector: await readVector(join(folder, file)) };
}
// What is there already and has not changed stays as it is.
const { inserted, replaced, unchanged } = await faces.upsert(records());
console.log(`${inserted} new, ${replaced} changed, ${unchanged} as before`);

const { matches } = await faces.search(vector, { limit: 3 });
for (const { id, score } of matches) console.log(`${score.toFixed(3)} ${id}`);
await db.close();
