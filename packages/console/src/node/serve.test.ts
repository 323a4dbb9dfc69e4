// Who gets through to the gallery: whoever opened the address, and no page and no process besides.

import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { OCTETS } from '@hers/service';
import { BASE, PAGE_HEADERS, readPage } from './files.node.ts';
import { type RunningConsole, startConsole } from './serve.node.ts';

/** What a page may weigh, compressed, with the module of the client. */
const MAX_BYTES = 200_000;

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A request as it is written, with any Host. */
function ask(
  url: string,
  path: string,
  options: { method?: string; headers?: Record<string, string>; body?: string } = {},
) {
  const { hostname, port } = new URL(url);
  const { method = 'GET', headers = {}, body } = options;
  return new Promise<Answer>((resolve, reject) => {
    const sent = request({ hostname, port, path, method, headers, agent: false }, (answer) => {
      let text = '';
      answer
        .setEncoding('utf8')
        .on('data', (piece) => (text += piece))
        .on('end', () => resolve({ status: answer.statusCode!, headers: answer.headers, body: text }));
    });
    sent.on('error', reject).end(body);
  });
}

describe('the page', () => {
  it('is small, and loads nothing from elsewhere', async () => {
    const files = await readPage();
    const bytes = files.reduce((sum, { compressed }) => sum + compressed.length, 0);
    assert.ok(bytes < MAX_BYTES, `${bytes} bytes compressed`);
    for (const { path, body } of files)
      if (/\.(?:css|html)$|^$/.test(path))
        assert.doesNotMatch(Buffer.from(body).toString(), /https?:|\/\/[a-z]/i, path);
    const policy = PAGE_HEADERS['content-security-policy']!;
    assert.match(policy, /default-src 'none'/);
    assert.doesNotMatch(policy, /unsafe-inline|unsafe-eval'(?<!wasm-unsafe-eval')|\*|https?:/);
  });
});

