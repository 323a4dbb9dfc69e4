// Requests that come before the last one is answered, and answers that nobody reads: neither ends
// the process, fills its memory, or holds a connection for long.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { encodeMessage, MAX_REMOVED, OCTETS, type Service } from '@hers/service';
import { FACES, filled, head, held, metrics, open, post, settled } from '../testing/clients.ts';
import { served } from '../testing/server.ts';

it('a request behind one that is not answered ends the connection, and a body that breaks off there ends nothing else', async () => {
  let gate: ReturnType<typeof held> | undefined;
  const service = (store: Service) => (gate = held(store)).service;
  await using server = await served({ service });
  const { search } = await filled(server.store);
  for (let i = 0; i < 2; i++) {
    const { socket, said, ended } = await open(server.url);
    const body = Buffer.from(search());
    socket.write(head('POST', `${FACES}/search`, `content-type: ${OCTETS}`, `content-length: ${body.length}`));
    socket.write(body);
    while (gate!.begun() <= i) await pause(5);
    socket.write(head('POST', `${FACES}/lists`, `content-type: ${OCTETS}`, 'content-length: 1000'));
    socket.write('half a body');
    await ended;
    assert.equal(said(), '');
  }
  gate!.release();
  await settled(server.url);
});

it('requests one after the other on one connection are answered, also when each is sent as soon as the last answer came', async () => {
  await using server = await served();
  const { socket, said } = await open(server.url);
  for (let i = 1; i <= 50; i++) {
    socket.write(head('GET', '/v1'));
    while (said().split('"bodyBytes"').length <= i) await pause(1);
  }
  socket.destroy();
});

it('many requests at once on one connection, whatever they ask for, are not all kept', async () => {
  await using server = await served();
  for (const path of ['/v1', '/nowhere', '/%zz', '/docs', '/healthz']) {
    const { socket, ended } = await open(server.url);
    socket.pause();
    socket.write(head('GET', path).repeat(2000));
    socket.on('data', () => {}).resume();
    await ended;
  }
  await settled(server.url);
});

it('an answer that is not read is given up', async () => {
  const text = 'x'.repeat(48_000);
  await using server = await served({ limits: { stallSeconds: 0.5 } });
  for (let i = 0; i < 150; i++)
    await server.store.createCollection(`c${i}`, {
      id: Buffer.alloc(16, i + 1),
      descriptor: Buffer.from(text),
      manifest: Buffer.from('m'),
    });
  const { socket, ended } = await open(server.url);
  socket.pause();
  // 9 MB of JSON: more than the buffers of a connection hold.
  socket.write(head('GET', '/v1/collections'));
  await pause(100);
  assert.equal((await metrics(server.url)).get('hers_requests_running'), 2);
  assert.ok((await metrics(server.url)).get('hers_held_bytes')! > 9e6);
  while ((await metrics(server.url)).get('hers_requests_running')! > 1) await pause(50);
  assert.equal((await metrics(server.url)).get('hers_held_bytes'), 0);
  socket.resume();
  await ended;
});

it('a change deletes so many records at most, and snapshots are so many at a time', async () => {
  await using server = await served({ limits: { scans: 2 } });
  await filled(server.store, 60, { set: 'n_4096_logq_30_30_wide_4', width: 4 });
  const none = new Uint8Array(0);
  const removed = new Uint8Array(16 * (MAX_REMOVED + 1));
  const commit = encodeMessage({ expected: 2 }, [Buffer.from('3'), removed, none, none]);
  const answer = await post(server.url, `${FACES}/commit`, commit);
  assert.equal(answer.status, 413);
  const { socket } = await open(server.url);
  socket.pause();
  socket.write(head('GET', `${FACES}/snapshot`));
  while (!(await metrics(server.url)).get('hers_held_bytes')) await pause(20);
  const second = await fetch(`${server.url}${FACES}/snapshot`);
  assert.equal(second.status, 429);
  socket.destroy();
  await settled(server.url);
  const third = await fetch(`${server.url}${FACES}/snapshot`);
  assert.equal(third.status, 200);
  await third.body?.cancel();
});
