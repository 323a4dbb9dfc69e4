import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type Service, withMethods } from './service.ts';

/** As stores are: with private fields, which only the object itself can reach. */
class Counter {
  readonly #names: string[] = [];
  readonly kind = 'counter';
  async deleteCollection(name: string): Promise<void> {
    this.#names.push(name);
  }
  async close(): Promise<void> {
    this.#names.push('closed');
  }
  get seen(): readonly string[] {
    return this.#names;
  }
}

it('replaces the methods that are given, and leaves the others their own object', async () => {
  const inner = new Counter() as Counter & Service;
  const deleted: string[] = [];
  const service = withMethods(inner, {
    async deleteCollection(name) {
      deleted.push(name);
      await inner.deleteCollection(`really ${name}`);
    },
  });
  await service.deleteCollection('a');
  await service.close();
  assert.deepEqual([deleted, inner.seen, service.kind], [['a'], ['really a', 'closed'], 'counter']);
});