describe('hers console', () => {
  /** What reached the server behind it. */
  const reached: { method: string; url: string; headers: IncomingHttpHeaders; body: string }[] = [];
  let upstream: Server;
  let running: RunningConsole;
  let origin: string;
  let secret: string;
  let isLeadingElsewhere = false;

  before(async () => {
    upstream = createServer(async (incoming, outgoing) => {
      let body = '';
      for await (const piece of incoming) body += piece;
      reached.push({ method: incoming.method!, url: incoming.url!, headers: incoming.headers, body });
      if (isLeadingElsewhere) return void outgoing.writeHead(302, { location: 'http://evil.example/' }).end();
      outgoing.writeHead(200, {
        'content-type': 'text/plain',
        'set-cookie': 'a=b',
        'access-control-allow-origin': '*',
      });
      outgoing.end('from the server');
    });
    await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/behind`;
    running = await startConsole({
      upstream: { url, token: 'the-token' },
      gallery: 'file:/somewhere',
      port: 0,
      keyFile: { name: 'hers.key', text: 'sealed' },
    });
    const address = new URL(running.address);
    origin = address.origin;
    secret = address.hash.replace('#open=', '');
  });
  after(async () => {
    await running.close();
    upstream.close();
  });

  const own = () => ({ host: new URL(origin).host });
  let session: { cookie: string; 'x-hers-console': string };

  it('gives the page to a visitor, and nothing else before the secret is shown', async () => {
    const page = await ask(origin, BASE, { headers: own() });
    assert.equal(page.status, 200);
    for (const [name, value] of Object.entries(PAGE_HEADERS)) assert.equal(page.headers[name], value, name);
    for (const path of ['/v1', '/v1/collections', `${BASE}key`, `${BASE}session`, '/metrics'])
      assert.equal((await ask(origin, path, { headers: own() })).status, 401, path);
    assert.equal(reached.length, 0);
  });

  it('opens for the secret once, and never again', async () => {
    const open = (body: string) => ask(origin, `${BASE}session`, { method: 'POST', headers: own(), body });
    assert.equal((await open('wrong')).status, 403);
    assert.equal((await open('x'.repeat(5000))).status, 403);
    const opened = await open(secret);
    assert.equal(opened.status, 200);
    const [cookie] = opened.headers['set-cookie']!;
    assert.match(cookie!, /; HttpOnly; SameSite=Strict$/);
    session = { cookie: cookie!.split(';')[0]!, 'x-hers-console': JSON.parse(opened.body).token };
    const again = await open(secret);
    assert.equal(again.status, 403);
    assert.match(again.body, /used already/);
    assert.equal(again.headers['set-cookie'], undefined);
  });

  it('passes the API on, to that server alone, with its token, and without its cookies', async () => {
    const answer = await ask(origin, '/v1/collections/faces/search', {
      method: 'POST',
      headers: { ...own(), ...session, 'content-type': OCTETS, authorization: 'Bearer of-the-page' },
      body: 'a query',
    });
    assert.deepEqual([answer.status, answer.body], [200, 'from the server']);
    assert.equal(answer.headers['set-cookie'], undefined);
    assert.equal(answer.headers['access-control-allow-origin'], undefined);
    const { method, url, headers, body } = reached.at(-1)!;
    assert.deepEqual([method, url, body], ['POST', '/behind/v1/collections/faces/search', 'a query']);
    assert.equal(headers.authorization, 'Bearer the-token');
    assert.equal(headers.cookie, undefined);
    assert.equal(headers['x-hers-console'], undefined);
    isLeadingElsewhere = true;
    const moved = await ask(origin, '/v1', { headers: { ...own(), ...session } });
    isLeadingElsewhere = false;
    assert.deepEqual([moved.status, moved.headers.location], [502, undefined]);
  });

  it('needs the cookie and the token, each of which alone is worth nothing', async () => {
    const { cookie, ...token } = session;
    const wrong = { cookie: cookie.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')), ...token };
    const before = reached.length;
    for (const shown of [{}, { cookie }, token, wrong, { cookie, 'x-hers-console': 'x' }])
      for (const path of ['/v1', `${BASE}key`])
        assert.equal((await ask(origin, path, { headers: { ...own(), ...shown } })).status, 401);
    assert.equal(reached.length, before);
    const key = await ask(origin, `${BASE}key`, { headers: { ...own(), ...session } });
    assert.deepEqual(JSON.parse(key.body), { name: 'hers.key', text: 'sealed' });
  });

  it('finds its cookie among others of the same name, in any place', async () => {
    const { cookie, ...token } = session;
    const tossed = `${cookie.split('=')[0]}=x`;
    const statusWith = async (...cookies: string[]) =>
      (await ask(origin, `${BASE}key`, { headers: { ...own(), ...token, cookie: cookies.join('; ') } })).status;
    assert.equal(await statusWith(tossed, cookie), 200);
    assert.equal(await statusWith(cookie, tossed), 200);
    assert.equal(await statusWith(tossed, tossed), 401);
  });

  it('passes on bodies of POST and PUT, with their end, and of nothing else', async () => {
    const hidden = 'GET /elsewhere HTTP/1.1\r\nhost: x\r\n\r\n';
    const chunked = { ...own(), ...session, 'transfer-encoding': 'chunked' };
    const counted = { ...own(), ...session, 'content-length': String(hidden.length) };
    const before = reached.length;
    for (const method of ['GET', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'PATCH'])
      for (const headers of [chunked, counted])
        assert.equal((await ask(origin, '/v1', { method, headers, body: hidden })).status, 400, method);
    assert.equal(reached.length, before);
    for (const method of ['POST', 'PUT'])
      for (const headers of [chunked, counted])
        assert.equal((await ask(origin, '/v1', { method, headers, body: hidden })).status, 200, method);
    assert.equal((await ask(origin, '/v1', { method: 'DELETE', headers: { ...own(), ...session } })).status, 200);
    const expected = ['POST', 'POST', 'PUT', 'PUT'].map((method) => [method, '/behind/v1', hidden]);
    assert.deepEqual(
      reached.slice(before).map(({ method, url, body }) => [method, url, body]),
      [...expected, ['DELETE', '/behind/v1', '']],
    );
  });

  it('compresses for whoever takes gzip', async () => {
    for (const [accepted, encoding] of [
      ['gzip', 'gzip'],
      ['br;q=1, GZIP ; q=0.01', 'gzip'],
      ['gzip;q=0', undefined],
      ['br, gzip; q=0.000, deflate', undefined],
      ['identity', undefined],
    ] as const) {
      const { headers } = await ask(origin, BASE, { headers: { ...own(), 'accept-encoding': accepted } });
      assert.equal(headers['content-encoding'], encoding, accepted);
    }
  });

  it('refuses other names, other origins and other sites, whatever they know', async () => {
    const before = reached.length;
    const port = new URL(origin).port;
    for (const foreign of [
      { host: `evil.example:${port}` },
      { host: `localhost:${port}` },
      { host: '127.0.0.1' },
      { ...own(), origin: 'http://evil.example' },
      { ...own(), origin: `http://localhost:${port}` },
      { ...own(), origin: 'http://127.0.0.1:1' },
      { ...own(), origin: 'null' },
      { ...own(), 'sec-fetch-site': 'cross-site' },
      // Another port of this machine is the same site, for cookies too.
      { ...own(), 'sec-fetch-site': 'same-site' },
      // A form or a frame of another page.
      { ...own(), 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
    ])
      for (const [method, path] of [
        ['GET', '/v1/collections'],
        ['DELETE', '/v1/collections/faces'],
        ['GET', `${BASE}key`],
        ['POST', `${BASE}session`],
      ] as const) {
        const { status } = await ask(origin, path, { method, headers: { ...foreign, ...session }, body: secret });
        assert.equal(status, 403, `${JSON.stringify(foreign)} ${path}`);
      }
    assert.equal(reached.length, before);
    // A link to the page may stand anywhere; a frame around it may not.
    const visit = { ...own(), 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' };
    assert.equal((await ask(origin, BASE, { headers: { ...visit, 'sec-fetch-dest': 'document' } })).status, 200);
    assert.equal((await ask(origin, BASE, { headers: { ...visit, 'sec-fetch-dest': 'iframe' } })).status, 403);
  });

  it('knows the paths of the API, and no way around them', async () => {
    const before = reached.length;
    for (const path of [
      '/v1/../secret',
      '/v1/collections/..',
      '/v1/%2e%2e/secret',
      '/v1//evil.example/x',
      '/v1/collections?x=1',
      '/v1\\..\\x',
      '/docs',
      '/healthz/',
      '//evil.example/v1',
      'http://evil.example/v1',
    ]) {
      const { status } = await ask(origin, path, { headers: { ...own(), ...session } });
      assert.ok(status === 403 || status === 404, `${path}: ${status}`);
    }
    assert.equal(reached.length, before);
  });

  it('sends its policy with every answer, and with what it refuses', async () => {
    const port = Number(new URL(origin).port);
    const answers = await Promise.all([
      ask(origin, '/', { headers: own() }),
      ask(origin, `${BASE}nothing`, { headers: own() }),
      ask(origin, `${BASE}../../package.json`, { headers: own() }),
      ask(origin, `${BASE}%2e%2e/package.json`, { headers: own() }),
      ask(origin, `${BASE}models/faces/worker.js`, { headers: { ...own(), ...session } }),
      ask(origin, `${BASE}key`, { headers: own() }),
      ask(origin, '/v1', { headers: { host: 'evil.example' } }),
      ask(origin, '/v1', { headers: { ...own(), ...session } }),
      ask(origin, '/v1', { method: 'OPTIONS', headers: { ...own(), ...session } }),
      ask(origin, '/nothing', { headers: { ...own(), ...session } }),
    ]);
    for (const { status, headers } of answers) {
      assert.match(
        String(headers['content-security-policy']),
        /default-src 'none'.*frame-ancestors 'none'/,
        String(status),
      );
      assert.match(String(headers['permissions-policy']), /microphone=\(\)/, String(status));
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['access-control-allow-origin'], undefined);
      assert.equal(headers['cache-control'], 'no-store');
    }
    assert.deepEqual(
      answers.map(({ status }) => status),
      [302, 404, 404, 404, 404, 401, 403, 200, 400, 404],
    );
    for (const text of ['nonsense\r\n\r\n', `GET / HTTP/1.1\r\nhost: x\r\na: ${'b'.repeat(50_000)}\r\n\r\n`])
      assert.match(await spoken(port, text), /^HTTP\/1.1 400 [\s\S]*content-security-policy: default-src 'none'/);
  });
});

