// Invalid requests, generated from the server's own /openapi.json: invalid in their paths, their
// bodies, their headers, or as HTTP.

import { OCTETS } from '@hers/service';
import type { Dice } from '../cheating/dice.ts';
import { type Access, type Asked, type Attack, type Fight, messageOf, type Operation, type Schema } from './fight.ts';
import { answered } from './tally.ts';

const ACCESSES: readonly Access[] = ['none', 'wrong', 'search', 'write', 'admin'];
const SCOPES = ['search', 'write', 'admin'];
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'HEAD', 'TRACE', 'PROPFIND', 'QUERY', 'CONNECT'];
/** Invalid names, or names of no collection. */
const ODD_NAMES = [
  '',
  '.',
  '..',
  '%2e%2e',
  '%2e%2e%2f%2e%2e%2fetc%2fpasswd',
  '..%5c..',
  '%00',
  'a%00b',
  '%ff%fe',
  '%',
  '%zz',
  'a/b',
  'a%2fb',
  '-x',
  'x'.repeat(65),
  'x'.repeat(10_000),
  '__proto__',
  'constructor',
  'toString',
  '%F0%9F%92%A9',
  'a%20b',
  "'%20OR%201=1--",
  'x?y=1&y=2',
  'x;y',
  'x#y',
  '*',
];

function bytesOf(dice: Dice, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => dice.below(256)));
}

const lettersOf = (dice: Dice, letters: string, length: number) =>
  Array.from({ length }, () => letters[dice.below(letters.length)]).join('');

export function fitting(dice: Dice, schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const;
  switch (schema.type) {
    case 'object': {
      const { properties = {}, required = [] } = schema;
      const keys = Object.keys(properties).filter((key) => required.includes(key) || dice.happens(0.5));
      return Object.fromEntries(keys.map((key) => [key, fitting(dice, properties[key])]));
    }
    case 'array':
      return Array.from({ length: dice.below(4) }, () => fitting(dice, schema.items ?? {}));
    case 'integer':
      return dice.of([schema.minimum ?? 0, (schema.minimum ?? 0) + dice.below(5), schema.maximum ?? 1]);
    case 'boolean':
      return dice.happens(0.5);
    default: {
      const digits = /^\^\[0-9a-f\]\{(\d+)\}\$$/.exec(schema.pattern ?? '')?.[1];
      if (digits) return lettersOf(dice, '0123456789abcdef', Number(digits));
      return lettersOf(dice, 'abcdefghijklmnopqrstuvwxyz', dice.of([1, 5, Math.min(64, schema.maxLength ?? 64)]));
    }
  }
}

const ODD_VALUES: readonly unknown[] = [
  null,
  -1,
  0.5,
  1e308,
  2 ** 53,
  '',
  'x'.repeat(1000),
  '\u0000',
  '\ud800',
  [],
  [[]],
  {},
  { __proto__: null },
  true,
  [null],
  Array.from({ length: 70_000 }, () => 'x'),
];

/** A value that matched a schema and was then corrupted, as text. */
function misfitting(dice: Dice, schema: Schema): Buffer | string {
  const value = fitting(dice, schema) as Record<string, unknown>;
  const keys = Object.keys(schema.properties ?? {});
  const spoil: (() => Buffer | string)[] = [
    () => JSON.stringify({ ...value, [dice.of(keys)]: dice.of(ODD_VALUES) }),
    () => JSON.stringify(Object.fromEntries(Object.entries(value).slice(1))),
    () => JSON.stringify({ ...value, [dice.of(['x', 'constructor', '', 'version2'])]: dice.of(ODD_VALUES) }),
    () => `{"__proto__":{"admin":true},${JSON.stringify(value).slice(1)}`,
    () => JSON.stringify(dice.of(ODD_VALUES)),
    () => `${'['.repeat(2000)}${']'.repeat(2000)}`,
    () => `${JSON.stringify(value)}${dice.of(['}', 'x', '\u0000', ' \n', '{}'])}`,
    () => JSON.stringify(value).slice(0, -1),
    () => JSON.stringify(value).replace('{', '{"version":1,"version":2,'),
    () => `\ufeff${JSON.stringify(value)}`,
    () => Buffer.concat([Buffer.from('{"version":"'), Buffer.from([0xff, 0xfe, 0xc0]), Buffer.from('"}')]),
    () => dice.of(['NaN', 'Infinity', '', ' ', '0x1', "{'version':1}", '{"version":1e999}', '{"version":-0}']),
    () => bytesOf(dice, dice.below(200)),
  ];
  return dice.of(spoil)();
}

