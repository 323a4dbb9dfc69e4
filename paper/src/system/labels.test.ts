import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Pair, unitVectors } from '../../testing/search.ts';
import { encodeBundle } from './bundle.ts';
import { Context } from './context.ts';
import { BODDETI, HERS } from './encodings.ts';
import { askLabels, readLabels } from './labels.ts';
import { best, TwoStageClient, TwoStageServer } from './two-stage.ts';

const dimension = 2;
let context: Context;
before(async () => {
  context = await Context.open();
});
after(() => context[Symbol.dispose]());

const refusal = (message: RegExp, code: string) => (error: Error & { code?: string }) => {
  assert.match(error.message, message);
  assert.equal(error.code, code);
  return true;
};

describe('the label set of Algorithm 6', () => {
  it('goes with batches and with single templates, over the edge of a block, and a search returns it', () => {
    using pair = new Pair(context, HERS, { dimension });
    const { n } = context.parameters;
    const count = n + 3;
    const vectors = unitVectors(count, dimension);
    // Labels are nobody's index, and one is far above 32 bits.
    const ids = Array.from({ length: count }, (_, j) => (j === n + 1 ? 2 ** 53 - 1 : 7 * j + 1000));
    const enrol = (from: number, to: number) => {
      const part = vectors.subarray(from * dimension, to * dimension);
      for (const upload of pair.client.enrol(part, ids.slice(from, to))) pair.server.enrol(upload);
    };
    enrol(0, n - 1);
    enrol(n - 1, n + 2);
    enrol(n + 2, n + 3);
    for (const wanted of [0, n - 1, n, n + 1, n + 2]) {
      const scores = pair.search(vectors.slice(wanted * dimension, (wanted + 1) * dimension));
      const found = best([{ first: 0, integers: Int32Array.from(scores) }], 2).map(({ index }) => index);
      const labels = readLabels(pair.server.labels(askLabels(found)));
      assert.deepEqual(
        labels,
        found.map((index) => ids[index]),
      );
    }
    assert.deepEqual(readLabels(pair.server.labels(askLabels([n + 1, 0, n + 1]))), [2 ** 53 - 1, 1000, 2 ** 53 - 1]);
    assert.deepEqual(readLabels(pair.server.labels(askLabels([]))), []);
  });

  it('may hold a label twice: two templates of one person', () => {
    using pair = new Pair(context, BODDETI, { dimension });
    for (const upload of pair.client.enrol(unitVectors(3, dimension), [5, 9, 5])) pair.server.enrol(upload);
    assert.deepEqual(readLabels(pair.server.labels(askLabels([0, 1, 2]))), [5, 9, 5]);
  });

  it('serves both stages of a search', () => {
    const options = { coarseDimension: 2, fineDimension: 4 };
    const fine = unitVectors(5, 4);
    const coarse = Float64Array.from({ length: 10 }, (_, i) => fine[4 * Math.floor(i / 2) + (i % 2)]);
    using client = new TwoStageClient(context, options);
    using server = new TwoStageServer(context, client.keys, options);
    const uploads = client.enrol({ coarse, fine }, [11, 12, 13, 14, 15]);
    for (const upload of uploads.coarse) server.coarse.enrol(upload);
    for (const upload of uploads.fine) server.fine.enrol(upload);
    const query = client.query({ coarse: coarse.slice(6, 8), fine: fine.slice(12, 16) });
    const request = query.refine(server.coarse.search(query.coarse), 5);
    const [{ index }] = query.rank(server.rescore(request));
    assert.deepEqual(readLabels(server.coarse.labels(askLabels([index]))), [14]);
  });

  it('is of all templates or of none, and of whole numbers', () => {
    using pair = new Pair(context, HERS, { dimension });
    const { client, server } = pair;
    const vectors = unitVectors(2, dimension);
    assert.throws(() => client.enrol(vectors, [1]), refusal(/1 ids for 2 templates/, 'INVALID_ARGUMENT'));
    for (const id of [-1, 0.5, 2 ** 53, Number.NaN])
      assert.throws(() => client.enrol(vectors, [1, id]), refusal(/ids are whole numbers/, 'INVALID_ARGUMENT'));
    const [withIds] = client.enrol(vectors, [1, 2]);
    server.enrol(withIds);
    const [without] = client.enrol(vectors);
    assert.throws(() => server.enrol(without), refusal(/give ids for all templates or for none/, 'INVALID_ARGUMENT'));
    assert.equal(server.size, 2);
    assert.throws(
      () => server.labels(askLabels([2])),
      refusal(/no label of template 2; there are 2/, 'INVALID_ARGUMENT'),
    );
    using bare = new Pair(context, HERS, { dimension });
    bare.enrol(vectors);
    assert.throws(() => bare.server.labels(askLabels([0])), refusal(/no label of template 0/, 'INVALID_ARGUMENT'));
    const [again] = bare.client.enrol(vectors, [1, 2]);
    assert.throws(() => bare.server.enrol(again), refusal(/no ids, and this upload has/, 'INVALID_ARGUMENT'));
  });

  it('of the wrong size is refused before anything is added', () => {
    using pair = new Pair(context, HERS, { dimension });
    const [upload] = pair.client.enrol(unitVectors(2, dimension), [1, 2]);
    // The last label is cut off: the length of the last part is 8 less.
    const cut = upload.slice(0, -8);
    new DataView(cut.buffer).setUint32(32 + 4 * dimension, 8, true);
    assert.throws(() => pair.server.enrol(cut), refusal(/8 bytes are not the labels of 2 templates/, 'MALFORMED'));
    assert.equal(pair.server.size, 0);
    pair.server.enrol(upload);
    const two = { kind: 'indices', encoding: 0, dimension: 0, first: 0, count: 1 } as const;
    const part = new Uint8Array(8);
    assert.throws(
      () => pair.server.labels(encodeBundle({ ...two, parts: [part, part] })),
      refusal(/a message of indices has one part/, 'MALFORMED'),
    );
    assert.throws(
      () => pair.server.labels(encodeBundle({ ...two, parts: [part.map(() => 255)] })),
      refusal(/above 2\^53/, 'MALFORMED'),
    );
  });
});
