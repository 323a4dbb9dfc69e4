// Searches that come together are scanned together, and everyone gets what is theirs.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type CollectionInfo, peekQuery, readItems, type Service } from '@hers/service';
import { encodeQuery, Samples } from '@hers/service/samples';
import { measure } from '../testing/clients.ts';
import { Guest } from './guests.ts';
import { Memory } from './memory.ts';
import { Scans } from './scans.ts';

const BLOCKS = 40;
const RESPONSE_BYTES = 9000;
const PATIENT = { patienceMs: 600_000 };

/** What answers a query: its id, and the number of a block. */
function response(queryId: Uint8Array, block: number): Uint8Array {
  const bytes = new Uint8Array(RESPONSE_BYTES).fill(block);
  bytes.set(queryId, 32);
  return bytes;
}

/** A service that answers when it is let go, in memory that it uses again, and its searches. */
function world(options: { readonly queue?: number; readonly patienceMs?: number } = {}) {
  const sizes: number[] = [];
  const gates: (() => void)[] = [];
  const service = {
    getCollection: async () => ({ blocks: BLOCKS }) as CollectionInfo,
    async *search(_: string, { queries }: { readonly queries: readonly Uint8Array[] }) {
      sizes.push(queries.length);
      await new Promise<void>((resolve) => gates.push(resolve));
      for (let block = 0; block < BLOCKS; block++)
        for (const query of queries) {
          const passing = response(peekQuery(query).queryId, block);
          yield passing;
          passing.fill(0xee);
        }
    },
  };
  const memory = new Memory(2 ** 30, undefined, measure);
  const limits = { scans: 4, queue: 128, memoryBytes: 2 ** 30, ...options };
  const watcher = { waited() {}, scanned() {} };
  const scans = new Scans(service as unknown as Service, limits, watcher);
  const samples = new Samples(3);
  const guests: Guest[] = [];
  const begin = (caller: string) => {
    const query = encodeQuery(samples.query());
    const queryId = new Uint8Array(peekQuery(query).queryId);
    const guest = new Guest(caller, memory);
    guests.push(guest);
    const pieces = scans.search('faces', { version: 1, queries: [query] }, guest);
    const items = async () => {
      const found = await Array.fromAsync(readItems(pieces));
      const wanted = Array.from({ length: BLOCKS }, (_, block) => response(queryId, block));
      assert.deepEqual(found, wanted);
    };
    const done = items();
    done.catch(() => {});
    return { guest, done };
  };
  /** Lets searches go as they come, until these are done. */
  const finish = async (searches: readonly { readonly done: Promise<void> }[]) => {
    const timer = setInterval(() => {
      for (const open of gates.splice(0)) open();
    }, 1);
    await Promise.all(searches.map(({ done }) => done)).finally(() => clearInterval(timer));
  };
  return { sizes, begin, finish, memory, close: () => memory.close() };
}

it('what comes while a scan runs that it could have been part of waits for its end, and is scanned together', async () => {
  const { sizes, begin, finish, memory, close } = world(PATIENT);
  // All in one turn of the event loop.
  const searches = Array.from({ length: 8 }, (_, i) => begin(`${i % 3}`));
  await finish(searches);
  assert.deepEqual(sizes, [1, 7]);
  assert.equal(memory.held, 0);
  close();
});

it('no more are scanned together than may be, and what may not wait does not', async () => {
  const many = world(PATIENT);
  await many.finish(Array.from({ length: 20 }, () => many.begin('x')));
  assert.deepEqual(many.sizes, [1, 8, 8, 3]);
  many.close();
  // Nobody may wait: as many scans as there are at a time, and the next is refused.
  const few = world({ queue: 0 });
  const searches = [few.begin('x'), few.begin('x'), few.begin('y'), few.begin('y')];
  await assert.rejects(few.begin('z').done, { code: 'OVERLOADED' });
  await few.finish(searches);
  assert.deepEqual(few.sizes, [1, 1, 1, 1]);
  few.close();
});

it('a scan that hangs holds nobody for good, and who leaves is not scanned for', async () => {
  const { sizes, begin, finish, memory, close } = world();
  const stuck = begin('x');
  const gone = begin('y');
  const other = begin('y');
  const reason = new Error('gone');
  gone.guest.ending.abort(reason);
  await assert.rejects(gone.done, reason);
  // The first one is never let go before the second has begun by itself.
  while (sizes.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(sizes, [1, 1]);
  await finish([stuck, other]);
  assert.equal(memory.held, 0);
  close();
});

it('who has waited long enough goes on when a timer says so, whatever the clock says', async (t) => {
  const { sizes, begin, finish, memory, close } = world();
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const stuck = begin('x');
  const other = begin('y');
  // A timer may come early by the clock, where the engine was busy when it was set.
  t.mock.timers.tick(1000);
  t.mock.timers.reset();
  for (let turns = 0; sizes.length < 2 && turns < 1000; turns++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(sizes, [1, 1]);
  await finish([stuck, other]);
  assert.equal(memory.held, 0);
  close();
});