/** Frames that hold anything, or claim what they do not hold. */
function anyParts(dice: Dice): Buffer[] {
  return Array.from({ length: dice.below(8) }, () => bytesOf(dice, dice.of([0, 1, 15, 16, 17, 32, 48, 300])));
}

function spoiltFrames(dice: Dice, message: Buffer): Buffer {
  const copy = Buffer.from(message);
  const spoil: (() => Buffer)[] = [
    () => copy.subarray(0, dice.below(copy.length + 1)),
    () => {
      if (copy.length >= 4) copy.writeUInt32LE(dice.of([0xffff_ffff, 0x7fff_ffff, copy.length, copy.length - 3, 0]), 0);
      return copy;
    },
    () => {
      for (let i = 0; i < 4 && copy.length > 0; i++) copy[dice.below(copy.length)] ^= 1 << dice.below(8);
      return copy;
    },
    () => Buffer.concat([copy, bytesOf(dice, 1 + dice.below(7))]),
    () => Buffer.alloc(4 * dice.below(100)),
    () => bytesOf(dice, dice.below(500)),
  ];
  return dice.of(spoil)();
}

/** A body for an operation, valid in some ways and invalid in others. */
function bodyFor(fight: Fight, operation: Operation): Buffer {
  const { dice, ground } = fight;
  if (operation.takes === 'message' && operation.head) {
    const head = dice.happens(0.5) ? JSON.stringify(fitting(dice, operation.head)) : misfitting(dice, operation.head);
    const parts = dice.happens(0.3) ? [Buffer.from(dice.of(ground.query))] : anyParts(dice);
    const message = messageOf(head, parts);
    return dice.happens(0.3) ? spoiltFrames(dice, message) : message;
  }
  const shapes: (() => Buffer)[] = [
    () => Buffer.alloc(0),
    () => bytesOf(dice, 16 * (1 + dice.below(4))),
    () => bytesOf(dice, 1 + dice.below(100)),
    () => Buffer.from(dice.of([...ground.handles, ...ground.lists, ...ground.blocks, '00']), 'hex'),
    () => messageOf(bytesOf(dice, dice.of([0, 15, 16, 200])), anyParts(dice)),
    () => spoiltFrames(dice, messageOf(bytesOf(dice, 40), anyParts(dice))),
    () => Buffer.from(`HERSSNAP${lettersOf(dice, 'ab\u0000', 200)}`),
    () => Buffer.from(dice.of(ground.query)).subarray(0, 100 + dice.below(2000)),
  ];
  return dice.of(shapes)();
}

/** The path of an operation, and whose collection it names. */
function pathFor(fight: Fight, operation: Operation, oddity: number): { path: string; name: string | undefined } {
  const { dice, ground } = fight;
  let name: string | undefined;
  const path = operation.path.replace(/\{(\w+)\}/g, (_, param: string) => {
    if (dice.happens(oddity)) return dice.of(ODD_NAMES);
    if (param === 'block') return dice.of([...ground.blocks, lettersOf(dice, '0123456789abcdef', 32)]);
    name = dice.of([ground.honest, ground.prey, ground.scratch, ground.attic, 'nobody']);
    return name;
  });
  return { path, name };
}

/** Whether a token of this kind has no permission there. Paths with odd names are undecided. */
function isForbidden({ ground }: Fight, { needs }: Operation, access: Access, name: string | undefined): boolean {
  if (needs === 'open') return false;
  if (access === 'none' || access === 'wrong') return true;
  // Writers may post for devices.
  if (SCOPES.indexOf(access) < SCOPES.indexOf(needs === 'device' ? 'write' : needs)) return true;
  const own = { write: ground.scratch, admin: ground.attic }[access as string];
  return own !== undefined && name !== undefined && name !== own;
}

