// One node asks another, which fails in every way that a node can.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, createServer, type RequestListener } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { test } from 'node:test';
import { encodeError, HersError } from '@hers/service';
import { answerTo } from './transport.ts';

async function asked(
  answer: RequestListener,
  work: (ask: (parts: readonly Uint8Array[], signal?: AbortSignal) => Promise<string>) => Promise<void>,
  quietMs = 60_000,
): Promise<void> {
  const server = createServer(answer);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const agent = new Agent({ keepAlive: true });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`;
  try {
    await work(async (parts, signal = new AbortController().signal) =>
      Buffer.concat(
        await Array.fromAsync(answerTo({ url, token: 'secret', parts, agent, signal, quietMs })),
      ).toString(),
    );
  } finally {
    agent.destroy();
    server.closeAllConnections();
    server.close();
  }
}

const bodyOf = async (request: AsyncIterable<Buffer>) => Buffer.concat(await Array.fromAsync(request)).toString();
const texts = (...all: string[]) => all.map((text) => Buffer.from(text));

test('parts arrive as one body, with the token, and a connection is used again', async () => {
  const sockets = new Set<Socket>();
  await asked(
    async (request, response) => {
      sockets.add(request.socket);
      response.end(`${request.headers.authorization} ${await bodyOf(request)}`);
    },
    async (ask) => {
      assert.equal(await ask(texts('a', 'bc', '')), 'Bearer secret abc');
      const large = 'x'.repeat(3_000_000);
      assert.equal(await ask(texts(large, 'y')), `Bearer secret ${large}y`);
      assert.equal(sockets.size, 1);
    },
  );
});

test('a kept connection that the other side has closed is made again', async () => {
  let requests = 0;
  await asked(
    async (request, response) => {
      await bodyOf(request);
      requests++;
      // The second comes on the connection of the first, and finds it closed.
      if (requests === 2) request.socket.resetAndDestroy();
      else response.end('here');
    },
    async (ask) => {
      assert.equal(await ask(texts('one')), 'here');
      assert.equal(await ask(texts('two')), 'here');
      assert.equal(requests, 3);
    },
  );
});

test('what a node refuses is what it says; one that is busy, or says nothing, is unavailable', async () => {
  const answers: [number, string, string][] = [
    [409, JSON.stringify(encodeError(new HersError('STALE', 'too old'))), 'STALE'],
    [429, JSON.stringify(encodeError(new HersError('OVERLOADED', 'later'))), 'UNAVAILABLE'],
    [500, '<html>', 'UNAVAILABLE'],
    [302, '', 'UNAVAILABLE'],
    [500, 'x'.repeat(1_000_000), 'UNAVAILABLE'],
  ];
  for (const [status, text, code] of answers)
    await asked(
      async (request, response) => {
        await bodyOf(request);
        response.writeHead(status).end(text);
      },
      (ask) => assert.rejects(ask(texts('q')), { code }),
    );
});

test('an answer that breaks off, and a node that is not there, are unavailable', async () => {
  await asked(
    async (request, response) => {
      await bodyOf(request);
      response.write('the first half', () => request.socket.destroy());
    },
    (ask) => assert.rejects(ask(texts('q')), { code: 'UNAVAILABLE' }),
  );
  const agent = new Agent();
  const { signal } = new AbortController();
  const answer = answerTo({ url: 'http://127.0.0.1:1/', token: undefined, parts: [], agent, signal, quietMs: 60_000 });
  await assert.rejects(Array.fromAsync(answer), { code: 'UNAVAILABLE' });
});

test('a node that is silent before its answer or in it is given up', async () => {
  for (const begins of [false, true])
    await asked(
      async (request, response) => {
        await bodyOf(request);
        if (begins) response.write('the first half');
      },
      (ask) => assert.rejects(ask(texts('q')), { code: 'UNAVAILABLE', message: /silent/ }),
      100,
    );
});

test('whoever cancels ends it with the reason, and the other side notices', async () => {
  const reason = new HersError('CLOSED', 'enough');
  const cancel = new AbortController();
  const closed = Promise.withResolvers<void>();
  await asked(
    async (request, response) => {
      response.on('close', () => closed.resolve());
      await bodyOf(request);
      response.write('the first half');
      cancel.abort(reason);
    },
    async (ask) => {
      await assert.rejects(ask(texts('q'), cancel.signal), reason);
      await closed.promise;
      await assert.rejects(ask(texts('q'), cancel.signal), reason);
    },
  );
});
