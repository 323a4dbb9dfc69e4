// node examples/browser/serve.mjs [port]: this folder and the built module, for a browser on this machine.

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname } from 'node:path';

const built = new URL('../../packages/client/build/', import.meta.url);
const own = new URL('.', import.meta.url);
const files = { '/': own, '/page.js': own, '/page.css': own, '/hers.js': built, '/hers-worker.js': built };
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };

export const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost');
  if (!Object.hasOwn(files, pathname)) return response.writeHead(404).end();
  const name = pathname === '/' ? 'index.html' : pathname.slice(1);
  response.writeHead(200, {
    'content-type': `${types[extname(name)]}; charset=utf-8`,
    // What a page with the SDK needs, and no more.
    'content-security-policy':
      "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src http: https:",
  });
  response.end(await readFile(new URL(name, files[pathname])));
});

server.listen(Number(process.argv[2] ?? 8080), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