const CONTENT_TYPES = [
  OCTETS,
  OCTETS,
  OCTETS,
  'application/json',
  'text/plain',
  'multipart/form-data; boundary=x',
  'application/x-www-form-urlencoded',
  `${OCTETS}; charset=utf-8`,
  'APPLICATION/OCTET-STREAM',
  '',
  ';',
  'x',
  '*/*',
  'application/octet-stream, text/plain',
];

const describe = ({ method, path }: Operation, access: Access, how: string) => `${method} ${path} (${access}), ${how}`;

async function paths(fight: Fight): Promise<void> {
  const { dice, ground } = fight;
  await fight.each(3, async () => {
    const operation = dice.of(ground.api);
    const access = dice.of(ACCESSES);
    const method = dice.happens(0.5) ? operation.method : dice.of(METHODS);
    const { path, name } = pathFor(fight, operation, 0.5);
    const tail = dice.weighted([
      [6, ''],
      [1, '/'],
      [1, '/../..'],
      [1, '?x=1'],
      [1, `?${'y'.repeat(5000)}`],
      [1, '//'],
    ] as const);
    await fight.ask({
      method,
      path: path + tail,
      access,
      ...(method === 'POST' || method === 'PUT' ? { body: bodyFor(fight, operation) } : {}),
      about: describe(operation, access, `asked by ${method} with odd parameters`),
      isForbidden: method === operation.method && tail === '' && isForbidden(fight, operation, access, name),
    });
  });
}

async function bodies(fight: Fight): Promise<void> {
  const { dice, ground } = fight;
  const takers = ground.api.filter(({ takes }) => takes !== 'nothing');
  await fight.each(8, async () => {
    const operation = dice.of(takers);
    const access = dice.of([...ACCESSES, 'write', 'admin'] as const);
    const { path, name } = pathFor(fight, operation, 0.02);
    // If the token has some permission, most requests should get as far as their body.
    const own = { write: ground.scratch, admin: ground.attic, search: ground.prey }[access as string];
    const isOwn = own !== undefined && name !== undefined && dice.happens(0.7);
    const { method } = operation;
    const asked: Asked = {
      method,
      path: isOwn ? path.replace(name, own) : path,
      access,
      about: describe(operation, access, 'with an odd body'),
      isForbidden: isForbidden(fight, operation, access, isOwn ? own : name),
    };
    const body = bodyFor(fight, operation);
    const line = await fight.open();
    if (!line) return;
    const type = dice.happens(0.7) ? OCTETS : dice.of(CONTENT_TYPES);
    const length = dice.weighted([
      [10, `content-length: ${body.length}`],
      [1, `content-length: ${body.length + 1 + dice.below(1000)}`],
      [1, `content-length: ${Math.max(0, body.length - 1)}`],
      [1, `content-length: ${ground.bodyBytes + 1}`],
      [1, 'content-length: 99999999999999999999'],
      [2, 'transfer-encoding: chunked'],
      [1, 'content-encoding: gzip'],
    ] as const);
    line.say(fight.head({ ...asked, headers: [...(type === '' ? [] : [`content-type: ${type}`]), length] }));
    line.say(length.startsWith('transfer') ? chunked(dice, body) : body);
    await fight.hear(line, asked, 700);
    line.destroy();
  });
}

/** In chunks, usually valid ones. */
function chunked(dice: Dice, body: Buffer): Buffer {
  const half = body.length >> 1;
  const chunk = (bytes: Buffer) =>
    Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
  const parts = half > 0 ? [chunk(body.subarray(0, half)), chunk(body.subarray(half))] : [];
  const end = dice.weighted([
    [6, '0\r\n\r\n'],
    [1, '0\r\nx-trailer: 1\r\n\r\n'],
    [1, 'zz\r\n'],
    [1, '-1\r\n\r\n'],
    [1, 'ffffffffffffffffff\r\n'],
    [1, '5;ext=\u0001\r\nabc\r\n'],
    [1, '0x5\r\nabcde\r\n0\r\n\r\n'],
  ] as const);
  return Buffer.concat([...parts, Buffer.from(end)]);
}

