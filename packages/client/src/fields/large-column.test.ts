// A column of a block may be larger than a server's answers usually are.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { startServer } from '@hers/server';
import { withMethods } from '@hers/service';
import { openStore } from '@hers/store';
import { vectorOf } from '../../testing/client.ts';
import { connect, Database, HttpService, MasterSeed } from '../index.ts';

const DIMENSION = 4;
/** Texts that no two records share, and that nothing shortens. */
const tagsOf = (i: number) =>
  Array.from({ length: 16 }, (_, k) =>
    Buffer.from(vectorOf(16 * i + k, 47).buffer)
      .toString('base64')
      .slice(0, 250),
  );

it('a column of more than 8 MiB goes to a server and comes back', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'hers-column-'));
  const server = await startServer(await openStore(folder), { port: 0 });
  try {
    const key = MasterSeed.generate();
    const options = { key, threads: 1 };
    const last = 2199;
    {
      await using db = await connect(server.url, options);
      const many = await db.createCollection('many', {
        dimension: DIMENSION,
        profile: 'exact',
        fields: { tags: 'keyword[]' },
      });
      await many.upsert(
        Array.from({ length: last + 1 }, (_, i) => ({
          id: `r${i}`,
          vector: vectorOf(i, DIMENSION),
          payload: { tags: tagsOf(i) },
        })),
      );
      await many.optimize();
      assert.equal((await db.describe('many')).blocks, 1);
    }
    const service = new HttpService(server.url);
    let largest = 0;
    const watched = withMethods(service, {
      async *getLists(...args) {
        for await (const list of service.getLists(...args)) {
          largest = Math.max(largest, list.length);
          yield list;
        }
      },
    });
    await using db = new Database(watched, options);
    const many = await db.collection('many');
    assert.ok(largest > 2 ** 23, `${largest}`);
    const tag = tagsOf(last)[7];
    const { matches } = await many.search(vectorOf(last, DIMENSION), {
      filter: { must: { field: 'tags', match: tag } },
      select: ['tags'],
    });
    assert.deepEqual(
      matches.map(({ id, fields }) => [id, fields!.tags]),
      [[`r${last}`, tagsOf(last).toSorted()]],
    );
  } finally {
    await server.close();
    await rm(folder, { recursive: true, force: true });
  }
});
