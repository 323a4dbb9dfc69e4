import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  blockMatrix,
  decodeBlock,
  decodeQuery,
  encodeResponse,
  expandedQuery,
  type PlanRequest,
  scanBlock,
} from '@hers/scheme';
import { canRank, encryptQuery, type QuerySecret } from '@hers/scheme/secret';
import { hex } from '../bytes.ts';
import { RankedTogether, startWorkers } from './crew.node.ts';
import {
  type Crew,
  type DecryptTask,
  encrypted,
  type KeyMaterial,
  keyFrom,
  packTasks,
  type RankOptions,
  rankResponses,
  unpackTasks,
} from './crew.ts';

const DIMENSION = 8;

function world(request: Partial<PlanRequest>, counts: readonly number[]) {
  const material: KeyMaterial = {
    seed: crypto.getRandomValues(new Uint8Array(32)),
    request: { dimension: DIMENSION, ...request },
    collectionId: crypto.getRandomValues(new Uint8Array(16)),
    epoch: 0,
  };
  const key = keyFrom(material);
  // Of few numbers, so that scores are alike.
  const vectors = (count: number) => Float32Array.from({ length: count * DIMENSION }, (_, i) => ((i * i) % 7) - 3);
  const blocks = counts.map((count) => decodeBlock(encrypted(key, vectors(count)).block));
  const query = vectors(3).slice(DIMENSION, 2 * DIMENSION);
  const { query: bytes, secret } = encryptQuery(key, query);
  const expanded = expandedQuery(decodeQuery(bytes));
  const tasks = blocks.map(
    (block, i): DecryptTask => ({
      response: encodeResponse(scanBlock(blockMatrix(block), expanded)),
      block: 10 + i,
      canaries: { id: hex(block.blockId), slots: block.count },
      dead: [],
    }),
  );
  const order = request.metric === 'euclidean' ? 'ascending' : 'descending';
  return { material, key, secret, tasks, options: { limit: 5, order, query } satisfies RankOptions };
}

async function together(material: KeyMaterial, secret: QuerySecret, tasks: DecryptTask[], options: RankOptions) {
  const packed = packTasks(tasks);
  const ranked = new RankedTogether(material);
  try {
    return await ranked.rank(secret, unpackTasks(packed), options);
  } finally {
    ranked.close();
  }
}

const able = canRank(keyFrom({ ...world({}, []).material })) ? {} : { skip: 'there is no native ring here' };

describe('native code ranks as the slow way does', able, () => {
  for (const request of [
    {},
    { profile: 'small' },
    { metric: 'euclidean', normBound: 20 },
    { metric: 'dot', normBound: 20 },
  ] as Partial<PlanRequest>[])
    it(`${request.profile ?? 'compact'}, ${request.metric ?? 'cosine'}`, async () => {
      const { material, key, secret, tasks, options } = world(request, [2000, 3, 1, 700]);
      const some = new Uint32Array(63).map((_, i) => (0x9e3779b9 * (i + 1)) >>> 0);
      const variants: DecryptTask[][] = [
        tasks,
        tasks.slice(1, 2),
        tasks.map((task, i) => ({ ...task, dead: i === 0 ? [1999, 5, 0, 7] : [0] })),
        tasks.map((task, i) => ({ ...task, ...(i === 1 ? {} : { slots: i === 3 ? some.slice(0, 22) : some }) })),
        tasks.map((task) => ({ ...task, dead: [2, 1], slots: new Uint32Array(63) })),
        [...tasks, ...tasks],
      ];
      const best = rankResponses(key, secret, tasks, { ...options, limit: 50 });
      for (const each of variants)
        for (const more of [
          { limit: 1 },
          { limit: 7 },
          { limit: 40, threshold: best[20].score },
          { limit: 10_000 },
          { limit: 3, threshold: best[0].score },
        ]) {
          const expected = rankResponses(key, secret, each, { ...options, ...more });
          assert.deepEqual(await together(material, secret, each, { ...options, ...more }), expected);
        }
    });

  it('gives nothing where a response is not as it should be, whatever was changed', async () => {
    const { material, secret, tasks, options } = world({}, [90, 40]);
    const [task, other] = tasks;
    const changed = (at: number, by = 1) => {
      const response = task.response.slice();
      response[at] ^= by;
      return { ...task, response };
    };
    // Every byte of the head; some of the body; the checksum. What names the block is the caller's
    // to check, but it is under the checksum.
    const at = [...Array(80).keys(), 81, 999, task.response.length - 300];
    for (let i = 1; i <= 8; i++) at.push(task.response.length - i);
    for (const each of at)
      assert.equal(await together(material, secret, [other, changed(each)], options), undefined, `byte ${each}`);
    const cases: DecryptTask[] = [
      { ...task, response: task.response.subarray(0, 500) },
      { ...task, response: new Uint8Array(0) },
      { ...task, response: new Uint8Array([...task.response, 0]) },
      { ...task, canaries: other.canaries },
      { ...task, response: other.response },
      { ...task, groups: new Uint8Array(90) },
    ];
    for (const each of cases) assert.equal(await together(material, secret, [each], options), undefined);
    const { secret: another } = world({}, [4]);
    assert.equal(await together(material, another, [task], options), undefined);
    assert.notEqual(await together(material, secret, [task], options), undefined);
  });

  it('a crew says what the slow way says, also for responses that do not lie together', async () => {
    const { material, key, secret, tasks, options } = world({}, [50, 60]);
    const crew = (await startWorkers(material, 2)) as Crew;
    try {
      const expected = rankResponses(key, secret, tasks, options);
      const [first, second] = tasks;
      const wrong = { ...first, canaries: second.canaries };
      const responses = tasks.map(({ response }) => response.slice());
      const right = crew.decrypt(
        secret,
        tasks.map((task, i) => ({ ...task, response: responses[i] })),
        options,
      );
      const refused = assert.rejects(crew.decrypt(secret, [{ ...wrong, response: first.response.slice() }], options), {
        code: 'INTEGRITY',
        message: /canaries of a block/,
      });
      const grouped = crew.decrypt(secret, [{ ...first, response: responses[0], groups: new Uint8Array(50) }], options);
      assert.deepEqual(await right, expected);
      await refused;
      assert.equal((await grouped).length, 5);
    } finally {
      await crew.close();
    }
    await assert.rejects(crew.decrypt(secret, tasks, options), { code: 'CLOSED' });
    secret.wipe();
    await assert.rejects(together(material, secret, tasks, options), { code: 'WIPED' });
  });
});