async function headers(fight: Fight): Promise<void> {
  const { dice, ground } = fight;
  const odd: (() => string[])[] = [
    () => ['host: evil.example', 'origin: http://evil.example', 'sec-fetch-site: cross-site'],
    () => ['origin: https://evil.example'],
    () => ['origin: null', 'sec-fetch-mode: no-cors'],
    () => ['sec-fetch-site: cross-site', 'sec-fetch-mode: no-cors', 'sec-fetch-dest: image'],
    () => ['access-control-request-method: DELETE', 'origin: https://evil.example'],
    () => ['host: a', 'host: b'],
    () => [`host: ${'x'.repeat(3000)}`],
    () => [`x-large: ${'y'.repeat(dice.of([7000, 15_000, 20_000, 200_000]))}`],
    () => Array.from({ length: dice.of([90, 500, 3000]) }, (_, i) => `x-${i}: ${i}`),
    () => [`authorization: Bearer ${ground.tokens.search}`, `authorization: Bearer ${ground.tokens.admin}`],
    () => [`authorization: Bearer ${'A'.repeat(dice.of([100, 6000]))}`],
    () => [`authorization: Basic ${'QQ=='.repeat(20)}`],
    () => ['authorization: Bearer', 'authorization:'],
    () => ['expect: 100-continue'],
    () => ['expect: 200-ok'],
    () => ['upgrade: websocket', 'connection: upgrade', 'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=='],
    () => ['upgrade: h2c', 'connection: upgrade, http2-settings', 'http2-settings: AAMAAABkAAQAAP__'],
    () => ['connection: close, keep-alive, content-length'],
    () => ['content-length: 5', 'content-length: 6'],
    () => ['content-length: -1'],
    () => ['content-length: 1e3'],
    () => ['content-length: 5', 'transfer-encoding: chunked'],
    () => ['transfer-encoding: gzip, chunked'],
    () => ['transfer-encoding: identity'],
    () => ['content-type: application/octet-stream', 'content-type: text/plain'],
    () => ['range: bytes=0-99999999999', 'if-none-match: *', 'if-match: "x"'],
    () => ['x-forwarded-for: 127.0.0.1', 'x-forwarded-host: evil.example', 'x-http-method-override: DELETE'],
    () => ['x-null: a\u0000b'],
    () => ['x bad name: 1'],
    () => [': nothing'],
    () => ['x-folded: a\r\n b\r\n c'],
    () => ['accept: application/json;q=0', 'accept-encoding: gzip;q=1, *;q=0'],
  ];
  await fight.each(6, async () => {
    const operation = dice.of(ground.api);
    const access = dice.of(ACCESSES);
    const { path, name } = pathFor(fight, operation, 0.02);
    const asked: Asked = {
      method: operation.method,
      path,
      access,
      about: describe(operation, access, 'with odd headers'),
    };
    const line = await fight.open();
    if (!line) return;
    const lines = dice.of(odd)();
    const isReplaced = (own: string) => lines.some((each) => each.startsWith(`${own.split(':')[0]}:`));
    const own = [`host: ${ground.host}:${ground.port}`, ...fight.credentials(access)].filter(
      (each) => !isReplaced(each),
    );
    line.say(`${operation.method} ${path} HTTP/1.1\r\n${[...own, ...lines].join('\r\n')}\r\n\r\n`);
    if (operation.takes !== 'nothing') line.say(bodyFor(fight, operation));
    const forbidden =
      !lines.some((each) => each.startsWith('authorization')) && isForbidden(fight, operation, access, name);
    await fight.hear(line, { ...asked, isForbidden: forbidden }, 700);
    line.destroy();
  });
}

