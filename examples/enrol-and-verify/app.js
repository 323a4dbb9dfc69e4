// node app.js [PORT]: enrols people and verifies who they are. The application holds the key; the
// gallery could lie on a server that belongs to somebody else (`connect('https://…')`).
//
//   PUT  /people/ada         {"vector": […]}   enrols, or replaces
//   POST /people/ada/verify  {"vector": […]}   {"match": true, "score": 0.93}
//   DELETE /people/ada

import Fastify from 'fastify';
import { connect, HersError, MasterSeed } from 'hers';

const DIMENSION = 64;
/** From your own data: at which score a wrong person is rare enough. */
const THRESHOLD = 0.6;

// A real application reads its key from a vault; this one forgets its gallery when it ends.
const db = await connect('file:./gallery', { key: MasterSeed.generate() });
const people = await db.createCollection(`people-${Date.now()}`, { dimension: DIMENSION });

const app = Fastify();
const body = {
  type: 'object',
  required: ['vector'],
  properties: { vector: { type: 'array', items: { type: 'number' }, minItems: DIMENSION, maxItems: DIMENSION } },
};

app.put('/people/:id', { schema: { body } }, async (request, reply) => {
  await people.upsert({ id: request.params.id, vector: request.body.vector });
  reply.code(204);
});

app.post('/people/:id/verify', { schema: { body } }, async (request) => {
  const { match, score } = await people.verify(request.params.id, request.body.vector, { threshold: THRESHOLD });
  return { match, score };
});

app.delete('/people/:id', async (request, reply) => {
  await people.delete(request.params.id);
  reply.code(204);
});

app.setErrorHandler((error, _, reply) => {
  // Every error of hers has a code, a sentence, and the status that fits it.
  if (error instanceof HersError) return reply.code(error.status).send({ code: error.code, message: error.message });
  return reply.code(error.statusCode ?? 500).send({ message: error.statusCode ? error.message : 'internal error' });
});

app.addHook('onClose', () => db.close());
console.log(`at ${await app.listen({ port: Number(process.argv[2] ?? 3000) })}`);
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => app.close());
