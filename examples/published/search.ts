// The published system from end to end: keys, enrolment, search, both stages, under
// Fan-Vercauteren (Microsoft SEAL). `node examples/published/search.ts` in a clone, after npm ci.

import { askLabels, Context, readLabels, TwoStageClient, TwoStageServer } from '@hers/paper';
import { fit } from '@hers/training';
import { identities } from '@hers/vectors/synthetic';

// 1000 people, a unit vector of 64 numbers for each, and ids that say who it is. A block holds 4096.
const [people, fineDimension, coarseDimension, candidates] = [1000, 64, 16, 20];
const synthetic = identities(people, 1, fineDimension, { noise: 0.4 });
const { vectors: fine, labels } = synthetic.gallery();
const ids = Array.from(labels, (label) => 1_000_000 + label);

// Fewer dimensions for the first stage. The paper trains 'deepmds++' here, which takes longer.
const compressor = await fit('pca', fine, labels, { dimension: coarseDimension });
const coarse = await compressor.transform(fine);

// The client has the keys. The server has the public, the relinearisation and the rotation key.
const dimensions = { coarseDimension, fineDimension };
using context = await Context.open(); // n = 4096, t = 1 032 193, q of 109 bits
using client = new TwoStageClient(context, { ...dimensions, encryption: 'seeded' });
using server = new TwoStageServer(context, client.keys, dimensions);

// Enrolment (Algorithm 6): all but the last in a batch, the last online. Each upload is bytes.
const enrol = (from: number, to: number) => {
  const rows = (vectors: Float32Array, dimension: number) => vectors.subarray(from * dimension, to * dimension);
  const forms = { coarse: rows(coarse, coarseDimension), fine: rows(fine, fineDimension) };
  const uploads = client.enrol(forms, ids.slice(from, to));
  for (const upload of uploads.coarse) server.coarse.enrol(upload);
  for (const upload of uploads.fine) server.fine.enrol(upload);
};
enrol(0, people - 1);
enrol(people - 1, people);
console.log(`enrolled ${server.coarse.size} templates: ${server.coarse.galleryBytes + server.fine.galleryBytes} bytes`);

// Search (Algorithm 7): other pictures of five people, the last one enrolled among them.
for (const wanted of [0, 123, 250, 500, people - 1]) {
  const probe = synthetic.probes([wanted]).vectors;
  const query = client.query({ coarse: await compressor.transform(probe), fine: probe });
  // First stage: the HERS encoding scores everything, at few dimensions.
  const request = query.refine(server.coarse.search(query.coarse), candidates);
  // Second stage: Boddeti's encoding scores the best 20 again, at full dimension.
  const [best] = query.rank(server.rescore(request));
  // The index goes back to the server, which looks the label up.
  const [id] = readLabels(server.coarse.labels(askLabels([best.index])));
  console.log(`looked for ${1_000_000 + wanted}, found ${id} with a cosine of ${(best.score / 250 ** 2).toFixed(3)}`);
}