/** What comes back for bytes that are no request. */
function spoken(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    socket
      .setEncoding('latin1')
      .on('data', (piece) => (answer += piece))
      .on('error', reject)
      .on('close', () => resolve(answer));
  });
}

describe('a server that cheats, behind hers console', () => {
  const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n';
  const cases: readonly (readonly [what: string, answer: string, status: number])[] = [
    ['a status below all', 'HTTP/1.1 099 X\r\ncontent-length: 0\r\n\r\n', 502],
    ['no status', 'HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n', 502],
    ['a status above all', 'HTTP/1.1 999 X\r\ncontent-length: 2\r\n\r\nhi', 502],
    ['another protocol', 'HTTP/1.1 101 S\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nabc', 502],
    ['a redirect', 'HTTP/1.1 301 M\r\nlocation: http://evil.example/\r\ncontent-length: 0\r\n\r\n', 502],
    ['no HTTP', 'nonsense\r\n\r\n', 503],
    ['nothing', '', 503],
    ['two lengths', `${OK}content-length: 3\r\n\r\nhi`, 503],
    ['a head without end', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(100_000)}\r\n\r\n`, 503],
    ['a page', `${OK}content-type: text/html\r\nrefresh: 0;url=//x\r\nset-cookie: a=b\r\nlink: <//x>\r\n\r\nhi`, 200],
    ['a script', `${OK}content-type: text/javascript\r\nclear-site-data: "*"\r\nlocation: //x\r\n\r\nhi`, 200],
    ['two answers', `${OK}\r\nhi${OK}\r\nNO`, 200],
    ['an answer', `${OK}\r\nok`, 200],
  ];

  it('ends nothing but its own answer, and no browser acts on what it says', async (t) => {
    let answer = '';
    const cheat = createTcpServer((socket) => {
      socket.on('error', () => {}).on('data', () => socket.end(answer));
    });
    await new Promise<void>((resolve) => cheat.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(cheat.address() as AddressInfo).port}`;
    const running = await startConsole({ upstream: { url }, gallery: 'x', port: 0 });
    t.after(async () => {
      await running.close();
      cheat.close();
    });
    const { origin, hash, host } = new URL(running.address);
    const opened = await ask(origin, `${BASE}session`, { method: 'POST', headers: { host }, body: hash.slice(6) });
    const cookie = opened.headers['set-cookie']![0]!.split(';')[0]!;
    const headers = { host, cookie, 'x-hers-console': JSON.parse(opened.body).token };
    const known = [
      ...Object.keys(PAGE_HEADERS),
      ...['connection', 'content-length', 'content-type', 'date', 'retry-after', 'transfer-encoding'],
    ];
    for (const [what, text, status] of cases) {
      answer = text;
      const got = await ask(origin, '/v1', { headers });
      assert.equal(got.status, status, what);
      assert.doesNotMatch(got.headers['content-type'] ?? '', /html|script/, what);
      assert.match(
        String(got.headers['content-security-policy']),
        /^default-src 'none'; frame-ancestors 'none'$/,
        what,
      );
      assert.deepEqual(
        Object.keys(got.headers).filter((name) => !known.includes(name)),
        [],
        what,
      );
    }
  });
});
