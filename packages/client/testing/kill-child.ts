// Writes to a collection until it is killed, and says on standard output what was acknowledged. For
// kill.ts alone.

import { connect, MasterSeed } from '../src/index.ts';
import { BATCH, DIMENSION, FIELDS, idOf, LATER, payloadOf, vectorOfBatch } from './kill.ts';

const [folder, seedHex, from] = process.argv.slice(2);
const db = await connect(`file:${folder}`, { key: MasterSeed.from(Buffer.from(seedHex, 'hex')) });
const names = (await db.listCollections()).map(({ name }) => name);
const collection = names.includes('things')
  ? await db.collection('things')
  : await db.createCollection('things', { dimension: DIMENSION, fields: FIELDS });
console.log('open');
for (let batch = Number(from); ; batch++) {
  await collection.upsert(
    Array.from({ length: BATCH }, (_, i) => ({
      ...{ id: idOf(batch, i), vector: vectorOfBatch(batch, i) },
      payload: payloadOf(batch, i),
    })),
  );
  console.log(`written ${batch}`);
  if (batch % 3 === 2) {
    await collection.delete(idOf(batch - 1, 0));
    console.log(`deleted ${batch - 1}`);
  }
  await collection.updatePayload({ id: idOf(batch, 1), payload: { ...payloadOf(batch, 1), group: 'changed' } });
  console.log(`changed ${batch}`);
  if (batch % 5 === 1) await collection.addFields(LATER);
  if (batch % 5 === 4 && 'note' in (await collection.fields())) await collection.dropFields('note');
  if (batch % 4 === 3) await collection.optimize();
  if (batch % 6 === 5) await collection.rotateKey();
}
