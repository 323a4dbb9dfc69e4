// `hers console`: the page on this machine alone, and through it one gallery.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { HersError, takesGzip } from '@hers/service';
import { BASE, PAGE_HEADERS, type PageFile, readPage } from './files.node.ts';
import { type FoundModel, type MissingModel, modelFile } from './models.node.ts';
import { answerError, ServerProxy, type Upstream } from './proxy.node.ts';

/** What `hers console` is given. */
export interface ConsoleOptions {
  /** The server that it leads to. */
  readonly upstream: Upstream;
  /** How the gallery is called on the page, and remembered: its folder or its address. */
  readonly gallery: string;
  /** Where it listens on 127.0.0.1; 7444 by default, 0 for any. */
  readonly port?: number;
  /** A sealed key file that is offered to whoever opens the page; it still takes its passphrase. */
  readonly keyFile?: { readonly name: string; readonly text: string };
  /** Models for its page, and those that could be had. */
  readonly models?: { readonly models: readonly FoundModel[]; readonly missing: readonly MissingModel[] };
  /** Where the gallery is an example, made up for this: it has no secrets. */
  readonly example?: ExampleGallery;
}

/** A gallery without secrets, to try things with. */
export interface ExampleGallery {
  /** Of the key file. */
  readonly passphrase: string;
  /** What is in its collections, in the clear, for comparison. */
  readonly collections: Readonly<Record<string, PlainCollection>>;
}

/** The vectors of a collection in the clear. */
export interface PlainCollection {
  /** One for each vector. */
  readonly ids: readonly string[];
  /** Coordinates of a vector. */
  readonly dimension: number;
  /** One behind the other. */
  readonly vectors: Float32Array;
  readonly probes?: readonly { readonly label: string; readonly vector: readonly number[] }[];
}

/** A console that listens. */
export interface RunningConsole {
  /** With the secret, which opens it once. */
  readonly address: string;
  /** Ends its connections. */
  close(): Promise<void>;
}

const DEFAULT_PORT = 7444;
/** The header with the token of the session. */
const TOKEN_HEADER = 'x-hers-console';
/** Of the secret, in a body. */
const SECRET_BYTES = 1024;
/** What a browser says of a request that no other page has made. */
const OWN_SITES: readonly unknown[] = [undefined, 'same-origin', 'none'];

/** What everything but the page is answered with. */
const DATA_HEADERS = { ...PAGE_HEADERS, 'content-security-policy': "default-src 'none'; frame-ancestors 'none'" };

