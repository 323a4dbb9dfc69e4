// A server that wants to fill the memory of its clients, to keep them waiting, or to confuse them.
// All it gets is a typed error.
//
// Mostly waits: the runner starts it beside others.

import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import {
  decodeMessage,
  type ErrorCode,
  encodeInboxItem,
  encodeMessage,
  frame,
  HersError,
  ITEM_KIND,
  MAX_IDS,
} from '@hers/service';
import { HttpService, type RetryEvent } from '../index.ts';

const text = (value: string) => new TextEncoder().encode(value);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const bytes = (length: number, fill = 0) => new Uint8Array(length).fill(fill);

/** Runs as a server until it is disposed of. */
async function hostile(answer: (request: IncomingMessage, response: ServerResponse) => unknown) {
  let requests = 0;
  const server = createServer((request, response) => {
    requests++;
    response.on('error', () => {});
    void (async () => answer(request, response))().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get requests() {
      return requests;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The call fails with one of these codes, and in time. */
async function fails(call: Promise<unknown>, codes: ErrorCode | readonly ErrorCode[], withinMs = 10_000) {
  let timer: NodeJS.Timeout | undefined;
  const began = performance.now();
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came of it in ${withinMs} ms`)), withinMs);
  });
  try {
    await Promise.race([call, late]);
  } catch (error) {
    assert.ok(error instanceof HersError, `${error}`);
    assert.ok([codes].flat().includes(error.code), `${error.code}: ${error.message}`);
    return { error, ms: performance.now() - began };
  } finally {
    clearTimeout(timer);
    call.catch(() => {});
  }
  return assert.fail('it worked');
}

const all = <T>(items: AsyncIterable<T>) => Array.fromAsync(items);
const id = bytes(16, 1);
const created = { id, descriptor: text('d'), manifest: text('m') };
const change = { expected: 1, manifest: text('m') };
const query = { version: 1, queries: [] };
const handles = Array.from({ length: 3 }, (_, i) => bytes(16, i));
const lists = Array.from({ length: 3 }, (_, i) => bytes(32, i));

/** One of every kind of call. */
const CALLS: Record<string, (service: HttpService) => Promise<unknown>> = {
  hello: (service) => service.hello(),
  listCollections: (service) => service.listCollections(),
  getCollection: (service) => service.getCollection('faces'),
  createCollection: (service) => service.createCollection('faces', created),
  deleteCollection: (service) => service.deleteCollection('faces'),
  getManifest: (service) => service.getManifest('faces'),
  stageRecords: (service) => service.stageRecords('faces', [{ handle: id, sealed: bytes(9) }]),
  stageList: (service) => service.stageList('faces', bytes(9)),
  stageBlock: (service) => service.stageBlock('faces', [bytes(9)]),
  commit: (service) => service.commit('faces', change),
  getRecords: (service) => all(service.getRecords('faces', handles)),
  getLists: (service) => all(service.getLists('faces', lists)),
  getBlock: (service) => all(service.getBlock('faces', id)),
  search: (service) => all(service.search('faces', query)),
  purge: (service) => service.purge('faces'),
  snapshot: (service) => all(service.snapshot('faces')),
  restore: (service) => service.restore('faces', [bytes(9)]),
};
const calls = (...names: string[]) => names.map((name) => [name, CALLS[name]] as const);
const HELLO = JSON.stringify({ server: 'hers', version: '1', bodyBytes: 1 });
const info = { name: 'faces', id: '01'.repeat(16), descriptor: 'ZA==', version: 1, records: 1, blocks: 1, bytes: 1 };
/** Something that every call whose answer is JSON takes. */
const GOOD = JSON.stringify({ ...JSON.parse(HELLO), ...info, collections: [info], stage: 'x' });

const item = (content: Uint8Array, kind: number = ITEM_KIND.item) => frame(Uint8Array.from([...content, kind]));
const END = item(bytes(0), ITEM_KIND.end);
const record = (handle: Uint8Array) => item(Buffer.concat([handle, bytes(20)]));
const response = (query: number, block: number) =>
  item(Buffer.concat([bytes(32), bytes(16, query), bytes(16, block), bytes(200)]));

/** Writes as long as the other side takes it, and says how much that was. */
async function pour(answer: ServerResponse, piece: Uint8Array, most: number): Promise<number> {
  let written = 0;
  while (!answer.destroyed && written < most) {
    written += piece.length;
    if (!answer.write(piece))
      await new Promise<void>((resolve) => {
        const on = () => {
          answer.off('drain', on).off('close', on);
          resolve();
        };
        answer.on('drain', on).on('close', on);
      });
  }
  return written;
}

describe('what is too large', { concurrency: true }, () => {
  it('an answer is refused as soon as it is longer than it can be', async () => {
    let poured: Promise<number> = Promise.resolve(0);
    await using server = await hostile((_, answer) => {
      answer.write(GOOD);
      poured = pour(answer, Buffer.alloc(2 ** 16, ' '), 2 ** 26).finally(() => answer.end());
    });
    const service = new HttpService(server.url);
    const small = calls(
      'hello',
      'getCollection',
      'createCollection',
      'deleteCollection',
      'stageRecords',
      'stageList',
      'stageBlock',
      'commit',
      'purge',
      'restore',
      'listCollections',
    );
    for (const [name, call] of small) {
      await fails(call(service), 'TOO_LARGE');
      // What lies in buffers on the way is not much more.
      assert.ok((await poured) < 2 ** 25, `${name}: ${await poured}`);
    }
  });

  it('a length that is announced and too large is refused before anything is read', async () => {
    let length = 0;
    await using server = await hostile((_, answer) => {
      answer.writeHead(200, { 'content-length': length });
      answer.write('x');
    });
    const service = new HttpService(server.url);
    const limits = {
      hello: 2 ** 16,
      commit: 2 ** 16,
      listCollections: 2 ** 24,
      getManifest: 2 ** 28,
      getBlock: 2 ** 28,
    };
    for (const [name, limit] of Object.entries(limits)) {
      length = limit + 1;
      await fails(CALLS[name](service), 'TOO_LARGE', 5000);
    }
  });

  it('a frame that is too large for what it holds is refused by its length', async () => {
    let length = 0;
    await using server = await hostile((_, answer) => {
      const head = Buffer.alloc(4);
      head.writeUInt32LE(length + 1); // and the kind
      answer.write(head);
      if (limits.has(length)) answer.end(Buffer.concat([handles[0], bytes(length - 16), Uint8Array.of(0), END]));
    });
    const service = new HttpService(server.url);
    const reading: [number, () => AsyncIterable<unknown>][] = [
      [18 * 2 ** 20, () => service.getRecords('faces', handles.slice(0, 1))],
      [2 ** 25, () => service.getLists('faces', lists.slice(0, 1))],
      [2 ** 20, () => service.search('faces', query)],
    ];
    const limits = new Set(reading.map(([limit]) => limit));
    for (const [limit, read] of reading) {
      length = limit;
      assert.equal((await all(read())).length, 1);
      length = limit + 1;
      await fails(all(read()), 'MALFORMED', 5000);
    }
  });

  it('a block ends somewhere, a snapshot goes on as long as it is read', async () => {
    await using server = await hostile((_, answer) =>
      pour(answer, bytes(2 ** 20), 2 ** 28 + 2 ** 22).finally(() => answer.end()),
    );
    const service = new HttpService(server.url);
    let read = 0;
    const through = async (pieces: AsyncIterable<Uint8Array>) => {
      read = 0;
      for await (const piece of pieces) read += piece.length;
    };
    await fails(through(service.getBlock('faces', id)), 'TOO_LARGE', 30_000);
    assert.ok(read <= 2 ** 28);
    await through(service.snapshot('faces'));
    assert.equal(read, 2 ** 28 + 2 ** 22);
  });

  it('the body of an error is not read to the end when it is too large', async () => {
    await using server = await hostile((_, answer) => {
      answer.writeHead(404);
      answer.end(JSON.stringify({ code: 'NOT_FOUND', message: 'x'.repeat(2 ** 20) }));
    });
    const { error } = await fails(new HttpService(server.url).hello(), 'INVALID_ARGUMENT');
    assert.match(error.message, /answered 404 without saying why/);
  });

  it('a compressed answer is refused and not inflated, and none is asked for', async () => {
    const bomb = gzipSync(Buffer.concat([text(HELLO), Buffer.alloc(2 ** 25, ' ')]));
    let [status, encoding] = [200, 'gzip'];
    const asked: unknown[] = [];
    await using server = await hostile((request, answer) => {
      asked.push(request.headers['accept-encoding']);
      answer.writeHead(status, { 'content-encoding': encoding });
      answer.end(bomb);
    });
    const service = new HttpService(server.url);
    for (encoding of ['gzip', 'x-gzip', 'deflate', 'br', 'zstd', 'gzip, gzip', 'unheard-of'])
      for (const [, call] of calls('hello', 'getManifest', 'search', 'getBlock', 'purge'))
        await fails(call(service), 'MALFORMED', 5000);
    assert.deepEqual(new Set(asked), new Set(['identity']));
    [status, encoding] = [404, 'gzip'];
    const { error } = await fails(service.hello(), 'INVALID_ARGUMENT', 5000);
    assert.match(error.message, /answered 404 without saying why/);
  });
});

// The least time that a server may be silent is a second.
describe('what never comes', { concurrency: true }, () => {
  const QUICK = ['hello', 'listCollections', 'getCollection', 'createCollection', 'getManifest'];
  const STREAMED = ['getRecords', 'getLists', 'getBlock'];
  const LONG = ['search', 'snapshot', 'purge', 'restore', 'commit', 'stageRecords', 'deleteCollection'];

  it('silence before the head, or nothing but promises of one, ends within three times retryMs', async () => {
    await using server = await hostile(async (request, answer) => {
      if (request.method !== 'GET') return;
      while (!answer.destroyed) {
        answer.writeProcessing();
        await pause(100);
      }
    });
    const service = new HttpService(server.url, { retryMs: 1000 });
    await Promise.all(
      calls(...QUICK, ...STREAMED).map(async ([, call]) => {
        const { error, ms } = await fails(call(service), 'UNAVAILABLE', 6000);
        assert.match(error.message, /was silent for 1\.\d s/);
        assert.ok(ms > 900, String(ms));
      }),
    );
  });

  it('silence in the middle of a body does too, also in that of an error', async () => {
    let status = 200;
    await using server = await hostile((_, answer) => {
      answer.writeHead(status);
      answer.write('{"server":');
    });
    const service = new HttpService(server.url, { retryMs: 1000 });
    for (status of [200, 404, 503])
      await Promise.all(
        calls(...QUICK, ...STREAMED, 'stageList', 'commit').map(async ([, call]) => {
          // Some take such an answer for one that is malformed.
          await fails(call(service), ['UNAVAILABLE', 'MALFORMED'], 6000);
        }),
      );
  });

  it('a byte every two seconds does too', async () => {
    await using server = await hostile(async (_, answer) => {
      // Spaces are JSON that has not begun, and the length of a frame that goes on for ever.
      while (!answer.destroyed) {
        answer.write(' ');
        await pause(2000);
      }
    });
    const service = new HttpService(server.url, { retryMs: 3000 });
    await Promise.all(
      calls(...QUICK, 'stageList', 'getBlock').map(([, call]) => fails(call(service), 'UNAVAILABLE', 12_000)),
    );
  });

  it('many bytes a second are too few when they go on for ever', async () => {
    await using server = await hostile(async (_, answer) => {
      answer.write(Buffer.from([0, 0, 1, 0]));
      while (!answer.destroyed) {
        answer.write('x'.repeat(50));
        await pause(100);
      }
    });
    const service = new HttpService(server.url, { retryMs: 1000 });
    const { error } = await fails(service.getManifest('faces'), 'UNAVAILABLE', 6000);
    assert.match(error.message, /sends too little at a time/);
    await Promise.all(calls(...STREAMED).map(([, call]) => fails(call(service), 'UNAVAILABLE', 6000)));
  });

  it('where a server has to work it may be silent for longer, and not for ever', async () => {
    let working = true;
    await using server = await hostile(async (request, answer) => {
      request.resume();
      if (!working) return;
      await pause(3000);
      answer.end(END);
    });
    const service = new HttpService(server.url, { retryMs: 1000 });
    assert.deepEqual(await CALLS.search(service), []);
    working = false;
    await Promise.all(
      calls(...LONG).map(async ([name, call]) => {
        const { ms } = await fails(call(service), 'UNAVAILABLE', 40_000);
        assert.ok(ms > 19_000, `${name}: ${ms}`);
      }),
    );
  });

  it('a body that is made slowly is not the fault of the server; one that it does not take is', async () => {
    const taken: number[] = [];
    await using server = await hostile(async (request, answer) => {
      if (request.url?.includes('stuck')) return request.pause();
      let bytes = 0;
      for await (const piece of request) bytes += piece.length;
      taken.push(bytes);
      answer.end();
    });
    const service = new HttpService(server.url, { retryMs: 1000 });
    async function* slowly() {
      for (let i = 0; i < 9; i++) yield bytes(2 ** 20);
      await pause(26_000);
      yield bytes(2 ** 20);
    }
    async function* endlessly() {
      for (;;) yield bytes(2 ** 16);
    }
    await Promise.all([
      service.restore('slow', slowly()),
      fails(service.restore('stuck', endlessly()), 'UNAVAILABLE', 60_000),
    ]);
    assert.deepEqual(taken, [10 * 2 ** 20]);
  });

  it('a large body gets the time that a slow line needs, a small one does not', async () => {
    await using server = await hostile(async (request, answer) => {
      await pause(3500);
      request.resume();
      answer.writeHead(204).end();
    });
    const service = new HttpService(server.url, { retryMs: 1000 });
    await Promise.all([
      service.createCollection('faces', { ...created, manifest: bytes(2 ** 18) }),
      fails(service.createCollection('faces', created), 'UNAVAILABLE', 6000),
    ]);
  });

  it('who reads an answer slowly is waited for, and the server is not', async () => {
    await using server = await hostile(async (_, answer) => {
      for (const handle of handles.slice(0, 2)) answer.write(item(Buffer.concat([handle, bytes(2 ** 20)])));
      // The third never comes.
    });
    const service = new HttpService(server.url, { retryMs: 1000 });
    const records = service.getRecords('faces', handles);
    for (let i = 0; i < 2; i++) {
      assert.deepEqual((await records.next()).value.handle, handles[i]);
      await pause(3500);
    }
    const { ms } = await fails(records.next(), 'UNAVAILABLE', 6000);
    assert.ok(ms > 900, String(ms));
  });
});

describe('what is given again and again', { concurrency: true }, () => {
  it('a response that comes twice in one answer is INTEGRITY', async () => {
    await using server = await hostile((_, answer) =>
      pour(answer, response(1, 1), 2 ** 24).then(() => answer.end(END)),
    );
    const service = new HttpService(server.url);
    await fails(all(service.search('faces', query)), 'INTEGRITY', 3000);
  });

  it('only what an earlier attempt delivered is passed over, and once', async () => {
    const answers = [
      [response(1, 1), response(1, 2)],
      [response(1, 2), response(1, 1), response(1, 3)],
      [response(1, 3), response(1, 1), response(1, 4), response(1, 1), END],
    ];
    await using server = await hostile((_, answer) => answer.end(Buffer.concat(answers.shift()!)));
    const found: number[] = [];
    const search = async () => {
      for await (const each of new HttpService(server.url).search('faces', query)) found.push(each[48]);
    };
    await fails(search(), 'INTEGRITY', 5000);
    assert.deepEqual(found, [1, 2, 3, 4]);
  });

  it('more things than were asked for, fewer, or others are INTEGRITY', async () => {
    let answers: Uint8Array = bytes(0);
    await using server = await hostile((_, answer) => answer.end(answers));
    const service = new HttpService(server.url);
    const [one, two, three] = handles.map(record);
    for (const items of [
      [one, two, three, three],
      [one, two],
      [one, two, two],
      [],
      [item(bytes(5))],
      [one, two, item(bytes(0))],
    ]) {
      answers = Buffer.concat([...items, END]);
      await fails(CALLS.getRecords(service), 'INTEGRITY', 3000);
    }
    for (const count of [0, 2, 4, 100_000]) {
      answers = Buffer.concat([...Array<Uint8Array>(count).fill(item(bytes(0))), END]);
      await fails(CALLS.getLists(service), 'INTEGRITY', 3000);
    }
  });

  it('things behind the end are MALFORMED, and an end that nothing follows does not hold anyone', async () => {
    let more: Uint8Array = END;
    await using server = await hostile((_, answer) => answer.write(Buffer.concat([END, more])));
    const service = new HttpService(server.url, { retryMs: 1000 });
    await fails(all(service.getLists('faces', [])), 'MALFORMED', 3000);
    more = bytes(0);
    await fails(all(service.getLists('faces', [])), 'UNAVAILABLE', 6000);
  });

  it('a line that breaks behind the last item of an inbox that was asked for is not asked again', async () => {
    const items = [1, 2, 3].map((number) =>
      item(Buffer.concat(encodeInboxItem({ number, posted: 1, envelope: bytes(40) }))),
    );
    let given = 2;
    await using server = await hostile((_, answer) => answer.end(Buffer.concat(items.slice(0, given))));
    const service = new HttpService(server.url, { retryMs: 1000 });
    const taken = await Array.fromAsync(service.takeInbox('faces', { limit: 2 }));
    assert.deepEqual([taken.map(({ number }) => number), server.requests], [[1, 2], 1]);
    given = 3;
    await fails(all(service.takeInbox('faces', { limit: 2 })), 'INTEGRITY', 3000);
    given = 1;
    await fails(all(service.takeInbox('faces', { limit: 2 })), 'INTEGRITY', 3000);
  });

  it('a line that breaks or falls silent after every thing is given up', async () => {
    let [next, silent] = [0, false];
    await using server = await hostile((_, answer) => {
      answer.write(record(bytes(16, next++)));
      if (!silent) answer.end();
    });
    const many = Array.from({ length: 200 }, (_, i) => bytes(16, i));
    await fails(all(new HttpService(server.url).getRecords('faces', many)), 'UNAVAILABLE', 20_000);
    assert.ok(server.requests <= 12, String(server.requests));
    [next, silent] = [0, true];
    const service = new HttpService(server.url, { retryMs: 1000 });
    await fails(all(service.getRecords('faces', many)), 'UNAVAILABLE', 20_000);
  });
});

describe('nonsense', { concurrency: true }, () => {
  const JSONS = [
    'null',
    '[]',
    '7',
    '"x"',
    'true',
    '{}',
    '',
    'no JSON',
    '[[[[',
    '{"__proto__":null}',
    '\ufeff',
    '[null]',
  ];
  const PARSED = ['hello', 'listCollections', 'getCollection', 'stageRecords', 'stageList', 'stageBlock', 'commit'];

  /** What comes back where these bodies are the answer. */
  async function refuses(names: readonly string[], bodies: readonly (string | Uint8Array)[], codes: ErrorCode[]) {
    let body: string | Uint8Array = '';
    await using server = await hostile((request, answer) => {
      request.resume();
      answer.end(body);
    });
    const service = new HttpService(server.url, { retryMs: 0 });
    for (body of bodies) for (const [, call] of calls(...names)) await fails(call(service), codes, 5000);
  }

  it('JSON of any other kind is a HersError', async () => {
    await refuses(PARSED, [...JSONS, Uint8Array.of(0x22, 0xff, 0x22)], ['MALFORMED', 'INVALID_ARGUMENT']);
  });

  it('descriptions with fields that are missing or of another kind are MALFORMED', async () => {
    const wrong: Record<string, unknown[]> = {
      name: [undefined, 7, '', '../x', 'x'.repeat(65)],
      id: [undefined, 7, null, '', '01', `${'01'.repeat(15)}0g`, '01'.repeat(17), ['01'.repeat(16)]],
      descriptor: [undefined, 7, 'x', '====', 'ZA', '\u20ac', 'Z A=', 'A'.repeat(2 ** 16 + 4)],
    };
    for (const field of ['version', 'records', 'blocks', 'bytes'])
      wrong[field] = [undefined, null, '1', -1, 1.5, 2 ** 53, {}, []];
    const bodies = Object.entries(wrong).flatMap(([field, values]) =>
      values.map((value) => JSON.stringify({ ...info, [field]: value })),
    );
    await refuses(['getCollection'], bodies, ['MALFORMED', 'TOO_LARGE']);
    const listed = bodies.map((body) => `{"collections":[${JSON.stringify(info)},${body}]}`);
    await refuses(['listCollections'], [...listed, '{"collections":{}}', '{"collections":"x"}'], ['MALFORMED']);
    await refuses(['getCollection'], [JSON.stringify({ ...info, name: 'other' })], ['INTEGRITY']);
  });

  it('greetings, stages and versions that cannot be are MALFORMED', async () => {
    const hellos = [{ version: 7 }, { version: 'x'.repeat(101) }, { bodyBytes: '1' }, { bodyBytes: -1 }];
    await refuses(
      ['hello'],
      hellos.map((some) => JSON.stringify({ ...JSON.parse(HELLO), ...some })),
      ['MALFORMED'],
    );
    const stages = ['{"stage":7}', '{"stage":""}', '{"stage":null}', `{"stage":"${'x'.repeat(8193)}"}`];
    await refuses(['stageRecords', 'stageList', 'stageBlock'], stages, ['MALFORMED']);
    await refuses(['commit'], ['{"version":"2"}', '{"version":1.5}', '{"version":-1}'], ['MALFORMED']);
  });

  it('manifests with another head, or with fewer or more parts than one, are MALFORMED', async () => {
    const heads = [{}, { version: -1 }, { version: '1' }, { version: 1.5 }, { version: null }, []];
    const messages = heads.map((head) => encodeMessage(head, [text('m')]));
    for (const parts of [[], [text('m'), text('n')]]) messages.push(encodeMessage({ version: 1 }, parts));
    const many = encodeMessage({ version: 1 }, Array<Uint8Array>(2 ** 20).fill(bytes(0)));
    const cut = encodeMessage({ version: 1 }, [text('m')]).subarray(0, 20);
    await refuses(['getManifest'], [...messages, many, cut, ...JSONS], ['MALFORMED']);
  });

  it('streams that are none are a HersError', async () => {
    const failed = (value: unknown) => item(text(JSON.stringify(value)), ITEM_KIND.failed);
    const streams = [
      bytes(3),
      bytes(4),
      bytes(400),
      item(bytes(3), 9),
      item(text('no JSON'), ITEM_KIND.failed),
      failed(null),
      failed({ code: 'constructor', message: 'x' }),
      failed({ code: 'STALE', message: 7 }),
      failed({ code: 'STALE', message: 'x'.repeat(2 ** 17) }),
      item(bytes(10)),
    ];
    await refuses(['search', 'getRecords', 'getLists'], streams, ['MALFORMED', 'UNAVAILABLE', 'INTEGRITY']);
  });

  it('errors of no known kind, and statuses that nobody heard of, are a HersError', async () => {
    let [status, body] = [0, ''];
    await using server = await hostile((_, answer) => {
      answer.statusCode = status;
      answer.end(body);
    });
    const service = new HttpService(server.url, { retryMs: 0 });
    const codes: ErrorCode[] = ['INVALID_ARGUMENT', 'UNAVAILABLE', 'OVERLOADED', 'MALFORMED', 'INTEGRITY'];
    for (status of [204, 205, 206, 300, 304, 400, 401, 404, 418, 429, 500, 503, 599, 600, 999])
      for (body of [...JSONS, '{"code":"toString","message":"x"}', '{"code":"STALE"}', '{"code":7,"message":{}}'])
        for (const [, call] of calls('hello', 'getCollection', 'getManifest', 'search'))
          await fails(call(service), codes, 3000);
  });

  it('what an error says is cut short, and cannot write to a terminal', async () => {
    const evil = `\u001b[2J\u001b]0;x\u0007a\r\nb\u009b31m\u202ec\u2028${'d'.repeat(5000)}\ud800`;
    let streamed = false;
    await using server = await hostile((_, answer) => {
      const body = JSON.stringify({ code: 'DAMAGED', message: evil });
      if (streamed) return answer.end(item(text(body), ITEM_KIND.failed));
      answer.statusCode = 400;
      answer.end(body);
    });
    const service = new HttpService(server.url);
    for (streamed of [false, true]) {
      const { message } = (await fails(CALLS.search(service), 'DAMAGED')).error;
      assert.ok(message.length <= 500 && message.length > 400, String(message.length));
      assert.doesNotMatch(message, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
      assert.match(message, /a b/);
    }
  });
});

describe('what leads elsewhere, and when to come back', { concurrency: true }, () => {
  it('a redirect is refused at once, with the address it leads to', async () => {
    await using other = await hostile((_, answer) => answer.end(HELLO));
    let [status, location]: [number, string | undefined] = [0, undefined];
    await using server = await hostile((request, answer) => {
      request.resume();
      answer.writeHead(status, location === undefined ? {} : { location });
      answer.end(HELLO);
    });
    const service = new HttpService(server.url, { token: 'secret' });
    for (status of [301, 302, 303, 307, 308])
      for (const [, call] of calls('hello', 'commit', 'search', 'stageList', 'snapshot')) {
        location = `${other.url}/v1`;
        const { error } = await fails(call(service), 'INVALID_ARGUMENT', 5000);
        assert.ok(error.message.includes(`leads to ${location};`), error.message);
      }
    location = '/elsewhere';
    assert.ok((await fails(service.hello(), 'INVALID_ARGUMENT')).error.message.includes(`${server.url}/elsewhere;`));
    for (location of [undefined, 'http://', '\u009b31m'])
      assert.doesNotMatch((await fails(service.hello(), 'INVALID_ARGUMENT')).error.message, /\p{Cc}/u);
    assert.equal(server.requests, 29);
    assert.equal(other.requests, 0);
  });

  it('a redirect that a page is told nothing about is refused at once too', async () => {
    const original = globalThis.fetch;
    let requests = 0;
    // Other tests run meanwhile.
    globalThis.fetch = async (...args) => {
      if (!String(args[0]).includes('page.invalid')) return original(...args);
      requests++;
      assert.equal(args[1]?.redirect, 'manual');
      const answer = new Response(null);
      const opaque = { type: 'opaqueredirect', status: 0, ok: false };
      for (const [key, value] of Object.entries(opaque)) Object.defineProperty(answer, key, { value });
      return answer;
    };
    try {
      const { error } = await fails(new HttpService('https://page.invalid').hello(), 'INVALID_ARGUMENT', 5000);
      assert.match(error.message, /leads to another address/);
      assert.equal(requests, 1);
    } finally {
      globalThis.fetch = original;
    }
  });

  it('whatever Retry-After says, there are pauses, and they end', async () => {
    const busy = (after: string) =>
      hostile((_, answer) => {
        answer.writeHead(503, { 'retry-after': after });
        answer.end(JSON.stringify({ code: 'UNAVAILABLE', message: 'later' }));
      });
    const ends = async (after: string) => {
      await using server = await busy(after);
      await fails(new HttpService(server.url, { retryMs: 700 }).hello(), 'UNAVAILABLE', 5000);
      assert.ok(server.requests >= 2 && server.requests <= 12, `${after}: ${server.requests}`);
    };
    // No timer is that long: it would end at once, and so would every pause.
    const pauses = async (retryMs: number) => {
      await using server = await busy('99999999999');
      const events: RetryEvent[] = [];
      const service = new HttpService(server.url, { retryMs, onRetry: (event) => events.push(event) });
      const ending = service.hello();
      ending.catch(() => {});
      await pause(1000);
      await service.close();
      await fails(ending, 'CLOSED', 1000);
      assert.equal(server.requests, 1);
      assert.ok(events[0].delayMs <= 66_000, String(events[0].delayMs));
    };
    const dates = ['0', '-5', '1e300', '99999999999', 'Infinity', 'NaN', 'Wed, 21 Oct 2099 07:28:00 GMT', 'x'];
    await Promise.all([...dates.map(ends), ...[1e12, Number.POSITIVE_INFINITY].map(pauses)]);
  });
});

// Alone, for it keeps everything waiting.
it('a client that is busy does not blame the server, and notices silence afterwards', async () => {
  await using server = await hostile((_, answer) => {
    if (server.requests > 1) return;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2500);
    answer.end(HELLO);
  });
  const service = new HttpService(server.url, { retryMs: 1000 });
  assert.equal((await service.hello()).server, 'hers');
  await fails(service.hello(), 'UNAVAILABLE', 6000);
});

describe('what is too much for one request', () => {
  const bodyOf = async (request: IncomingMessage) => Buffer.concat(await Array.fromAsync(request));
  const split = (body: Buffer, length: number) =>
    Array.from({ length: body.length / length }, (_, i) => body.subarray(i * length, (i + 1) * length));

  it('records and lists are asked for in several, and come in order', async () => {
    const asked: number[] = [];
    await using server = await hostile(async (request, answer) => {
      const isRecords = request.url!.endsWith('records/get');
      const ids = split(await bodyOf(request), isRecords ? 16 : 32);
      asked.push(ids.length);
      const kind = Uint8Array.of(ITEM_KIND.item);
      const items = ids.map((id) => frame(Buffer.concat([id, kind])));
      answer.end(Buffer.concat([...items, END]));
    });
    const service = new HttpService(server.url);
    const idsOf = (length: number) =>
      Array.from({ length: MAX_IDS + 3 }, (_, i) => {
        const id = Buffer.alloc(length);
        id.writeUInt32LE(i);
        return id;
      });
    const records = await all(service.getRecords('faces', idsOf(16)));
    const found = await all(service.getLists('faces', idsOf(32)));
    assert.deepEqual(asked, [MAX_IDS, 3, MAX_IDS, 3]);
    for (const each of [records.map(({ handle }) => handle), found])
      assert.ok(each.length === MAX_IDS + 3 && each.every((id, i) => Buffer.from(id).readUInt32LE(0) === i));
  });

  it('so are searches, each with as many queries as fit, and one at least', async () => {
    const asked: { readonly version: unknown; readonly queries: number[] }[] = [];
    await using server = await hostile(async (request, answer) => {
      const { head, parts } = decodeMessage(await bodyOf(request), 100);
      asked.push({ version: (head as { version: unknown }).version, queries: parts.map(([first]) => first) });
      answer.end(Buffer.concat([...parts.map(([first]) => response(first, 1)), END]));
    });
    const queries = [12, 12, 12, 40, 1].map((mib, i) => bytes(mib * 2 ** 20, i));
    const found = await all(new HttpService(server.url).search('faces', { version: 7, queries }));
    assert.deepEqual(
      asked.map(({ queries }) => queries),
      [[0, 1], [2], [3], [4]],
    );
    assert.ok(asked.every(({ version }) => version === 7));
    assert.deepEqual(
      found.map((each) => each[32]),
      [0, 1, 2, 3, 4],
    );
  });

  it('what breaks off at its source is told as it was said there, and is not sent again', async () => {
    await using server = await hostile(async (request, answer) => {
      await bodyOf(request).catch(() => {});
      answer.end(GOOD);
    });
    let ended = false;
    async function* pieces(): AsyncGenerator<Uint8Array> {
      try {
        for (let i = 0; i < 12; i++) yield bytes(2 ** 20);
        throw new RangeError('the source is broken');
      } finally {
        ended = true;
      }
    }
    await assert.rejects(new HttpService(server.url).restore('faces', pieces()), (error) => {
      assert.ok(error instanceof RangeError, `${error}`);
      return true;
    });
    assert.ok(ended);
    assert.equal(server.requests, 1);
  });
});
