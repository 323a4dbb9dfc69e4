import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { plainScores, unitVectors } from '../../testing/search.ts';
import { Context } from './context.ts';
import { best, TwoStageClient, TwoStageServer } from './two-stage.ts';

const [m, coarseDimension, fineDimension, k] = [24, 2, 12, 6];
const fine = unitVectors(m, fineDimension);

/** The coarse form here: the first coordinates, at unit length. */
function shorten(vectors: Float64Array): Float64Array {
  const out = new Float64Array((vectors.length / fineDimension) * coarseDimension);
  for (let j = 0; j * fineDimension < vectors.length; j++) {
    const part = vectors.subarray(j * fineDimension, j * fineDimension + coarseDimension);
    const norm = Math.hypot(...part);
    part.forEach((x, i) => {
      out[j * coarseDimension + i] = x / norm;
    });
  }
  return out;
}

describe('two-stage search', () => {
  let context: Context;
  let client: TwoStageClient;
  let server: TwoStageServer;
  before(async () => {
    context = await Context.open();
    client = new TwoStageClient(context, { coarseDimension, fineDimension });
    server = new TwoStageServer(context, client.keys, { coarseDimension, fineDimension });
    const uploads = client.enrol({ coarse: shorten(fine), fine });
    for (const upload of uploads.coarse) server.coarse.enrol(upload);
    for (const upload of uploads.fine) server.fine.enrol(upload);
  });
  after(() => {
    server[Symbol.dispose]();
    client[Symbol.dispose]();
    context[Symbol.dispose]();
    assert.equal(context.heap.handles, 0);
  });

  it('ranks the K best of the coarse scan by their full vectors', () => {
    const vector = unitVectors(1, fineDimension, 2);
    const coarse = plainScores(context, shorten(fine), shorten(vector));
    const expected = best([{ first: 0, integers: Int32Array.from(coarse) }], k).map(({ index }) => index);
    const scores = plainScores(context, fine, vector);

    const query = client.query({ coarse: shorten(vector), fine: vector });
    const request = query.refine(server.coarse.search(query.coarse), k);
    const ranked = query.rank(server.rescore(request));
    assert.deepEqual(
      ranked,
      expected.map((index) => ({ index, score: scores[index] })).sort((a, b) => b.score - a.score || a.index - b.index),
    );
    // HERS for all, Boddeti's for K of them.
    assert.equal(server.coarse.counts.search.multiplications, coarseDimension);
    assert.equal(server.fine.counts.search.multiplications, k);
    assert.equal(server.fine.counts.search.rotations, k * 4);
  });

  it('finds the template that was enrolled', () => {
    const vector = fine.subarray(5 * fineDimension, 6 * fineDimension);
    const query = client.query({ coarse: shorten(vector), fine: vector });
    const request = query.refine(server.coarse.search(query.coarse), k);
    assert.equal(query.rank(server.rescore(request))[0].index, 5);
  });

  it('has an order, and requests of a form', () => {
    const vector = unitVectors(1, fineDimension, 2);
    const query = client.query({ coarse: shorten(vector), fine: vector });
    assert.throws(() => query.rank([]), { code: 'INVALID_ARGUMENT' });
    assert.throws(() => [...server.rescore(query.coarse)], { code: 'MALFORMED' });
  });
});

describe('the best', () => {
  it('are the highest scores, and the earlier of equals', () => {
    const parts = [
      { first: 10, integers: Int32Array.of(3, 7, 7) },
      { first: 0, integers: Int32Array.of(7, -1) },
    ];
    assert.deepEqual(best(parts, 3), [
      { index: 0, score: 7 },
      { index: 11, score: 7 },
      { index: 12, score: 7 },
    ]);
  });
});
