// A page compresses as Node does: the sources of `compress` with their types stripped,
// nothing else, and onnxruntime-web where the page brings it.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { stripTypeScriptTypes } from 'node:module';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { chromium } from 'playwright-core';
import { part } from '../../../tools/parts.ts';
import { synthetic } from '../testing/identities.ts';
import { fit } from './fit.ts';

const root = resolve(import.meta.dirname, '../../..');
const browserPart = part('browser');
const types: Record<string, string> = {
  ts: 'text/javascript',
  mjs: 'text/javascript',
  wasm: 'application/wasm',
  onnx: 'application/octet-stream',
};

/** What the page does: compresses by itself, and in onnxruntime-web. */
const script = `
  import { load } from '/packages/compress/src/index.ts';
  import * as ort from '/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs';
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = '/node_modules/onnxruntime-web/dist/';
  globalThis.compress = async (name, numbers, rows) => {
    const bytes = new Uint8Array(await (await fetch(name)).arrayBuffer());
    const vectors = Float32Array.from(numbers);
    const plain = await (await load(bytes)).transform(vectors);
    const session = await ort.InferenceSession.create(bytes);
    const { compressed } = await session.run({ vectors: new ort.Tensor('float32', vectors, [rows, vectors.length / rows]) });
    return [Array.from(plain), Array.from(compressed.data)];
  };
  globalThis.ready = true;`;

test('a page compresses as Node does, by itself and in onnxruntime-web', {
  skip: browserPart.skip,
  timeout: 90_000,
}, async () => {
  const { vectors, labels } = synthetic({ classes: 20, each: 4, dimension: 16 });
  const options = { dimension: 4, validation: 0 };
  const models = {
    '/linear.onnx': await fit('lda', vectors, labels, { ...options, settings: { shrinkage: 0.3 } }),
    '/network.onnx': await fit('ranking', vectors, labels, { ...options, settings: { steps: 5, hidden: [12] } }),
  };
  const served: string[] = [];
  const server = createServer(async (request, response) => {
    const { pathname: path } = new URL(request.url!, 'http://localhost');
    try {
      let body: string | Uint8Array;
      if (path === '/') body = `<!doctype html><meta charset="utf-8"><script type="module">${script}</script>`;
      else if (Object.hasOwn(models, path)) body = models[path as keyof typeof models].save();
      else {
        served.push(path);
        body = await readFile(join(root, path));
        if (path.endsWith('.ts')) body = stripTypeScriptTypes(String(body));
      }
      response.writeHead(200, { 'content-type': types[path.split('.').at(-1)!] ?? 'text/html' }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const args = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run'];
  const browser = await chromium.launch({ executablePath: browserPart.path!, args });
  try {
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    await page.waitForFunction('globalThis.ready');
    for (const [name, compressor] of Object.entries(models)) {
      const expected = await compressor.transform(vectors);
      const call = `compress(${JSON.stringify([name, [...vectors], labels.length]).slice(1, -1)})`;
      for (const found of await page.evaluate<number[][]>(call)) {
        assert.equal(found.length, expected.length);
        found.forEach((x, i) => assert.ok(Math.abs(x - expected[i]) < 1e-5, name));
      }
    }
    assert.deepEqual(complaints, []);
    const sources = served.filter((path) => path.endsWith('.ts'));
    assert.ok(sources.length > 3);
    // Nothing that needs Node was asked for.
    for (const path of sources) assert.match(path, /^\/packages\/compress\/src\/[a-z]+\.ts$/);
  } finally {
    await browser.close();
    server.close();
  }
});
