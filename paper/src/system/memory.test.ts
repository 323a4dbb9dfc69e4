import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Pair, unitVectors } from '../../testing/search.ts';
import { PaperClient } from './client.ts';
import { Context } from './context.ts';
import { ENCODINGS, HERS, NAIVE } from './encodings.ts';
import { checkMemory, ciphertextCapacity, memoryNeed } from './memory.ts';
import { PUBLISHED } from './parameters.ts';
import { PaperServer } from './server.ts';

const MiB = 2 ** 20;

describe('what does not fit is refused before it is begun', () => {
  it('well before the 31 000 ciphertexts at which SEAL stops', () => {
    const capacity = ciphertextCapacity(PUBLISHED);
    assert.ok(capacity > 26_000 && capacity < 29_500, String(capacity));
    assert.ok(memoryNeed(PUBLISHED, capacity).bytes < 2 ** 32);
    assert.throws(() => checkMemory(PUBLISHED, capacity + 1), { code: 'OUT_OF_MEMORY' });
  });

  it('a gallery that is announced', async () => {
    using context = await Context.open();
    using client = new PaperClient(context, HERS, { dimension: 128 });
    const { handles } = context.heap;
    // The paper's Table 1: 245 blocks of 128 ciphertexts.
    assert.throws(() => new PaperServer(context, HERS, client.keys, { dimension: 128, templates: 1_000_000 }), {
      code: 'OUT_OF_MEMORY',
      message: /^a gallery of 1,000,000 templates needs 31,\d{3} ciphertexts at once, 4\.\d GB, .* measure a sample/,
    });
    assert.equal(context.heap.handles, handles);
  });

  it('a gallery that grows, which stays as it was', async () => {
    // Room for about 20 ciphertexts beside what is set aside for keys and intermediate results.
    using context = await Context.open(undefined, { heapBytes: 64 * MiB + 20 * 131072 * 1.05 });
    using pair = new Pair(context, NAIVE, { dimension: 4 });
    assert.throws(() => pair.enrol(unitVectors(10, 4)), { code: 'OUT_OF_MEMORY', message: /^naive with \d templates/ });
    const { size } = pair.server;
    assert.ok(size >= 2 && size <= 4, String(size));
    assert.throws(() => pair.search(unitVectors(1, 4)), { code: 'OUT_OF_MEMORY' });
    assert.equal(pair.server.size, size);
  });
});

describe('nothing is made in the heap beyond its limit', () => {
  it('not even a single ciphertext', async () => {
    using context = await Context.open(undefined, { heapBytes: 64 * MiB + 5 * 131072 * 1.05 });
    using scope = context.heap.scope();
    for (let i = 0; i < 5; i++) scope.ciphertext();
    assert.throws(() => scope.ciphertext(), { code: 'OUT_OF_MEMORY' });
    assert.equal(context.heap.ciphertexts, 5);
  });
});

describe('nothing stays in the heap', () => {
  it('whatever is done many times', async () => {
    using context = await Context.open();
    const { heap } = context;
    const d = 2;
    const empty = heap.handles;
    const gallery = unitVectors(2, d);
    const query = unitVectors(1, d, 2);
    function everything(): void {
      for (const encoding of Object.values(ENCODINGS)) {
        using pair = new Pair(context, encoding, { dimension: d, encryption: encoding === HERS ? 'seeded' : 'public' });
        pair.enrol(gallery);
        pair.enrol(gallery.subarray(0, d));
        pair.search(query);
        for (const _ of pair.server.search(pair.client.query(query).bytes)) break;
        assert.throws(() => pair.server.enrol(new Uint8Array(100)), { code: 'MALFORMED' });
      }
      assert.equal(heap.handles, empty);
      assert.equal(heap.ciphertexts, 0);
    }
    for (let i = 0; i < 3; i++) everything();
    const [bytes, { rss }] = [heap.bytes, process.memoryUsage()];
    for (let i = 0; i < 12; i++) everything();
    // A single ciphertext that was left behind each time would have made the heap grow.
    assert.equal(heap.bytes, bytes);
    assert.ok(process.memoryUsage().rss - rss < 200 * MiB);
  });

  it('of searches against a gallery that stays', async () => {
    using context = await Context.open();
    using pair = new Pair(context, HERS, { dimension: 4, relinearise: 'once' });
    pair.enrol(unitVectors(8, 4));
    const query = unitVectors(1, 4, 2);
    for (let i = 0; i < 5; i++) pair.search(query);
    const { handles, bytes } = context.heap;
    for (let i = 0; i < 30; i++) pair.search(query);
    assert.deepEqual({ handles: context.heap.handles, bytes: context.heap.bytes }, { handles, bytes });
  });

  it('and a closed scope takes nothing more', async () => {
    using context = await Context.open();
    const scope = context.heap.scope();
    scope.ciphertext();
    scope[Symbol.dispose]();
    assert.throws(() => scope.ciphertext(), { code: 'CLOSED' });
  });
});
