// The limits of an inbox, which the conformance suite does not know.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type ErrorCode, HersError } from '@hers/service';
import { Samples, sampleEnvelope } from '@hers/service/samples';
import type { InboxLimits } from './inbox.ts';
import { openStore } from './store.ts';

const fails = (code: ErrorCode) => (error: unknown) => error instanceof HersError && error.code === code;
const text = (value: string) => new TextEncoder().encode(value);
const ID = new Uint8Array(16).fill(5);

async function withInbox(
  inbox: InboxLimits,
  body: (
    post: (device: number, bytes?: number) => Promise<number>,
    store: Awaited<ReturnType<typeof openStore>>,
    folder: string,
  ) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-inbox-'));
  const samples = new Samples(9);
  const store = await openStore(folder, { inbox });
  try {
    await store.createCollection('faces', { id: ID, descriptor: text('d'), manifest: text('m') });
    const post = (device: number, bytes = 40) =>
      store.post('faces', sampleEnvelope({ collection: ID, nonce: samples.id(), device, body: samples.bytes(bytes) }));
    await body(post, store, folder);
  } finally {
    await store.close();
    await rm(folder, { recursive: true });
  }
}

describe('an inbox', () => {
  it('takes so many items of each device, and more when some were dropped', () =>
    withInbox({ items: 3 }, async (post, store) => {
      for (let i = 0; i < 3; i++) await post(1);
      await assert.rejects(post(1), fails('INBOX_FULL'));
      assert.equal(await post(2), 4);
      await store.dropInbox('faces', [2]);
      assert.equal(await post(1), 5);
      await assert.rejects(post(1), fails('INBOX_FULL'));
      const numbers = (await Array.fromAsync(store.takeInbox('faces'))).map(({ number }) => number);
      assert.deepEqual(numbers, [1, 3, 4, 5]);
    }));

  it('takes so many bytes of each device', () =>
    withInbox({ bytes: 1000 }, async (post) => {
      await post(1, 500);
      await assert.rejects(post(1, 500), fails('INBOX_FULL'));
      await post(1, 100);
      await post(2, 500);
    }));

  it('takes only so much of all devices together, whatever numbers they claim', () =>
    withInbox({ items: 2 }, async (post) => {
      for (let i = 0; i < 128; i++) await post(i);
      await assert.rejects(post(200), fails('INBOX_FULL'));
    }));

  it('forgets what is too old, and does not count it', (t) =>
    withInbox({ items: 2, age: 60 }, async (post, store) => {
      t.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 });
      await post(1);
      t.mock.timers.tick(50_000);
      await post(1);
      await assert.rejects(post(1), fails('INBOX_FULL'));
      t.mock.timers.tick(20_000);
      const numbers = async () => (await Array.fromAsync(store.takeInbox('faces'))).map(({ number }) => number);
      assert.deepEqual(await numbers(), [2]);
      assert.equal(await post(1), 3);
      assert.deepEqual(await numbers(), [2, 3]);
      t.mock.timers.reset();
    }));

  it('is read beside the process that writes it', () =>
    withInbox({}, async (post, _store, folder) => {
      const reader = await openStore(folder, { mode: 'read' });
      try {
        assert.deepEqual(await Array.fromAsync(reader.takeInbox('faces')), []);
        await post(3);
        const [item] = await Array.fromAsync(reader.takeInbox('faces'));
        assert.equal(item?.number, 1);
        await assert.rejects(reader.dropInbox('faces', [1]), fails('STORAGE'));
      } finally {
        await reader.close();
      }
    }));

  it('refuses limits that cannot be', async () => {
    for (const inbox of [{ items: 0 }, { bytes: 1.5 }, { age: -1 }, { letters: 3 } as InboxLimits])
      await assert.rejects(openStore('/nowhere', { inbox }), fails('INVALID_ARGUMENT'));
  });
});
