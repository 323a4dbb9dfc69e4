// The files of the page, and the headers that go with each of them.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip, gzipSync } from 'node:zlib';
import { HersError } from '@hers/service';

/** A file of the page, as a server gives it away. */
export interface PageFile {
  /** Below `/console/`; empty for the page itself. */
  readonly path: string;
  /** Its media type. */
  readonly type: string;
  /** Its bytes. */
  readonly body: Uint8Array;
  /** The same, compressed. */
  readonly compressed: Uint8Array;
}

/** Where the page lies on every server that has it. */
export const BASE = '/console/';

const POLICY: string = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "style-src 'self'",
  "img-src 'self' blob: data:",
  "worker-src 'self' blob:",
  "connect-src 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

const FEATURES = ['display-capture', 'geolocation', 'microphone', 'midi', 'payment', 'serial', 'usb'];

/** Nothing from elsewhere, no frame around it, nothing kept, no device but a camera, if asked. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': ['camera=(self)', ...FEATURES.map((name) => `${name}=()`)].join(', '),
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

const JS = 'text/javascript; charset=utf-8';
/** Named from this package; the module of the client and its worker are used as they are. */
const FILES: readonly (readonly [path: string, type: string, file: string])[] = [
  ['', 'text/html; charset=utf-8', 'src/page/index.html'],
  ['console.css', 'text/css; charset=utf-8', 'src/page/console.css'],
  ['icon.svg', 'image/svg+xml', 'src/page/icon.svg'],
  ['console.js', JS, 'build/console.js'],
  ['models.js', JS, 'build/models.js'],
  ['hers.js', JS, '../client/build/hers.js'],
  ['hers-worker.js', JS, '../client/build/hers-worker.js'],
];

const compress = promisify(gzip);

/** Reads the page. NOT_FOUND where it was not built. */
export function readPage(): Promise<PageFile[]> {
  const home = join(import.meta.dirname, '../..');
  return Promise.all(
    FILES.map(async ([path, type, file]) => {
      const body = await readFile(join(home, file)).catch(() => {
        throw new HersError('NOT_FOUND', `the console is not built: ${file} is missing; run \`npm run build\``);
      });
      return { path, type, body, compressed: await compress(body, { level: 9 }) };
    }),
  );
}

/** What `hers serve` answers where `hers console` has a session, models and an example: none. */
export function serverFiles(): PageFile[] {
  const answers = { session: { kind: 'server' }, models: { models: [], missing: [] }, example: {} };
  return Object.entries(answers).map(([path, answer]) => {
    const body = Buffer.from(`${JSON.stringify(answer)}\n`);
    return { path, type: 'application/json; charset=utf-8', body, compressed: gzipSync(body) };
  });
}
