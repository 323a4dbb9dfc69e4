import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Pair, plainScores, unitVectors } from '../../testing/search.ts';
import { PaperClient } from './client.ts';
import { Context } from './context.ts';
import { ENCODINGS, HERS, NAIVE } from './encodings.ts';
import { PaperServer } from './server.ts';

let context: Context;
before(async () => {
  context = await Context.open();
});
after(() => {
  context[Symbol.dispose]();
  assert.equal(context.heap.handles, 0);
});

describe('client and server share nothing but bytes', () => {
  for (const [name, encoding] of Object.entries(ENCODINGS)) {
    it(`${name}: in two instances of SEAL, compressed on the way`, async () => {
      const [m, d] = [3, 4];
      using there = await Context.open(undefined, { compression: 'zstd' });
      using here = await Context.open(undefined, { compression: 'zlib' });
      using client = new PaperClient(here, encoding, { dimension: d });
      using server = new PaperServer(there, encoding, client.keys, { dimension: d });
      const gallery = unitVectors(m, d);
      const vector = unitVectors(1, d, 2);
      for (const upload of client.enrol(gallery)) server.enrol(upload);
      const query = client.query(vector);
      const scores = [...server.search(query.bytes)].flatMap((response) => [...query.read(response).integers]);
      assert.deepEqual(scores, plainScores(here, gallery, vector));
    });
  }
});

describe('enrolment (Algorithm 6)', () => {
  const d = 2;

  it('one template at a time gives the scores of a batch', () => {
    const gallery = unitVectors(40, d);
    const query = unitVectors(1, d, 2);
    using batch = new Pair(context, HERS, { dimension: d });
    using online = new Pair(context, HERS, { dimension: d });
    batch.enrol(gallery);
    for (let j = 0; j < 40; j++) online.enrol(gallery.subarray(j * d, (j + 1) * d));
    assert.deepEqual(online.search(query), plainScores(context, gallery, query));
    assert.deepEqual(batch.search(query), online.search(query));
    // Each template is added to each of the d ciphertexts of the block, which began as zeros.
    assert.equal(online.server.counts.enrolment.additions, 40 * d);
    assert.equal(batch.server.counts.enrolment.additions, d);
  });

  it('goes on in the next block when one is full, online and in batches', () => {
    const n = 4096;
    const gallery = unitVectors(2 * n + 3, d);
    const query = unitVectors(1, d, 2);
    using pair = new Pair(context, HERS, { dimension: d });
    const cuts = [0, n - 3, n - 2, n - 1, n, n + 1, n + 2, 2 * n - 1, 2 * n + 2, 2 * n + 3];
    for (let c = 1; c < cuts.length; c++) pair.enrol(gallery.subarray(cuts[c - 1] * d, cuts[c] * d));
    assert.equal(pair.server.size, 2 * n + 3);
    assert.equal(pair.client.size, 2 * n + 3);
    assert.deepEqual(pair.search(query), plainScores(context, gallery, query));
    assert.equal(pair.server.galleryBytes, 3 * d * 131072);
  });

  it('takes a whole block as it is', () => {
    using pair = new Pair(context, HERS, { dimension: d });
    pair.enrol(unitVectors(4096, d));
    assert.equal(pair.server.counts.enrolment.additions, 0);
  });

  it('leaves the gallery as it was when an upload is broken', () => {
    const gallery = unitVectors(3, d);
    const query = unitVectors(1, d, 2);
    using pair = new Pair(context, HERS, { dimension: d });
    pair.enrol(gallery);
    const handles = context.heap.handles;
    const [good] = [...pair.client.enrol(unitVectors(1, d, 3))];
    const broken = good.slice();
    broken.fill(255, broken.length - 131000);
    const cases = [broken, good.subarray(0, 100), pair.client.query(query).bytes, pair.client.keys];
    for (const bytes of cases) assert.throws(() => pair.server.enrol(bytes), { code: 'MALFORMED' });
    assert.equal(context.heap.handles, handles);
    assert.deepEqual(pair.search(query), plainScores(context, gallery, query));
    pair.server.enrol(good);
    assert.throws(() => pair.server.enrol(good), { code: 'MALFORMED', message: /cannot follow 4 templates/ });
  });
});

describe('search (Algorithm 7)', () => {
  const d = 3;

  it('finds a template that was enrolled', () => {
    const gallery = unitVectors(9, d);
    using pair = new Pair(context, HERS, { dimension: d });
    pair.enrol(gallery);
    const scores = pair.search(gallery.subarray(4 * d, 5 * d));
    assert.equal(scores.indexOf(Math.max(...scores)), 4);
  });

  it('of an empty gallery is no response', () => {
    using pair = new Pair(context, HERS, { dimension: d });
    assert.deepEqual(pair.search(unitVectors(1, d)), []);
  });

  it('of some blocks scores these alone', () => {
    const gallery = unitVectors(5, d);
    const query = unitVectors(1, d, 2);
    using pair = new Pair(context, NAIVE, { dimension: d });
    pair.enrol(gallery);
    const all = plainScores(context, gallery, query);
    assert.deepEqual(Object.entries(pair.search(query, { blocks: [1, 3] })), [
      ['1', all[1]],
      ['3', all[3]],
    ]);
    assert.throws(() => pair.search(query, { blocks: [5] }), { code: 'INVALID_ARGUMENT', message: /no block 5/ });
  });

  it('can be left early, and frees what it held', () => {
    using pair = new Pair(context, NAIVE, { dimension: d });
    pair.enrol(unitVectors(3, d));
    const { handles } = context.heap;
    for (const _ of pair.server.search(pair.client.query(unitVectors(1, d)).bytes)) break;
    assert.equal(context.heap.handles, handles);
  });

  it('refuses queries for another encoding or dimension, and anything after it was closed', () => {
    using pair = new Pair(context, HERS, { dimension: d });
    using longer = new Pair(context, HERS, { dimension: d + 1 });
    using naive = new Pair(context, NAIVE, { dimension: d });
    pair.enrol(unitVectors(1, d));
    const query = unitVectors(1, d);
    for (const bytes of [longer.client.query(unitVectors(1, d + 1)).bytes, naive.client.query(query).bytes]) {
      assert.throws(() => [...pair.server.search(bytes)], { code: 'MALFORMED' });
    }
    const { bytes } = pair.client.query(query);
    const [response] = pair.server.search(bytes);
    assert.throws(() => naive.client.query(query).read(response), { code: 'MALFORMED' });
    pair.server.close();
    assert.throws(() => [...pair.server.search(bytes)], { code: 'CLOSED' });
    assert.throws(() => pair.server.enrol(bytes), { code: 'CLOSED' });
  });
});