export async function startConsole(options: ConsoleOptions): Promise<RunningConsole> {
  const { port = DEFAULT_PORT } = options;
  const page = await readPage();
  const server = createServer({ requestTimeout: 0 });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, port)));
    server.listen(port, '127.0.0.1', resolve);
  });
  const bound = (server.address() as AddressInfo).port;
  const host = `127.0.0.1:${bound}`;
  const session = new Session(bound);
  const proxy = new ServerProxy(options.upstream);
  const heard = new WeakSet<object>();
  server.on('request', (incoming, outgoing) => {
    heard.add(incoming.socket);
    answer({ ...options, page, host, session, proxy }, incoming, outgoing).catch(() => outgoing.destroy());
  });
  // What is no request that can be read. Node would answer without these headers.
  server.on('clientError', (_, socket) => {
    // What follows a request that was answered gets no answer.
    if (!socket.writable || heard.has(socket)) return void socket.destroy();
    const lines = Object.entries(DATA_HEADERS).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.end(`HTTP/1.1 400 Bad Request\r\n${lines.join('')}content-length: 0\r\nconnection: close\r\n\r\n`);
  });
  return {
    address: `http://${host}${BASE}#open=${session.secret}`,
    async close() {
      proxy.close();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

interface Console extends ConsoleOptions {
  readonly page: readonly PageFile[];
  /** The only name that it answers to. */
  readonly host: string;
  readonly session: Session;
  readonly proxy: ServerProxy;
}

async function answer(console: Console, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { method, url: path = '' } = incoming;
  const refusal = refusalOf(console, incoming);
  if (refusal !== undefined) return refuse(outgoing, refusal);
  const { session, proxy, keyFile, gallery, models = { models: [], missing: [] }, example } = console;
  if (method === 'GET' && isPage(path)) return sendPage(console, incoming, outgoing);
  // A worker has no token of the session. Its files are no secrets: the cookie does.
  if (method === 'GET' && path.startsWith(MODELS) && session.knows(incoming.headers.cookie))
    return sendModel(models.models, path.slice(MODELS.length), outgoing);
  if (method === 'POST' && path === `${BASE}session`) {
    const opened = session.open(await bodyOf(incoming));
    if (!opened)
      return refuse(outgoing, 'this address was used already, or is not the newest: run `hers console` again');
    return json(outgoing, { kind: 'command', gallery, token: opened.token }, { 'set-cookie': opened.cookie });
  }
  const { cookie, [TOKEN_HEADER]: token } = incoming.headers;
  if (!session.admits(cookie, token))
    return refuse(outgoing, 'this page was not opened by its address: run `hers console` again', 401);
  if (method === 'GET' && path === `${BASE}session`) return json(outgoing, { kind: 'command', gallery });
  if (method === 'GET' && path === `${BASE}key`) return json(outgoing, keyFile ?? {});
  if (method === 'GET' && path === `${BASE}models`)
    return json(outgoing, { models: models.models.map(({ facts }) => facts), missing: models.missing });
  if (method === 'GET' && path === `${BASE}example`)
    return json(outgoing, example ? { ...example, collections: Object.keys(example.collections) } : {});
  const plain = method === 'GET' && path.startsWith(EXAMPLE) ? plainOf(example, path.slice(EXAMPLE.length)) : undefined;
  if (plain) return json(outgoing, plain);
  if (proxy.takes(path)) return proxy.pass(incoming, outgoing, path, DATA_HEADERS);
  notFound(outgoing, 'path');
}

const MODELS = `${BASE}models/`;
const EXAMPLE = `${BASE}example/`;
const PRIVATE = /^(?:session|key|models|example)(?:\/|$)/;
const isPage = (path: string) =>
  path === '/' || path === BASE.slice(0, -1) || (path.startsWith(BASE) && !PRIVATE.test(path.slice(BASE.length)));

/** A collection of the example in the clear, as JSON can hold it. */
function plainOf(example: ExampleGallery | undefined, name: string): object | undefined {
  if (!example || !Object.hasOwn(example.collections, name)) return undefined;
  const { ids, dimension, vectors, probes = [] } = example.collections[name]!;
  const bytes = Buffer.from(vectors.buffer, vectors.byteOffset, vectors.byteLength);
  return { ids, dimension, probes, vectors: bytes.toString('base64') };
}

async function sendModel(models: readonly FoundModel[], path: string, outgoing: ServerResponse): Promise<void> {
  const file = await modelFile(models, path);
  if (!file) return notFound(outgoing, 'file');
  // A worker has the policy that it comes with, not that of its page.
  outgoing.writeHead(200, { ...PAGE_HEADERS, 'content-type': file.type, 'content-length': file.bytes });
  await pipeline(file.open(), outgoing);
}

/** Why a request is refused: it comes under another name, or from a page of another origin. */
function refusalOf({ host }: Console, { headers, method, url = '' }: IncomingMessage): string | undefined {
  const { origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': target } = headers;
  // A whole address in the place of a path is for proxies.
  if (headers.host !== host || !url.startsWith('/')) return `this console answers to http://${host} alone`;
  const isOwn = OWN_SITES.includes(site) && (origin === undefined || origin === `http://${host}`);
  // A link to the page may stand anywhere. It shows nothing to whoever has set it.
  const isVisit = method === 'GET' && isPage(url) && mode === 'navigate' && target === 'document';
  return isOwn || isVisit ? undefined : 'pages of other origins may not use this console';
}

function sendPage({ page }: Console, { url = '', headers }: IncomingMessage, outgoing: ServerResponse): void {
  const file = page.find(({ path }) => BASE + path === url);
  const encoding = takesGzip(headers['accept-encoding']) ? { 'content-encoding': 'gzip' } : undefined;
  if (!url.startsWith(BASE)) outgoing.writeHead(302, { ...DATA_HEADERS, location: BASE }).end();
  else if (!file) notFound(outgoing, 'file');
  else
    outgoing
      .writeHead(200, { ...PAGE_HEADERS, 'content-type': file.type, ...encoding })
      .end(encoding ? file.compressed : file.body);
}

function notFound(outgoing: ServerResponse, what: 'file' | 'path'): void {
  answerError(outgoing, 404, new HersError('NOT_FOUND', `there is no such ${what}`), DATA_HEADERS);
}

function json(outgoing: ServerResponse, value: object, more: Record<string, string> = {}): void {
  outgoing.writeHead(200, { ...DATA_HEADERS, 'content-type': 'application/json; charset=utf-8', ...more });
  outgoing.end(JSON.stringify(value));
}

function refuse(outgoing: ServerResponse, why: string, status: 401 | 403 = 403): void {
  // What is on its way is not read.
  outgoing.setHeader('connection', 'close');
  answerError(outgoing, status, new HersError(status === 401 ? 'UNAUTHENTICATED' : 'FORBIDDEN', why), DATA_HEADERS);
}

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of incoming.setEncoding('utf8')) {
    text += piece;
    if (text.length > SECRET_BYTES) return '';
  }
  return text;
}

function listenError(error: NodeJS.ErrnoException, port: number): Error {
  const isTaken = error.code === 'EADDRINUSE';
  const why = isTaken ? 'something else listens there already; --port chooses another' : (error.code ?? 'it failed');
  return new HersError('INVALID_ARGUMENT', `cannot listen on 127.0.0.1:${port}: ${why}`);
}

// Who may use a console: whoever opened the address that its command has printed, once.
//
// The secret of the address is in its fragment, so no request and no log holds it. The page sends
// it once, and gets two things for it. A cookie, which scripts cannot read; but cookies know no
// ports, so every other server of this machine that is opened in the same browser is sent it. And
// a token, which the page keeps for its origin, and origins do know ports. A request needs both.

const random = () => randomBytes(32).toString('base64url');

/** Compared by their hashes: neither length nor time tells anything. */
function isSame(one: string, other: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(one), hash(other));
}