async function raw(fight: Fight): Promise<void> {
  const { dice, ground } = fight;
  const host = `host: ${ground.host}:${ground.port}`;
  const path = `/v1/collections/${ground.prey}`;
  const token = `authorization: Bearer ${ground.tokens.search}`;
  const good = `GET ${path} HTTP/1.1\r\n${host}\r\n${token}\r\n\r\n`;
  const odd: readonly (readonly [string, () => string | Buffer])[] = [
    ['HTTP/1.0', () => `GET ${path} HTTP/1.0\r\n\r\n`],
    ['HTTP/1.0 with a token', () => `GET ${path} HTTP/1.0\r\n${host}\r\n${token}\r\n\r\n`],
    ['HTTP/0.9', () => `GET ${path}\r\n\r\n`],
    ['HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u0000\u0004\u0000\u0000\u0000\u0000\u0000'],
    ['HTTP/9.9', () => `GET ${path} HTTP/9.9\r\n${host}\r\n\r\n`],
    ['no Host', () => `GET ${path} HTTP/1.1\r\n\r\n`],
    ['a whole address', () => `GET http://evil.example${path} HTTP/1.1\r\n${host}\r\n\r\n`],
    ['a star', () => `OPTIONS * HTTP/1.1\r\n${host}\r\n\r\n`],
    ['no slash', () => `GET v1 HTTP/1.1\r\n${host}\r\n\r\n`],
    ['lower case', () => `get ${path} http/1.1\r\n${host}\r\n\r\n`],
    ['bare line feeds', () => `GET ${path} HTTP/1.1\n${host}\n\n`],
    ['spaces', () => `GET   ${path}   HTTP/1.1\r\n${host}\r\n\r\n`],
    ['a path of letters', () => `GET /${'x'.repeat(dice.of([2000, 15_000, 100_000]))} HTTP/1.1\r\n${host}\r\n\r\n`],
    ['a path of bytes', () => `GET /\u00ff\u00fe\u0001 HTTP/1.1\r\n${host}\r\n\r\n`],
    ['TLS', () => Buffer.concat([Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]), bytesOf(dice, 500)])],
    ['garbage', () => bytesOf(dice, 1 + dice.below(2000))],
    ['zeros', () => Buffer.alloc(1 + dice.below(20_000))],
    ['CONNECT', () => `CONNECT evil.example:80 HTTP/1.1\r\n${host}\r\n\r\n`],
    ['an end in the head', () => good.slice(0, dice.below(good.length))],
    [
      'chunks that are none',
      () =>
        `POST ${path}/search HTTP/1.1\r\n${host}\r\n${token}\r\ncontent-type: ${OCTETS}\r\ntransfer-encoding: chunked\r\n\r\n${dice.of(['zz\r\nabc', '\r\n\r\n', '5\r\nabcdefgh\r\n0\r\n\r\n', `${'f'.repeat(30)}\r\n`, `1${' '.repeat(30_000)}`, `5;${'x'.repeat(100_000)}`])}`,
    ],
    ['pipelined', () => good.repeat(2 + dice.below(60))],
    [
      'pipelined with bodies',
      () =>
        `POST ${path}/search HTTP/1.1\r\n${host}\r\n${token}\r\ncontent-type: ${OCTETS}\r\ncontent-length: 3\r\n\r\nabc`.repeat(
          2 + dice.below(20),
        ),
    ],
    [
      'smuggled',
      () =>
        `POST ${path}/search HTTP/1.1\r\n${host}\r\n${token}\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nDELETE ${path} HTTP/1.1\r\n${host}\r\n\r\n`,
    ],
  ];
  await fight.each(3, async () => {
    const [how, make] = dice.of(odd);
    const line = await fight.open();
    if (!line) return;
    const bytes = make();
    line.say(bytes);
    const isKnown = bytes.includes(ground.tokens.search);
    const asked = { path, about: `raw: ${how}`, isForbidden: !isKnown };
    let answer = await fight.hear(line, asked, 500);
    while (answer && how.startsWith('pipelined')) {
      answer = await line.answer(300);
      if (!answer) break;
      fight.tally.sent++;
      answered(fight.tally, answer, asked.about);
    }
    line.destroy();
  });
}

export const MALFORMED: readonly Attack[] = [
  { name: 'malformed paths', run: paths },
  { name: 'malformed bodies', run: bodies, weight: 1.5 },
  { name: 'malformed headers', run: headers },
  { name: 'malformed HTTP', run: raw },
];
