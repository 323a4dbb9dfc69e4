// How fast the page is: until it can be used, until a large collection is open, and per search.
//
//   node packages/console/testing/speed.ts [records] [dimension]
//
// Times are those of the page's own clock, up to the frame that shows what was waited for.
// Playwright is no part of this: it has the browser report the body of every request, which takes
// longer than the search that the request is for.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Database, MasterSeed, sealKey } from '@hers/client';
import { startServer } from '@hers/server';
import { openStore } from '@hers/store';
import { part } from '../../../tools/parts.ts';
import { BASE, PAGE_HEADERS, readPage, serverFiles } from '../src/node/index.node.ts';
import { PASSPHRASE, vectorOf } from './trial.ts';

const [records = 100_000, dimension = 128] = process.argv.slice(2).map(Number);
const SEARCHES = 31;

/** What DevTools answer to one connection, a page's or the browser's. */
class DevTools {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  #last = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener('message', ({ data }) => {
      const { id, result, error } = JSON.parse(String(data));
      const { resolve, reject } = this.#waiting.get(id) ?? {};
      this.#waiting.delete(id);
      if (error) reject?.(new Error(error.message));
      else resolve?.(result as never);
    });
  }

  static async connect(url: string): Promise<DevTools> {
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', reject);
    });
    return new DevTools(socket);
  }

  send<T>(method: string, params: object = {}): Promise<T> {
    const id = ++this.#last;
    this.#socket.send(JSON.stringify({ id, method, params }));
    return new Promise<T>((resolve, reject) => this.#waiting.set(id, { resolve: resolve as never, reject }));
  }

  /** Runs a function in the page, and waits for it. */
  async evaluate<A extends readonly unknown[], T>(work: (...inputs: A) => T, ...inputs: A): Promise<Awaited<T>> {
    const expression = `(${work})(...${JSON.stringify(inputs)})`;
    const { result, exceptionDetails: failed } = await this.send<{
      result: { value: Awaited<T> };
      exceptionDetails?: { exception?: { description?: string } };
    }>('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (failed) throw new Error(failed.exception?.description ?? 'the page failed');
    return result.value;
  }

  close(): void {
    this.#socket.close();
  }
}

const folder = await mkdtemp(join(tmpdir(), 'hers-console-speed-'));
const gallery = join(folder, 'gallery');
using key = MasterSeed.generate();
const database = new Database(await openStore(gallery), { key });
const collection = await database.createCollection('large', { dimension });
function* all() {
  for (let i = 0; i < records; i++) yield { id: `record-${i}`, vector: Float32Array.from(vectorOf(i, dimension)) };
}
await collection.upsert(all());
await collection.optimize();
await database.close();

const site = { base: BASE, headers: PAGE_HEADERS, files: [...(await readPage()), ...serverFiles()] };
const server = await startServer(await openStore(gallery), { port: 0, site });
const profile = `--user-data-dir=${join(folder, 'profile')}`;
const browser = spawn(
  part('browser').path!,
  ['--headless', '--no-sandbox', '--remote-debugging-port=0', '--window-size=1280,900', profile, 'about:blank'],
  { stdio: ['ignore', 'ignore', 'pipe'] },
);
process.once('exit', () => browser.kill());
const endpoint = await new Promise<string>((found, reject) => {
  let said = '';
  browser.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    const [, url] = /DevTools listening on (\S+)/.exec(said) ?? [];
    if (url !== undefined) found(url);
  });
  browser.once('exit', () => reject(new Error(said)));
});
const whole = await DevTools.connect(endpoint);
const targets = (await (await fetch(`http://${new URL(endpoint).host}/json/list`)).json()) as {
  type: string;
  webSocketDebuggerUrl: string;
}[];
const page = await DevTools.connect(targets.find(({ type }) => type === 'page')!.webSocketDebuggerUrl);