export class Session {
  /** For the address. */
  readonly secret: string = random();
  readonly #cookieName: string;
  readonly #cookie = random();
  readonly #token = random();
  #isOpen = false;

  /** Ports tell the cookies of consoles from each other, though not who is sent them. */
  constructor(port: number) {
    this.#cookieName = `hers-console-${port}`;
  }

  /** The token and the header of the cookie for the secret, the first time that it is shown. */
  open(secret: string): { readonly token: string; readonly cookie: string } | undefined {
    if (this.#isOpen || !isSame(secret, this.secret)) return undefined;
    this.#isOpen = true;
    return { token: this.#token, cookie: `${this.#cookieName}=${this.#cookie}; Path=/; HttpOnly; SameSite=Strict` };
  }

  /** Whether a request shows both. */
  admits(cookies: string | undefined, token: string | string[] | undefined): boolean {
    return typeof token === 'string' && isSame(token, this.#token) && this.knows(cookies);
  }

  /** Whether a request shows the cookie, which other servers of this machine may have seen. */
  knows(cookies: string | undefined): boolean {
    if (!this.#isOpen) return false;
    const pairs = (cookies ?? '').split(';').map((pair) => pair.trim().split('='));
    // Another server of this machine can set a cookie of the same name, and browsers send both.
    const shown = pairs.filter(([name, value = '']) => name === this.#cookieName && isSame(value, this.#cookie));
    return shown.length > 0;
  }
}
