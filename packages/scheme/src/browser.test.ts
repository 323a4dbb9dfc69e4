// `ring` and `scheme` run in browsers as they are: Chromium computes the known answers, on a page's
// main thread (where WebAssembly is compiled synchronously too) and in a worker.
//
// A server on this machine hands out the source files with their types stripped and every bare
// specifier replaced by the path of the file it stands for; an import map could do the latter, but
// not for workers.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { stripTypeScriptTypes } from 'node:module';
import type { AddressInfo } from 'node:net';
import { extname, join, relative, resolve, sep } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { init, parse } from 'es-module-lexer';
import { type Browser, chromium, type Page } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import expected from '../testing/known-answers.json' with { type: 'json' };

const root = resolve(import.meta.dirname, '../../..');
const browserPart = part('browser');

const pathOf = (file: string) => `/${relative(root, file).replaceAll(sep, '/')}`;
const answersPath = pathOf(join(import.meta.dirname, '../testing/known-answers.ts'));

/** What is served besides the sources. The answers come back as text, for JSON knows no −0. */
const pages: Record<string, readonly [type: string, text: string]> = {
  '/': ['text/html', '<!doctype html><meta charset="utf-8"><script type="module" src="/main.js"></script>'],
  '/main.js': script('globalThis.answers ='),
  '/worker.js': script('postMessage'),
};

function script(use: string): readonly [string, string] {
  const compute = `${use} (JSON.stringify(knownAnswers()));`;
  return ['text/javascript', `import { knownAnswers } from '${answersPath}'; ${compute}`];
}

/** The file that a specifier stands for in a browser: of a choice by conditions, the default. */
async function fileOf(specifier: string, path: string): Promise<string> {
  if (!specifier.startsWith('#')) return fileURLToPath(import.meta.resolve(specifier));
  const home = join(root, ...path.split('/').slice(0, 3));
  const { imports } = JSON.parse(await readFile(join(home, 'package.json'), 'utf8'));
  return join(home, imports[specifier].default);
}

/** A source file as a browser can load it. */
async function moduleText(path: string): Promise<string> {
  const source = await readFile(join(root, path), 'utf8');
  const text = extname(path) === '.ts' ? stripTypeScriptTypes(source) : source;
  let out = '';
  let end = 0;
  for (const item of parse(text)[0]) {
    if ((item.type !== 'static' && item.type !== 'reexport-star') || /^\.{0,2}\//.test(item.specifier)) continue;
    out += text.slice(end, item.start) + pathOf(await fileOf(item.specifier, path));
    end = item.end;
  }
  return out + text.slice(end);
}

async function serve(): Promise<{ server: Server; origin: string; served: Set<string> }> {
  await init();
  const served = new Set<string>();
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url!, 'http://localhost');
    try {
      const [type, text] = pages[pathname] ?? ['text/javascript', await moduleText(pathname)];
      served.add(pathname);
      response.writeHead(200, { 'content-type': `${type}; charset=utf-8` }).end(text);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return { server, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, served };
}

describe('in a browser', { skip: browserPart.skip, timeout: 60_000 }, () => {
  let web: Awaited<ReturnType<typeof serve>>;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];

  before(async () => {
    web = await serve();
    browser = await chromium.launch({
      executablePath: browserPart.path!,
      args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'],
    });
    page = await browser.newPage();
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('requestfailed', (request) => complaints.push(request.url()));
  });
  after(async () => {
    await browser?.close();
    web?.server.close();
  });

  it('the known answers come out on the main thread', async () => {
    await page.goto(web.origin);
    const answers = await page.evaluate<string | undefined>('globalThis.answers');
    assert.deepEqual(complaints, []);
    assert.deepEqual(JSON.parse(answers!), expected);
  });
  it('and in a worker', async () => {
    const answers = await page.evaluate<string>(`new Promise((done, fail) => {
      const worker = new Worker('/worker.js', { type: 'module' });
      worker.onmessage = ({ data }) => done(data);
      worker.onerror = ({ message }) => fail(new Error(message || 'the worker did not load'));
    })`);
    assert.deepEqual(JSON.parse(answers), expected);
  });
  it('from the sources themselves, and nothing else', () => {
    assert.deepEqual(complaints, []);
    const files = [...web.served].filter((path) => !Object.hasOwn(pages, path));
    assert.ok(files.includes(answersPath));
    for (const file of files)
      assert.match(file, /^\/(packages\/(ring|scheme)|node_modules\/@noble\/hashes)\/.*(?<!\.test)\.[jt]s$/);
  });
});