/** Put into the page before anything else runs there. */
interface Tools {
  /** The time of the frame after which something is there. */
  shown(is: () => unknown): Promise<number>;
  named(selector: string, text: string): HTMLElement | undefined;
  write(selector: string, text: string): void;
}
declare global {
  var tools: Tools;
}
const makeTools = () => {
  globalThis.tools = {
    shown: (is) =>
      new Promise((resolve) => {
        const look = () => {
          if (!is()) return;
          observer.disconnect();
          requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
        };
        const observer = new MutationObserver(look);
        observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
        look();
      }),
    named: (selector, text) =>
      [...document.querySelectorAll<HTMLElement>(selector)].find((each) => each.textContent === text),
    write: (selector, text) => {
      const field = document.querySelector<HTMLInputElement>(selector)!;
      field.value = text;
      field.dispatchEvent(new Event('input', { bubbles: true }));
    },
  };
};
await page.send('Page.enable');
await page.send('Page.addScriptToEvaluateOnNewDocument', { source: `(${makeTools})()` });
await page.send('Page.navigate', { url: server.url + BASE });
const usable = await page.evaluate(() => tools.shown(() => tools.named('button', 'Unlock')));
await page.evaluate(
  async (text, passphrase) => {
    const input = document.querySelector<HTMLInputElement>('input[type=file]')!;
    const files = new DataTransfer();
    files.items.add(new File([text], 'hers.key'));
    input.files = files.files;
    input.dispatchEvent(new Event('change', { bubbles: true }));
    await tools.shown(() => document.body.textContent?.includes('hers.key'));
    tools.write('input[type=password]', passphrase);
    tools.named('button', 'Unlock')!.click();
    await tools.shown(() => tools.named('a', 'large'));
  },
  await sealKey(key, PASSPHRASE, 2 ** 10),
  PASSPHRASE,
);
const opened = await page.evaluate(async () => {
  tools.named('a', 'large')!.click();
  await tools.shown(() => tools.named('a', 'records'));
  const began = performance.now();
  tools.named('a', 'records')!.click();
  return (await tools.shown(() => document.querySelector('.ids li'))) - began;
});
await page.evaluate(async () => {
  tools.named('a', 'search')!.click();
  await tools.shown(() => document.querySelector('textarea'));
  // Nobody fills in the form in less, and the page gets ready meanwhile.
  await new Promise((resolve) => setTimeout(resolve, 1000));
});
const searches: { readonly shown: number; readonly steps: string }[] = [];
for (let i = 0; i < SEARCHES; i++)
  searches.push(
    await page.evaluate(
      async (id, probe) => {
        tools.write('textarea', probe);
        await tools.shown(() => true);
        const began = performance.now();
        tools.named('button', 'Search')!.click();
        const first = () => document.querySelector('.results tbody th')?.textContent === id;
        const shown = (await tools.shown(first)) - began;
        const steps = [...document.querySelectorAll('.timeline li')].map((each) => each.textContent).join(', ');
        return { shown, steps };
      },
      `record-${i}`,
      vectorOf(i, dimension).join(' '),
    ),
  );
const [first, ...later] = searches;
const sorted = later.toSorted((a, b) => a.shown - b.shown);
const ms = ({ shown }: { readonly shown: number }) => `${shown.toFixed(0)} ms`;
const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))]!;
const heap = await page.send<{ usedSize: number }>('Runtime.getHeapUsage');
console.log(`${records} records of ${dimension} dimensions, ${cpus().length} × ${cpus()[0]!.model}`);
console.log(`the page can be used after ${usable.toFixed(0)} ms; the collection is open after ${opened.toFixed(0)} ms`);
console.log(
  `a search, from the click to the frame that shows it: ${ms(at(0))} at best, ${ms(at(0.5))} median, ` +
    `${ms(at(0.95))} p95, ${ms(at(1))} at worst; the first ${ms(first!)}`,
);
console.log(`the median one: ${at(0.5).steps}`);
console.log(`the first: ${first!.steps}`);
const resident = await largestRenderer();
console.log(
  `the page takes ${(heap.usedSize / 1e6).toFixed(0)} MB of JavaScript memory; its process ${resident} MB in all`,
);
page.close();
await whole.send('Browser.close');
whole.close();
if (browser.exitCode === null) await new Promise((resolve) => browser.once('exit', resolve));
await server.close();
await rm(folder, { recursive: true, force: true, maxRetries: 5 });

/** Resident memory, in MB, of the largest process that shows a page, with its workers. */
async function largestRenderer(): Promise<number> {
  const { processInfo } = await whole.send<{ processInfo: { type: string; id: number }[] }>(
    'SystemInfo.getProcessInfo',
  );
  const sizes = processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => Number(/VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${id}/status`, 'utf8'))?.[1]) / 1000);
  return Math.round(Math.max(...sizes));
}
